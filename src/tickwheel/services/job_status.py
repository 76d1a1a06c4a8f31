"""The words for where a job stands."""

from typing import Final

from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import SEED_A_WORD, RunState
from tickwheel.domain.schedule import next_occurrence
from tickwheel.ports.job_views import job_run, job_status
from tickwheel.ports.store import JobView

__all__ = ["compact_status", "instant_of", "job_run", "job_status", "next_run_ms", "overdue_ms"]

PATIENCE_MS: Final = 60_000
"""A run that has waited longer is overdue, however rare its job's occurrences are."""


def instant_of(job: Job) -> int:
    """The instant that names the run of a one-off; recurring jobs have none."""
    if job.scheduled_ms is None:
        raise ValueError("a recurring job has no instant of its own")
    return job.scheduled_ms


def compact_status(view: JobView) -> str:
    """The same in the five words of the compact API."""
    run = job_run(view)
    if run is not None:
        return SEED_A_WORD[run.state]
    if view.job.state in (JobState.CANCELLED, JobState.DELETED):
        return SEED_A_WORD[RunState.CANCELLED]
    if view.job.state is JobState.COMPLETED:
        return SEED_A_WORD[RunState.SUCCEEDED]
    return SEED_A_WORD[RunState.SCHEDULED]


def overdue_ms(view: JobView, now_ms: int) -> int | None:
    """How long the next run has been due without a start; None while that is nothing to worry about.

    It is when the wait is longer than the job's period, or than `PATIENCE_MS` if that is shorter: the schedule
    fails inside, nothing here runs its target, or all slots have been taken for that long.
    """
    due_ms = next_run_ms(view)
    if due_ms is None or due_ms > now_ms:
        return None
    late_ms = now_ms - due_ms
    return late_ms if late_ms > min(PATIENCE_MS, _period_ms(view.job, due_ms)) else None


def _period_ms(job: Job, due_ms: int) -> int:
    try:
        following_ms = next_occurrence(job.spec, due_ms, 0) if job.recurring else None
    except Exception:  # a schedule that can't be planned at all is just what a reader has to see
        following_ms = None
    return PATIENCE_MS if following_ms is None else following_ms - due_ms


def next_run_ms(view: JobView) -> int | None:
    """When the next attempt or occurrence is due; None while nothing is to come."""
    waiting = [run.retry_ms for run in view.open_runs if run.retry_ms is not None]
    if view.live is not None:
        waiting.append(view.live.due_ms)
    return min(waiting, default=None)
