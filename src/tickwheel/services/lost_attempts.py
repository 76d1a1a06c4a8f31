"""Attempts whose worker was lost, for whoever is told of their end: what the worker itself would have told."""

import msgspec

from tickwheel.domain.run_trace import RunTrace, run_trace
from tickwheel.ports.executor import Work
from tickwheel.ports.store import Run, WorkDefinition
from tickwheel.services.plans import read_spec


def lost_work(run: Run, definition: WorkDefinition, now_ms: int) -> Work | None:
    """The attempt in flight of `run`, which is ended now; None where its job can't be read."""
    try:
        spec = read_spec(definition.spec)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    trace = run_trace(spec.trace, run.job_id, run.scheduled_ms, run.fence, recurring=bool(spec.cron))
    return Work(
        slot=-1,
        job_id=run.job_id,
        scheduled_ms=run.scheduled_ms,
        fence=run.fence,
        attempt=run.attempt,
        max_attempts=spec.retry.max_attempts,
        lane=int(run.lane),
        tenant_id=run.tenant_id,
        target=spec.target,
        payload=b"",
        idempotency_key=definition.idempotency_key,
        job_name=definition.name,
        trace=None if trace is None else _until_lost(trace, run, now_ms),
    )


def _until_lost(trace: RunTrace, run: Run, now_ms: int) -> RunTrace:
    """It ended with its lease, or now, if its worker is proved dead before."""
    ended_ms = min(run.lease_ms or now_ms, now_ms)
    trace.lost_ms = max(ended_ms, run.started_ms or run.claimed_ms or 0)
    return trace
