"""Cancel and delete: nothing of the job runs any more once they have answered."""

from msgspec.structs import replace

from tickwheel.domain.errors import Conflict
from tickwheel.domain.job import JobState
from tickwheel.domain.run import TERMINAL, RunState
from tickwheel.ports.store import Change, JobView, LedgerWrite
from tickwheel.services.job_status import instant_of, job_run, job_status


def cancel(view: JobView, now_ms: int) -> Change:
    """End the job and every run of it that is not over. Repeatable.

    Raises `Conflict` where nothing is left to cancel because it ended in another way.
    """
    job, run = view.job, job_run(view)
    if job.state is JobState.CANCELLED or (run is not None and run.state is RunState.CANCELLED):
        return Change()
    over = run is not None and run.state in TERMINAL
    if over or (job.state is JobState.COMPLETED and not view.open_runs):
        raise Conflict(f"the job is {job_status(view)} already")
    return _end(view, JobState.CANCELLED, now_ms)


def delete(view: JobView, now_ms: int) -> Change:
    """Take the job away for readers, whatever its state; its key and its name are free again."""
    return _end(view, JobState.DELETED, now_ms)


def _end(view: JobView, state: JobState, now_ms: int) -> Change:
    runs: tuple[LedgerWrite, ...] = ()
    if not view.job.recurring and job_run(view) is None:
        # A one-off's timer may be held anywhere; it dies of finding this row.
        runs = (LedgerWrite(instant_of(view.job), RunState.CANCELLED),)
    return Change(
        job=replace(view.job, state=state, updated_ms=now_ms),
        drop_live=True,
        cancel_open=True,
        runs=runs,
        forget_key=state is JobState.DELETED,
    )
