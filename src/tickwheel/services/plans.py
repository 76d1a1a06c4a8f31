"""Decides, per due timer, what its claim will ask for.

A one-off runs unless its deadline has passed. An occurrence of a recurring job runs or is skipped by its catch-up
policy, and names the next occurrence, which the claim inserts in the same transaction: one that has no ledger row
yet, else its timer would find the row taken and nobody would plant the one after it. A follow-up only starts its
waiting row; the store skips it instead if the deadline has passed before the run ever began.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np

from tickwheel.domain.columns import CLAIM, FLAG_KIND_MASK, FLAG_RECURRING, ClaimAction, Ints, OverlapCode, Rows
from tickwheel.domain.job import JobState, Overlap, Spec, Target, decode_spec
from tickwheel.domain.outcome import RetryPolicy
from tickwheel.domain.run import SkipReason
from tickwheel.domain.schedule import deadline_passed, next_occurrence, plan_occurrence
from tickwheel.domain.tenants import bucket_flags
from tickwheel.ports.events import EventSink, RunsUnserved, ScheduleFailing
from tickwheel.ports.store import WorkDefinition

SPEC_CACHE_SIZE: Final = 8_192
OVERLAP_CODE: Final = {
    Overlap.ALLOW: OverlapCode.ALLOW,
    Overlap.SKIP: OverlapCode.SKIP,
    Overlap.BUFFER_ONE: OverlapCode.BUFFER_ONE,
}

read_spec: Final[Callable[[bytes], Spec]] = lru_cache(maxsize=SPEC_CACHE_SIZE)(decode_spec)
"""Specs by their stored bytes: jobs that differ only in payload and instant share one."""


def read_policy(stored: bytes) -> RetryPolicy:
    """The retry policy of a stored spec; the default one where that can't be read, for every run has to end."""
    try:
        return read_spec(stored).retry
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return RetryPolicy()


class Plan(NamedTuple):
    """CLAIM rows (without tokens), the spec of each, and which rows are not to be claimed now."""

    claims: Rows
    specs: list[Spec | None]
    failed: list[int]  # their schedule could not be planned
    unserved: list[int]  # nothing runs their target
    elsewhere: list[int]  # others run them: nothing in this process does, or their tenant has own workers
    works: Sequence[WorkDefinition | None]

    def skips(self, timers: Rows) -> list[int]:
        """Rows whose claim starts nothing. (A follow-up that is too late may have begun, and then goes on.)"""
        rows = (self.claims["action"] == ClaimAction.SKIP) & (timers["gen"] > 0)
        return np.flatnonzero(rows).tolist()


class Planner:
    """Plans batches; pure but for its events.

    `serves` says whether this process can run a target, `serves_elsewhere` whether workers in other processes can
    run it for a tenant, and `has_own` whether some of these are the tenant's own: they do it, and nobody else.
    """

    def __init__(
        self,
        events: EventSink,
        serves: Callable[[Target], bool],
        alive_since_ms: int,
        serves_elsewhere: Callable[[Target, str], bool] = lambda target, tenant_id: False,
        has_own: Callable[[Target, str], bool] = lambda target, tenant_id: False,
    ) -> None:
        self._events, self._serves, self._alive_since_ms = events, serves, alive_since_ms
        self._serves_elsewhere, self._has_own = serves_elsewhere, has_own
        # How many runs of a tenant may be in flight, None or 0: any number. None as a whole: nobody has a limit.
        self.tenant_limit: Callable[[str], int | None] | None = None

    def plan(
        self, timers: Rows, works: Sequence[WorkDefinition | None], now_ms: int, *, queued: bool = False
    ) -> Plan:
        """One CLAIM row per TIMER row, in order. A job that is gone is claimed all the same: the store says so.

        `queued`: for workers in other processes.
        """
        serves = self._serves_elsewhere if queued else self._serves_here
        claims = np.zeros(len(timers), dtype=CLAIM)
        for name in ("due_ms", "job_id", "scheduled_ms", "gen", "flags"):
            claims[name] = timers[name]
        claims["next_ms"] = -1
        specs: list[Spec | None] = []
        allowed: list[int] = []
        failed: list[int] = []
        unserved: list[int] = []
        elsewhere: list[int] = []
        known: Spec | None = None  # of the row before: most rows of a batch have spec and tenant in common
        tenant_id, served = "", True
        gens, scheduled = timers["gen"].tolist(), timers["scheduled_ms"].tolist()
        for number, work in enumerate(works):
            specs.append(None)
            allowed.append(1)
            if work is None:
                continue
            try:
                spec = specs[number] = read_spec(work.spec)
                if spec is not known or work.tenant_id != tenant_id:
                    known, tenant_id = spec, work.tenant_id
                    served = serves(spec.target, tenant_id)
                allowed[number] = spec.retry.max_retries + 1
                if not served:
                    others = not queued and self._serves_elsewhere(spec.target, tenant_id)
                    (elsewhere if others else unserved).append(number)
                    continue
                if spec.concurrency:
                    claims["limited"][number] = 1
                if self.tenant_limit is not None and (most := self.tenant_limit(work.tenant_id)):
                    claims["limited"][number], claims["tenant_limit"][number] = 1, most
                if spec.cron:
                    claims["overlap"][number] = OVERLAP_CODE[spec.overlap]
                    # Of the next timer, which an earlier version may have left out.
                    kind = int(timers["flags"][number]) & FLAG_KIND_MASK
                    claims["flags"][number] = kind | bucket_flags(work.tenant_id)
                occurrence = bool(spec.cron) and gens[number] > 0
                if occurrence or spec.deadline_ms is not None:
                    self._plan_one(claims, number, work, spec, scheduled[number], now_ms, occurrence)
            except Exception as error:  # one job's broken definition must not stop the others
                failed.append(number)
                self._tell_failing(timers["job_id"][number].tobytes(), error)
        claims["max_attempts"] = allowed
        note_unchanged(claims, works)
        self._tell_unserved(unserved, specs)
        return Plan(claims, specs, failed, unserved, elsewhere, works)

    def _serves_here(self, target: Target, tenant_id: str) -> bool:
        return self._serves(target) and not self._has_own(target, tenant_id)

    def _tell_failing(self, job_id: bytes, error: Exception) -> None:
        self._events.emit(ScheduleFailing(job_id=job_id, error=f"{type(error).__name__}: {error}"))

    def _tell_unserved(self, unserved: Sequence[int], specs: Sequence[Spec | None]) -> None:
        if unserved:
            names = Counter(spec.target.name for i in unserved if (spec := specs[i]) is not None)
            self._events.emit(RunsUnserved(counts=dict(names)))

    def _plan_one(
        self,
        claims: Rows,
        number: int,
        work: WorkDefinition,
        spec: Spec,
        scheduled_ms: int,
        now_ms: int,
        occurrence: bool,
    ) -> None:
        reason = SkipReason.NONE
        if occurrence:
            plan = plan_occurrence(spec, scheduled_ms, work.effective_ms, now_ms, self._alive_since_ms)
            next_ms = plan.next_ms
            while next_ms is not None and next_ms in work.taken_ms:
                next_ms = next_occurrence(spec, next_ms, next_ms)
            claims["next_ms"][number] = -1 if next_ms is None else next_ms
            reason = plan.reason
        elif deadline_passed(spec, scheduled_ms, now_ms):
            reason = SkipReason.DEADLINE
        if reason is not SkipReason.NONE:
            claims["action"][number] = ClaimAction.SKIP
            claims["reason"][number] = reason


def note_unchanged(claims: Rows, works: Sequence[WorkDefinition | None]) -> None:
    """What lets the store take a one-off without another look at its job."""
    count = len(works)
    active = (-1 if work is None or work.state is not JobState.ACTIVE else work.version for work in works)
    versions: Ints = np.fromiter(active, dtype=np.int64, count=count)
    live = (claims["flags"] & FLAG_RECURRING == 0) & (claims["gen"] > 0) & (claims["gen"] == versions)
    changes = np.fromiter((0 if work is None else work.changes for work in works), dtype=np.int64, count=count)
    claims["changes"] = np.where(live, changes, 0)
    armed = np.fromiter((0 if work is None else work.updated_ms for work in works), dtype=np.int64, count=count)
    claims["armed_ms"] = np.where(live, armed, 0)
