"""Leases: heartbeats keep them, and those that ran out are found."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.columns import BEGUN, Bools, Rows, empty
from tickwheel.domain.ids import SHARD_COUNT, shard_of
from tickwheel.domain.ledger_moves import instant
from tickwheel.domain.outcome import ProgressNote
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.store import Run


def renew(tables: Tables, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
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
        row.beat = notes.get(number, row.beat) if notes else row.beat
    return held


def begin(tables: Tables, hints: Rows, worker: str, now_ms: int, lease_ms: int) -> Rows:
    """See `Ledger.begin`; a worker whose session is over begins nothing."""
    begun = empty(BEGUN, len(hints))
    if not tables.ownership.is_enlisted(worker):
        return begun
    for number, (job_id, scheduled_ms, fence, _) in enumerate(hints.tolist()):
        row = tables.ledger.get((job_id, scheduled_ms))
        if row is None or row.run.fence != fence or row.run.state is not RunState.CLAIMED:
            continue
        run = replace(
            row.run,
            state=RunState.RUNNING,
            attempt=row.attempt_in_flight,
            worker=worker,
            started_ms=now_ms,
            beat_ms=now_ms,
            lease_ms=lease_ms,
        )
        tables.put_run(row, run)
        begun[number] = (1, run.attempt, run.lost_count)
    return begun


def expired(tables: Tables, now_ms: int, limit: int, shards: Sequence[int] | None) -> Sequence[Run]:
    """See `Ledger.expired`."""
    wanted: Collection[int] = range(SHARD_COUNT) if shards is None else set(shards)
    runs = [tables.ledger[key].run for key in tables.in_flight if shard_of(key[0]) in wanted]
    held = [run for run in runs if run.worker is not None]  # what is queued has no lease that could end
    gone = [run for run in held if (run.lease_ms or 0) <= now_ms or tables.ownership.is_dead(run.worker)]
    return sorted(gone, key=lambda run: (run.lease_ms or 0, run.job_id, run.scheduled_ms))[:limit]
