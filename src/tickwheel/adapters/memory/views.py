"""Jobs and runs as readers see them."""

from tickwheel.adapters.memory.tables import LedgerRow, Tables
from tickwheel.domain.job import Job, JobState, Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import IN_FLIGHT, TERMINAL, RunState
from tickwheel.ports.store import AttemptRecord, FirstTimer, JobView, Run

_END_WORDS = {
    RunState.SUCCEEDED: OutcomeClass.SUCCESS.name.lower(),
    RunState.CANCELLED: OutcomeClass.CANCELLED.name.lower(),
}


def job_view(tables: Tables, job: Job) -> JobView:
    """The job with what is known about its runs."""
    live = tables.live_timers(job.job_id)
    runs = [row.run for _, row in sorted(tables.runs_of.get(job.job_id, {}).items())]
    open_runs = tuple(run for run in runs if run.state not in TERMINAL)
    started = [run for run in open_runs if run.fence > 0]
    return JobView(
        job=job,
        live=FirstTimer(live[0].due_ms, live[0].scheduled_ms, live[0].gen) if live else None,
        open_runs=open_runs,
        last_run=_last_run(job, runs),
        current=started[-1] if started else None,
    )


def _last_run(job: Job, runs: list[Run]) -> Run | None:
    """A one-off that was moved to an earlier instant has superseded rows after the run that counts."""
    own = [run for run in runs if not job.recurring and run.scheduled_ms == job.scheduled_ms]
    return next(reversed(own or runs), None)


def job_status(view: JobView) -> str:
    """The word that the API shows: a one-off's is its run's state."""
    job = view.job
    if not job.recurring and job.state is not JobState.DELETED:
        last = view.last_run
        if last is not None and last.scheduled_ms == job.scheduled_ms:
            return last.state.name
    return RunState.SCHEDULED.name if job.state is JobState.ACTIVE else job.state.name


def live_run(view: JobView) -> Run | None:
    """The live occurrence, which has no ledger row yet, as a run that waits."""
    job, live = view.job, view.live
    if live is None:
        return None
    return Run(
        job_id=job.job_id,
        tenant_id=job.tenant_id,
        scheduled_ms=live.scheduled_ms,
        state=RunState.SCHEDULED,
        gen=0,
        fence=0,
        attempt=0,
        lane=Lane(job.lane),
    )


def attempts_of(row: LedgerRow) -> tuple[AttemptRecord, ...]:
    """The stored attempts, and the one that the ledger row itself tells of: in flight, or a plain end."""
    run = row.run
    records = sorted(row.attempts, key=lambda record: record.fence)
    if run.state in IN_FLIGHT:
        word = "running"
    elif run.fence and run.state in _END_WORDS:
        word = _END_WORDS[run.state]
    else:
        return tuple(records)
    if all(record.fence != run.fence for record in records):
        records.append(
            AttemptRecord(
                attempt=row.attempt_in_flight if run.state in IN_FLIGHT else run.attempt,
                fence=run.fence,
                worker=run.worker or "",
                started_ms=run.started_ms,
                finished_ms=run.finished_ms,
                outcome=word,
                http_status=run.http_status,
                error=run.error,
            )
        )
    return tuple(records)
