"""What readers see of runs, their attempts and dead letters."""

from typing import Any

import msgspec

from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.interfaces.http.wire import iso, iso_text
from tickwheel.ports.store import AttemptRecord, DeadLetter, Run


class RunBrief(msgspec.Struct):
    """A run as its job's answer names it."""

    run_id: str
    scheduled_at: str
    status: str


class AttemptBody(msgspec.Struct):
    """One try of a run."""

    attempt: int
    fencing_token: int
    worker_id: str
    outcome: str
    started_at: str | None
    finished_at: str | None
    http_status: int | None
    error: str | None
    excerpt: str | None


class Timeline(msgspec.Struct):
    """When the run passed each station, and how late its first attempt began."""

    armed: str | None
    claimed: str | None
    dispatched: str | None
    started: str | None
    finished: str | None
    lateness_ms: int | None


class RunBody(msgspec.Struct):
    """A run; lists leave out the attempts, progress and result.

    `progress` (0 to 1) and `note` are what the attempt in flight says of itself. `result` is what a handler
    returned, null if nothing; `result_dropped` says why it was not kept (over 64 KiB, or no JSON).
    """

    run_id: str
    job_id: str
    tenant_id: str
    status: str
    scheduled_at: str
    priority: str
    attempt: int
    fencing_token: int | None
    worker_id: str | None
    skip_reason: str | None
    lost_count: int
    retry_at: str | None
    http_status: int | None
    error: str | None
    timeline: Timeline
    progress: float | msgspec.UnsetType | None = msgspec.UNSET
    note: str | msgspec.UnsetType | None = msgspec.UNSET
    result: Any | msgspec.UnsetType = msgspec.UNSET
    result_dropped: str | msgspec.UnsetType | None = msgspec.UNSET
    attempts: list[AttemptBody] | msgspec.UnsetType = msgspec.UNSET


class DeadLetterBody(msgspec.Struct):
    """A run in the dead-letter queue."""

    run_id: str
    job_id: str
    tenant_id: str
    job_name: str | None
    scheduled_at: str
    failed_at: str
    attempts: int
    cause: str
    error: str | None
    http_status: int | None


def run_brief(run: Run | None) -> RunBrief | None:
    """The short form of a run, or None."""
    if run is None:
        return None
    return RunBrief(run_id_text(run.job_id, run.scheduled_ms), iso_text(run.scheduled_ms), run.state.name)


def run_body(run: Run, *, with_attempts: bool = False) -> RunBody:
    """A run, with every attempt that is recorded if wanted, its progress and its result."""
    body = RunBody(
        run_id=run_id_text(run.job_id, run.scheduled_ms),
        job_id=job_id_text(run.job_id),
        tenant_id=run.tenant_id,
        status=run.state.name,
        scheduled_at=iso_text(run.scheduled_ms),
        priority=run.lane.name,
        attempt=run.attempt,
        fencing_token=run.fence or None,
        worker_id=run.worker,
        skip_reason=None if run.skip_reason is SkipReason.NONE else run.skip_reason.name.lower(),
        lost_count=run.lost_count,
        retry_at=iso(run.retry_ms),
        http_status=run.http_status or None,
        error=run.error,
        timeline=_timeline(run),
    )
    if with_attempts:
        body.progress, body.note = run.progress, run.note
        body.result = None if run.result is None else msgspec.Raw(run.result.encode())
        body.result_dropped = run.result_dropped
        body.attempts = [_attempt_body(a) for a in run.attempts]
    return body


def dead_letter_body(letter: DeadLetter) -> DeadLetterBody:
    """An entry of the dead-letter queue."""
    run = letter.run
    return DeadLetterBody(
        run_id=run_id_text(run.job_id, run.scheduled_ms),
        job_id=job_id_text(run.job_id),
        tenant_id=run.tenant_id,
        job_name=letter.job_name or None,
        scheduled_at=iso_text(run.scheduled_ms),
        failed_at=iso_text(letter.failed_ms),
        attempts=run.attempt,
        cause=letter.cause,
        error=run.error,
        http_status=run.http_status or None,
    )


def _timeline(run: Run) -> Timeline:
    first_ms = _first_start_ms(run)
    return Timeline(
        armed=iso(run.armed_ms),
        claimed=iso(run.claimed_ms),
        dispatched=iso(run.claimed_ms if run.attempt and run.state is not RunState.CLAIMED else None),
        started=iso(run.started_ms),
        finished=iso(run.finished_ms),
        lateness_ms=None if first_ms is None else first_ms - run.scheduled_ms,
    )


def _first_start_ms(run: Run) -> int | None:
    """When the first attempt began: a retry's own start says nothing about how late the run was."""
    if run.attempts and run.attempts[0].attempt == 1 and run.attempts[0].started_ms is not None:
        return run.attempts[0].started_ms
    if run.attempt > 1:
        return None
    return run.started_ms if run.started_ms is not None else run.claimed_ms


def _attempt_body(record: AttemptRecord) -> AttemptBody:
    return AttemptBody(
        attempt=record.attempt,
        fencing_token=record.fence,
        worker_id=record.worker,
        outcome=record.outcome,
        started_at=iso(record.started_ms),
        finished_at=iso(record.finished_ms),
        http_status=record.http_status or None,
        error=record.error,
        excerpt=record.excerpt,
    )
