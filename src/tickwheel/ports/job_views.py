"""What a job's rows amount to for a reader: the same in every store."""

from collections.abc import Mapping

from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import TERMINAL, RunState
from tickwheel.ports.store import FirstTimer, JobView, Run


def view_of(job: Job, live: FirstTimer | None, runs: Mapping[int, Run]) -> JobView:
    """The job with its live timer and those of its runs that were read, by instant."""
    ordered = [runs[instant] for instant in sorted(runs)]
    open_runs = tuple(run for run in ordered if run.state not in TERMINAL)
    started = [run for run in open_runs if run.fence > 0]
    return JobView(
        job=job,
        live=live,
        open_runs=open_runs,
        last_run=_last_run(job, runs),
        current=started[-1] if started else None,
    )


def _last_run(job: Job, runs: Mapping[int, Run]) -> Run | None:
    """A one-off that was moved to an earlier instant has superseded rows after the run that counts."""
    own = None if job.recurring or job.scheduled_ms is None else runs.get(job.scheduled_ms)
    return own or (runs[max(runs)] if runs else None)


def live_run(view: JobView) -> Run | None:
    """The live occurrence, which has no ledger row yet, as a run that waits."""
    if view.live is None:
        return None
    return Run(
        job_id=view.job.job_id,
        tenant_id=view.job.tenant_id,
        scheduled_ms=view.live.scheduled_ms,
        state=RunState.SCHEDULED,
        gen=0,
        fence=0,
        attempt=0,
        lane=view.job.lane,
    )


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
