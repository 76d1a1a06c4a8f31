"""Decides, per due timer, what its claim will ask for.

A one-off runs unless its deadline has passed. An occurrence of a recurring job runs or is skipped by its catch-up
policy, and names the next occurrence, which the claim inserts in the same transaction. A follow-up (retry,
buffered run, redrive) only starts its waiting row.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import CLAIM, ClaimAction, Ints, OverlapCode, Rows
from tickwheel.domain.job import Overlap, Spec, decode_spec
from tickwheel.domain.run import SkipReason
from tickwheel.domain.schedule import deadline_passed, plan_occurrence
from tickwheel.ports.events import EventSink, ScheduleFailing
from tickwheel.ports.store import WorkDefinition

SPEC_CACHE_SIZE: Final = 8_192
OVERLAP_CODE: Final = {
    Overlap.ALLOW: OverlapCode.ALLOW,
    Overlap.SKIP: OverlapCode.SKIP,
    Overlap.BUFFER_ONE: OverlapCode.BUFFER_ONE,
}

read_spec: Final[Callable[[bytes], Spec]] = lru_cache(maxsize=SPEC_CACHE_SIZE)(decode_spec)
"""Specs by their stored bytes: jobs that differ only in payload and instant share one."""


class Plan(NamedTuple):
    """CLAIM rows (without tokens), the spec of each, and which rows could not be planned."""

    claims: Rows
    specs: list[Spec | None]
    failed: list[int]


class Planner:
    """Plans batches; pure but for the events of schedules that cannot be planned."""

    def __init__(self, events: EventSink) -> None:
        self._events = events

    def plan(self, timers: Rows, works: Sequence[WorkDefinition | None], now_ms: int) -> Plan:
        """One CLAIM row per TIMER row, in order. A job that is gone is claimed all the same: the store says so."""
        claims = np.zeros(len(timers), dtype=CLAIM)
        for name in ("due_ms", "job_id", "scheduled_ms", "gen", "flags"):
            claims[name] = timers[name]
        claims["next_ms"] = -1
        specs: list[Spec | None] = []
        failed: list[int] = []
        max_attempts: Ints = np.ones(len(timers), dtype=np.int64)
        gens, scheduled = timers["gen"].tolist(), timers["scheduled_ms"].tolist()
        for number, work in enumerate(works):
            if work is None:
                specs.append(None)
                continue
            spec = read_spec(work.spec)
            specs.append(spec)
            max_attempts[number] = spec.retry.max_retries + 1
            if spec.cron:
                claims["overlap"][number] = OVERLAP_CODE[spec.overlap]
            if gens[number] > 0 and (spec.cron or spec.deadline_ms is not None):
                try:
                    self._plan_first(claims, number, work, spec, scheduled[number], now_ms)
                except Exception as error:  # one job's broken schedule must not stop the others
                    failed.append(number)
                    self._events.emit(
                        ScheduleFailing(
                            job_id=timers["job_id"][number].tobytes(), error=f"{type(error).__name__}: {error}"
                        )
                    )
        claims["max_attempts"] = max_attempts
        return Plan(claims, specs, failed)

    def _plan_first(
        self, claims: Rows, number: int, work: WorkDefinition, spec: Spec, scheduled_ms: int, now_ms: int
    ) -> None:
        reason = SkipReason.NONE
        if spec.cron:
            occurrence = plan_occurrence(spec, scheduled_ms, work.effective_ms, now_ms)
            claims["next_ms"][number] = -1 if occurrence.next_ms is None else occurrence.next_ms
            reason = occurrence.reason
        if reason is SkipReason.NONE and deadline_passed(spec, scheduled_ms, now_ms):
            reason = SkipReason.DEADLINE
        if reason is not SkipReason.NONE:
            claims["action"][number] = ClaimAction.SKIP
            claims["reason"][number] = reason
