"""Between the columns of the ledger, which stores on SQL name and order alike, and runs as readers see them."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import IN_FLIGHT, RunState, SkipReason
from tickwheel.ports.store import AttemptRecord, Run

_END_WORDS: Final = {
    RunState.SUCCEEDED: OutcomeClass.SUCCESS.name.lower(),
    RunState.CANCELLED: OutcomeClass.CANCELLED.name.lower(),
}


def read_run(job_id: bytes, tenant_id: str, values: Sequence[Any]) -> Run:
    """A run from the columns scheduled_ms, state, gen, fence, attempt, lane, skip_reason, lost_count, the worker's
    incarnation, armed_ms, claimed_ms, started_ms, finished_ms, lease_ms, beat_ms, due_ms, http_status, error."""
    state = RunState(values[1])
    return Run(
        job_id=job_id,
        tenant_id=tenant_id,
        scheduled_ms=values[0],
        state=state,
        gen=values[2],
        fence=values[3],
        attempt=values[4],
        lane=Lane(values[5]),
        skip_reason=SkipReason(values[6]),
        lost_count=values[7],
        worker=values[8],
        armed_ms=values[9],
        claimed_ms=values[10],
        started_ms=values[11],
        finished_ms=values[12],
        lease_ms=values[13],
        beat_ms=values[14],
        retry_ms=values[15] if state is RunState.SCHEDULED else None,
        http_status=values[16],
        error=values[17],
    )


def attempts_of(
    run: Run, rows: Sequence[Sequence[Any]], is_uncounted: Callable[[], bool]
) -> tuple[AttemptRecord, ...]:
    """The stored attempts, and the one that the ledger row itself tells of: in flight, or a plain end.

    `rows` have the columns attempt, fence, the worker's incarnation, started_ms, finished_ms, outcome,
    http_status, error, excerpt. `is_uncounted` reads whether `attempt` of the row leaves out the one in flight; it
    is asked only where that can be.
    """
    records = [_record(values) for values in rows]
    in_flight = run.state in IN_FLIGHT
    word = "running" if in_flight else _END_WORDS.get(run.state)
    if word is None or not run.fence or any(record.fence == run.fence for record in records):
        return tuple(records)
    uncounted = in_flight and run.state is not RunState.RUNNING and is_uncounted()
    last = AttemptRecord(
        attempt=run.attempt + 1 if uncounted else run.attempt,
        fence=run.fence,
        worker=run.worker or "",
        started_ms=run.started_ms,
        finished_ms=run.finished_ms,
        outcome=word,
        http_status=run.http_status,
        error=run.error,
    )
    return (*records, last)


def _record(values: Sequence[Any]) -> AttemptRecord:
    attempt, fence, worker, started_ms, finished_ms, outcome, http_status, error, excerpt = values
    return AttemptRecord(
        attempt=attempt,
        fence=fence,
        worker=worker or "",
        started_ms=started_ms,
        finished_ms=finished_ms,
        outcome=OutcomeClass(outcome).name.lower(),
        http_status=http_status,
        error=error,
        excerpt=excerpt,
    )
