"""Attempts whose worker was lost, for whoever is told of their end: what the worker itself would have told."""

import msgspec

from tickwheel.ports.executor import Work
from tickwheel.ports.store import Run, WorkDefinition
from tickwheel.services.plans import read_spec
from tickwheel.services.told_attempts import told_work


def lost_work(run: Run, definition: WorkDefinition, now_ms: int) -> Work | None:
    """The attempt in flight of `run`, which is ended now; None where its job can't be read."""
    try:
        spec = read_spec(definition.spec)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    work = told_work(
        job_id=run.job_id,
        scheduled_ms=run.scheduled_ms,
        fence=run.fence,
        attempt=run.attempt,
        lane=int(run.lane),
        definition=definition,
        spec=spec,
    )
    if work.trace is not None:  # it ended with its lease, or now, if its worker is proved dead before
        ended_ms = min(run.lease_ms or now_ms, now_ms)
        work.trace.lost_ms = max(ended_ms, run.started_ms or run.claimed_ms or 0)
    return work
