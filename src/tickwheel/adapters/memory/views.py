"""Jobs and runs as readers see them."""

from msgspec.structs import replace

from tickwheel.adapters.memory.tables import LedgerRow, Tables
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.job_views import view_of
from tickwheel.ports.store import AttemptRecord, FirstTimer, JobView, Run

_END_WORDS = {
    RunState.SUCCEEDED: OutcomeClass.SUCCESS.name.lower(),
    RunState.CANCELLED: OutcomeClass.CANCELLED.name.lower(),
}


def job_view(tables: Tables, job: Job) -> JobView:
    """The job with what is known about its runs."""
    live = tables.live_timers(job.job_id)
    first = FirstTimer(live[0].due_ms, live[0].scheduled_ms, live[0].gen) if live else None
    return view_of(job, first, {at: row.run for at, row in tables.runs_of.get(job.job_id, {}).items()})


def full_run(row: LedgerRow) -> Run:
    """A run as `Ledger.get_run` gives it."""
    return replace(
        _with_beat(row), attempts=attempts_of(row), result=row.result, result_dropped=row.result_dropped
    )


def with_progress(tables: Tables, view: JobView) -> JobView:
    """The view with what the attempt in flight of its current run says of itself."""
    run = view.current
    if run is None:
        return view
    return replace(view, current=_with_beat(tables.ledger[run.job_id, run.scheduled_ms]))


def _with_beat(row: LedgerRow) -> Run:
    beat = row.beat
    return row.run if beat is None else replace(row.run, progress=beat.progress, note=beat.note)


def job_status(view: JobView) -> str:
    """The word that the API shows: a one-off's is its run's state."""
    job = view.job
    if not job.recurring and job.state is not JobState.DELETED:
        last = view.last_run
        if last is not None and last.scheduled_ms == job.scheduled_ms:
            return last.state.name
    return RunState.SCHEDULED.name if job.state is JobState.ACTIVE else job.state.name


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
