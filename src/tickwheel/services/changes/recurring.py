"""What edit, pause and resume of a recurring job have in common: settling what is due, planning what is next."""

from collections.abc import Set

from tickwheel.domain.job import Job, JobState, Spec
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.domain.schedule import next_occurrence, settle
from tickwheel.ports.store import FirstTimer, JobView, LedgerWrite


def settle_due(view: JobView, now_ms: int, taken: Set[int]) -> tuple[LedgerWrite, ...]:
    """Ledger rows for the occurrences of an active job that are due and have none, as its policy decides.

    What is to run waits in the ledger with a follow-up timer that is due at once.
    """
    if view.live is None:
        return ()
    return _writes(view.job.spec, view.live.scheduled_ms, now_ms, SkipReason.CATCH_UP, taken)


def settle_pause(job: Job, now_ms: int, taken: Set[int]) -> tuple[LedgerWrite, ...]:
    """The same for what came due while the job was paused; `effective_ms` is when the pause began."""
    first_ms = next_occurrence(job.spec, job.effective_ms, job.effective_ms)
    return _writes(job.spec, first_ms, now_ms, SkipReason.PAUSED, taken)


def skip_pause(job: Job, now_ms: int, taken: Set[int]) -> tuple[LedgerWrite, ...]:
    """Rows that only record what came due while the job was paused: nothing of it runs."""
    return tuple(
        LedgerWrite(write.scheduled_ms, RunState.SKIPPED, write.skip_reason or SkipReason.PAUSED)
        for write in settle_pause(job, now_ms, taken)
    )


def first_timer_after(job: Job, after_ms: int, taken: Set[int]) -> FirstTimer | None:
    """The timer of the job's first occurrence after `after_ms` that has no ledger row yet."""
    at = next_occurrence(job.spec, after_ms, after_ms)
    while at is not None and at in taken:
        at = next_occurrence(job.spec, at, at)
    return None if at is None else FirstTimer(at, at, job.version)


def active_state(timer: FirstTimer | None) -> JobState:
    """The state of a job that may fire: completed where no occurrence is left."""
    return JobState.COMPLETED if timer is None else JobState.ACTIVE


def _writes(
    spec: Spec, first_ms: int | None, now_ms: int, reason: SkipReason, taken: Set[int]
) -> tuple[LedgerWrite, ...]:
    return tuple(
        LedgerWrite(one.scheduled_ms, RunState.SCHEDULED, follow_up_ms=now_ms)
        if one.reason is SkipReason.NONE
        else LedgerWrite(one.scheduled_ms, RunState.SKIPPED, one.reason)
        for one in settle(spec, first_ms, now_ms, reason, taken)
    )
