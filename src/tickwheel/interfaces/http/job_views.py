"""What readers see of jobs: the answer's schema, and how it is made from the stored view.

A job is shown with the same field names that a request has, so that what was read can be sent back unchanged;
what only the server knows (status, instants of runs) stands beside it under names of its own. Header values of a
target are never shown, the payload is shown byte for byte.
"""

from typing import Final

import msgspec

from tickwheel.domain.ids import job_id_text
from tickwheel.domain.job import Job, JobState, Target, TargetType
from tickwheel.domain.outcome import RetryPolicy
from tickwheel.domain.run import RunState
from tickwheel.interfaces.http.run_views import RunBrief, run_brief
from tickwheel.interfaces.http.wire import iso, iso_text
from tickwheel.ports.store import JobView

REDACTED: Final = "[redacted]"
Seconds = int | float


class TargetBody(msgspec.Struct, omit_defaults=True):
    """What an attempt calls, as a request names it."""

    type: str
    endpoint: str | None = None
    method: str | None = None
    timeout_seconds: Seconds | None = None
    headers: dict[str, str] | None = None
    name: str | None = None


class RetryBody(msgspec.Struct):
    """The effective retry policy."""

    max_retries: int
    initial_interval_sec: Seconds
    backoff_multiplier: float
    max_interval_sec: Seconds


class CatchUpBody(msgspec.Struct):
    """The effective catch-up policy."""

    policy: str
    max: int


class JobBody(msgspec.Struct):
    """A job: its status first, then the definition, then its runs."""

    job_id: str
    tenant_id: str
    status: str
    last_heartbeat_at: str | None
    current_lease_worker_id: str | None
    current_attempt: int
    fencing_token: int | None
    job_name: str | None
    schedule_type: str
    execute_at: str | None
    cron_expression: str | None
    timezone: str | None
    start_at: str | None
    end_at: str | None
    priority: str
    target: TargetBody
    payload: msgspec.Raw
    retry_policy: RetryBody
    catch_up: CatchUpBody | None
    overlap: str
    deadline_seconds: Seconds | None
    tags: list[str]
    idempotency_key: str | None
    next_run_time_epoch_ms: int | None
    next_run_time_iso: str | None
    last_run: RunBrief | None
    version: int
    created_at: str
    updated_at: str | None


_NULL: Final = msgspec.Raw(b"null")


def job_body(view: JobView) -> JobBody:
    """The whole answer for one job."""
    job, spec = view.job, view.job.spec
    shown = view.current or view.last_run
    recurring = job.recurring
    next_ms = view.live.due_ms if view.live else None
    return JobBody(
        job_id=job_id_text(job.job_id),
        tenant_id=job.tenant_id,
        status=job_status(view),
        last_heartbeat_at=iso(shown.beat_ms) if shown else None,
        current_lease_worker_id=shown.worker if shown else None,
        current_attempt=shown.attempt if shown else 0,
        fencing_token=(shown.fence or None) if shown else None,
        job_name=job.name or None,
        schedule_type=job.schedule_type.value,
        execute_at=iso(job.scheduled_ms),
        cron_expression=spec.cron or None,
        timezone=spec.timezone if recurring else None,
        start_at=iso(spec.start_ms),
        end_at=iso(spec.end_ms),
        priority=job.lane.name,
        target=target_body(spec.target),
        payload=msgspec.Raw(job.payload.encode()) if job.payload else _NULL,
        retry_policy=retry_body(spec.retry),
        catch_up=CatchUpBody(spec.catch_up.value, spec.catch_up_max) if recurring else None,
        overlap=spec.overlap.value,
        deadline_seconds=seconds(spec.deadline_ms),
        tags=list(job.tags),
        idempotency_key=job.idempotency_key,
        next_run_time_epoch_ms=next_ms,
        next_run_time_iso=iso(next_ms),
        last_run=run_brief(view.last_run),
        version=job.version,
        created_at=iso_text(job.created_ms),
        updated_at=iso(job.updated_ms or None),
    )


def job_status(view: JobView) -> str:
    """A recurring job's own state, or the state of a one-off's run."""
    job = view.job
    if job.state is not JobState.ACTIVE or job.recurring:
        return "SCHEDULED" if job.state is JobState.ACTIVE else job.state.name
    for run in (view.current, view.last_run, *view.open_runs):
        if run is not None and run.scheduled_ms == job.scheduled_ms:
            return run.state.name
    return RunState.SCHEDULED.name


def target_body(target: Target) -> TargetBody:
    """The target with its header values hidden."""
    timeout = seconds(target.timeout_ms)
    if target.type is TargetType.HANDLER:
        return TargetBody(target.type.value, name=target.name, timeout_seconds=timeout)
    headers = {name: REDACTED for name, _ in target.headers}
    return TargetBody(target.type.value, target.endpoint, target.method, timeout, headers)


def retry_body(policy: RetryPolicy) -> RetryBody:
    """The policy with its lengths in seconds."""
    return RetryBody(
        max_retries=policy.max_retries,
        initial_interval_sec=_seconds(policy.initial_interval_ms),
        backoff_multiplier=policy.multiplier,
        max_interval_sec=_seconds(policy.max_interval_ms),
    )


def seconds(length_ms: int | None) -> Seconds | None:
    """A length in seconds, whole where it is whole."""
    return None if length_ms is None else _seconds(length_ms)


def _seconds(length_ms: int) -> Seconds:
    whole, rest = divmod(length_ms, 1000)
    return length_ms / 1000 if rest else whole


def etag(job: Job) -> bytes:
    """The entity tag of a definition: it changes with every edit, pause and resume."""
    return b'"%d"' % job.version
