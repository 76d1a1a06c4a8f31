"""The words for where a job stands."""

from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import SEED_A_WORD, RunState
from tickwheel.ports.store import JobView, Run


def instant_of(job: Job) -> int:
    """The instant that names the run of a one-off; recurring jobs have none."""
    if job.scheduled_ms is None:
        raise ValueError("a recurring job has no instant of its own")
    return job.scheduled_ms


def job_run(view: JobView) -> Run | None:
    """The ledger row of a one-off's instant; None for recurring jobs and while there is none."""
    scheduled_ms = view.job.scheduled_ms
    if view.job.recurring or scheduled_ms is None:
        return None
    candidates = (*view.open_runs, view.last_run)
    return next((run for run in candidates if run is not None and run.scheduled_ms == scheduled_ms), None)


def job_status(view: JobView) -> str:
    """A one-off's status is its run's state, a recurring job's its own: SCHEDULED stands for active."""
    run = job_run(view)
    if run is not None:
        return run.state.name
    return RunState.SCHEDULED.name if view.job.state is JobState.ACTIVE else view.job.state.name


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


def next_run_ms(view: JobView) -> int | None:
    """When the next attempt or occurrence is due; None while nothing is to come."""
    waiting = [run.retry_ms for run in view.open_runs if run.retry_ms is not None]
    if view.live is not None:
        waiting.append(view.live.due_ms)
    return min(waiting, default=None)
