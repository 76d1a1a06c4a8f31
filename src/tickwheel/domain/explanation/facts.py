"""What an explanation asks for, as protocols that the records of the store fulfil."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tickwheel.domain.delays import Delay
from tickwheel.domain.job import Job
from tickwheel.domain.run import RunState, SkipReason


class AttemptFacts(Protocol):
    """A recorded attempt."""

    @property
    def attempt(self) -> int: ...
    @property
    def fence(self) -> int: ...
    @property
    def worker(self) -> str: ...
    @property
    def started_ms(self) -> int | None: ...
    @property
    def finished_ms(self) -> int | None: ...
    @property
    def outcome(self) -> str: ...
    @property
    def http_status(self) -> int: ...
    @property
    def error(self) -> str | None: ...
    @property
    def excerpt(self) -> str | None: ...


class RunFacts(Protocol):
    """A ledger row."""

    @property
    def scheduled_ms(self) -> int: ...
    @property
    def state(self) -> RunState: ...
    @property
    def skip_reason(self) -> SkipReason: ...
    @property
    def gen(self) -> int: ...
    @property
    def fence(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def worker(self) -> str | None: ...
    @property
    def armed_ms(self) -> int | None: ...
    @property
    def claimed_ms(self) -> int | None: ...
    @property
    def started_ms(self) -> int | None: ...
    @property
    def finished_ms(self) -> int | None: ...
    @property
    def retry_ms(self) -> int | None: ...
    @property
    def error(self) -> str | None: ...
    @property
    def attempts(self) -> Sequence[AttemptFacts]: ...


class Held(NamedTuple):
    """A stretch in which the job was paused; `until_ms` None: it still is."""

    from_ms: int
    until_ms: int | None


class Nearby(NamedTuple):
    """An instant of the job beside the one in question: the run there, and when it was begun or settled."""

    scheduled_ms: int
    state: RunState
    begun_ms: int | None
    ended_ms: int | None


class Circumstances(NamedTuple):
    """What is known beside the run itself.

    `waits_for` is the word of the gates of the node that answers, for a run that waits right now. `live_ms` is
    the next occurrence that has no row yet.
    """

    job: Job
    now_ms: int
    shard: int
    delays: Sequence[Delay] = ()
    pauses: Sequence[Held] = ()
    earlier: Sequence[Nearby] = ()
    waits_for: str | None = None
    live_ms: int | None = None


def first_start_ms(run: RunFacts) -> int | None:
    """When the first attempt began: a retry's own start says nothing about how late the run was."""
    first = run.attempts[0] if run.attempts else None
    if first is not None and first.attempt == 1 and first.started_ms is not None:
        return first.started_ms
    if run.attempt > 1 or not run.fence:
        return None
    return run.started_ms if run.started_ms is not None else run.claimed_ms
