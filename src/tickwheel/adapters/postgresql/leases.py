"""What is to be reaped: renewed attempts that are renewed no more, and those of dead workers."""

from collections.abc import Sequence
from typing import Final

from tickwheel.adapters.postgresql.arrays import int2s
from tickwheel.adapters.postgresql.runs import find_runs
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.run import IN_FLIGHT
from tickwheel.ports.store import Run

EXPIRED: Final = load_statements("complete")["expired"]


def expired(session: Session, now_ms: int, limit: int, shards: Sequence[int] | None) -> list[Run]:
    """See `Ledger.expired`; never a scan of the ledger."""
    bindings = {"now": now_ms, "limit": limit, "shards": None if shards is None else int2s(shards)}
    keys = [(job_id.bytes, scheduled_ms) for scheduled_ms, job_id in session.rows(EXPIRED, bindings)]
    found = [run for run in find_runs(session, keys) if run is not None and run.state in IN_FLIGHT]
    return sorted(found, key=lambda run: (run.lease_ms or 0, run.job_id, run.scheduled_ms))
