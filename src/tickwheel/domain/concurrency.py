"""Limits of concurrency: at most so many runs in flight under one count, over the whole cluster.

A job names up to four limits. Each counts the runs in flight of one *count*: those of the tenant, those of all
jobs of its name, or those of all jobs that name the same key (all within the tenant). A run starts when every
count of its job has a free slot, and holds a slot in each from its claim to its end. What the limit is, each job
says for itself: of two jobs with one key and the limits 1 and 5, the first starts only while nothing else runs.
The record of a tenant may limit its runs as well; then each of its claims brings that limit along.

Example: `{"key": "customer-42", "limit": 2}` and `{"scope": "tenant", "limit": 100}`: a third run for that
customer waits though the tenant has 90 slots left.

Here is what every store decides alike; `slots` of a store keep it, written in the very transaction in which a run
is claimed and ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec


class Scope(StrEnum):
    """What a limit counts the runs of."""

    KEY = "key"
    JOB_NAME = "job_name"
    TENANT = "tenant"


class Limit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A limit as a job states it. `key` is for the scope of that name only.

    `max_waiting` None: any number of runs waits for a slot. Else so many, and further ones are SKIPPED.
    """

    limit: int
    scope: Scope = Scope.KEY
    key: str = ""
    max_waiting: int | None = None


class Counted(NamedTuple):
    """A limit with the name of what it counts."""

    name: str
    limit: int
    max_waiting: int | None


@lru_cache(maxsize=4_096)
def counted(
    limits: tuple[Limit, ...], tenant_id: str, job_name: str, tenant_limit: int = 0
) -> tuple[Counted, ...]:
    """The limits of a job of that tenant and name. (None of the three texts can hold a line feed.)

    `tenant_limit`: what the tenant is allowed, whatever its jobs say; 0 = anything. Beside a job's own limit of
    the same count the lower one holds.
    """
    stated = [
        Counted(f"{one.scope}\n{tenant_id}\n{_word(one, job_name)}", one.limit, one.max_waiting) for one in limits
    ]
    if tenant_limit:
        whole = whole_tenant(tenant_id)
        if all(one.name != whole for one in stated):
            stated.append(Counted(whole, tenant_limit, None))
        stated = [one._replace(limit=min(one.limit, tenant_limit)) if one.name == whole else one for one in stated]
    return tuple(stated)


def whole_tenant(tenant_id: str) -> str:
    """The name of the count of all runs of a tenant."""
    return f"{Scope.TENANT}\n{tenant_id}\n"


def _word(limit: Limit, job_name: str) -> str:
    if limit.scope is Scope.KEY:
        return limit.key
    return job_name if limit.scope is Scope.JOB_NAME else ""


RunKey = tuple[bytes, int]
"""(job_id, scheduled_ms)."""


class Used:
    """What holds the slots of one count: how many runs are in flight, and which wait as rows of their own."""

    __slots__ = ("running", "waiting")

    def __init__(self, running: int = 0, waiting: Iterable[RunKey] = ()) -> None:
        self.running, self.waiting = running, set(waiting)


class Room(Enum):
    """What a run may do that wants its slots."""

    START = "start"
    LATER = "later"  # nothing is written: its timer stays, and is tried again
    WAIT = "wait"  # as a row that counts as waiting
    SKIP = "skip"  # enough are waiting


class SlotBook:
    """The slots as a transaction sees them under its locks, with what it gives out itself."""

    def __init__(self, used: Mapping[str, Used]) -> None:
        """`used` by count, of all counts that will be asked for; it is changed."""
        self._used = used

    def room(self, limits: Sequence[Counted], *, first: bool) -> Room:
        """What a run with these limits may do; only one that has no row yet (`first`) can be told to skip."""
        full = [one for one in limits if self._used[one.name].running >= one.limit]
        if not full:
            return Room.START
        bounded = [(one.name, one.max_waiting) for one in full if one.max_waiting is not None]
        if not first or not bounded:
            return Room.LATER
        return Room.SKIP if any(len(self._used[count].waiting) >= most for count, most in bounded) else Room.WAIT

    def start(self, run: RunKey, limits: Sequence[Counted]) -> list[str]:
        """The run takes a slot of each; gives their names."""
        for one in limits:
            used = self._used[one.name]
            used.running += 1
            used.waiting.discard(run)
        return [one.name for one in limits]

    def wait(self, run: RunKey, limits: Sequence[Counted]) -> list[str]:
        """The run is one of those that wait; gives the counts that it waits under."""
        counts = [one.name for one in limits if one.max_waiting is not None]
        for count in counts:
            self._used[count].waiting.add(run)
        return counts
