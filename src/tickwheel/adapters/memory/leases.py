"""Leases: heartbeats keep them, and those that ran out are found."""

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.columns import Bools, Rows
from tickwheel.domain.ids import SHARD_COUNT, shard_of
from tickwheel.domain.ledger_moves import instant
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.store import Run


def renew(tables: Tables, batch: Rows) -> Bools:
    """Apply RENEWAL rows whose token still holds its run."""
    held: Bools = np.zeros(len(batch), dtype=np.bool_)
    for number, values in enumerate(batch.tolist()):
        job_id, scheduled_ms, fence, started_ms, lease_ms, beat_ms, mark_running = values
        row = tables.ledger.get((job_id, scheduled_ms))
        if row is None or row.run.fence != fence or row.run.state not in IN_FLIGHT:
            continue
        run = row.run
        tables.put_run(
            row,
            replace(
                run,
                state=RunState.RUNNING if mark_running else run.state,
                attempt=row.attempt_in_flight if mark_running else run.attempt,
                started_ms=instant(started_ms) or run.started_ms,
                lease_ms=lease_ms,
                beat_ms=beat_ms,
            ),
        )
        held[number] = True
    return held


def expired(tables: Tables, now_ms: int, limit: int, shards: Sequence[int] | None) -> Sequence[Run]:
    """See `Ledger.expired`."""
    wanted: Collection[int] = range(SHARD_COUNT) if shards is None else set(shards)
    runs = [tables.ledger[key].run for key in tables.in_flight if shard_of(key[0]) in wanted]
    gone = [run for run in runs if (run.lease_ms or 0) <= now_ms or tables.ownership.is_dead(run.worker)]
    return sorted(gone, key=lambda run: (run.lease_ms or 0, run.job_id, run.scheduled_ms))[:limit]
