"""Attempts as whoever is told of their end wants them, where no executor of this process makes them.

A worker elsewhere has the attempt, or had it and was lost. So there is no slot, and nobody needs the payload.
"""

from tickwheel.domain.job import Spec
from tickwheel.domain.run_trace import RunTrace, run_trace
from tickwheel.ports.executor import Work
from tickwheel.ports.store import WorkDefinition


def told_work(
    *,
    job_id: bytes,
    scheduled_ms: int,
    fence: int,
    attempt: int,
    lane: int,
    definition: WorkDefinition,
    spec: Spec,
) -> Work:
    """The attempt with that token, of a job with this definition, whose spec is read already."""
    return Work(
        slot=-1,
        job_id=job_id,
        scheduled_ms=scheduled_ms,
        fence=fence,
        attempt=attempt,
        max_attempts=spec.retry.max_attempts,
        lane=lane,
        tenant_id=definition.tenant_id,
        target=spec.target,
        payload=b"",
        idempotency_key=definition.idempotency_key,
        job_name=definition.name,
        trace=attempt_trace(spec, job_id, scheduled_ms, fence),
    )


def attempt_trace(spec: Spec, job_id: bytes, scheduled_ms: int, fence: int) -> RunTrace | None:
    """Of the attempt with that token; None if the request of its job was part of no trace."""
    if not spec.trace:
        return None
    return run_trace(spec.trace, job_id, scheduled_ms, fence, recurring=bool(spec.cron))
