"""Timers as they are loaded: a page in due order, or what a snapshot had not seen."""

from collections.abc import Collection, Iterable, Sequence

from tickwheel.adapters.memory.tables import Tables, TimerKey
from tickwheel.adapters.memory.transactions import read_snapshot
from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.domain.ids import SHARD_COUNT, shard_of


def load_timers(tables: Tables, from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None) -> Rows:
    """See `TimerStore.load_timers`."""
    wanted: Collection[int] = range(SHARD_COUNT) if shards is None else set(shards)
    keys = sorted(k for k in tables.timers if from_ms <= k.due_ms < until_ms and shard_of(k.job_id) in wanted)
    if len(keys) > limit:
        last_ms = keys[limit - 1].due_ms
        keys = [key for key in keys if key.due_ms <= last_ms]
    return _rows(tables, keys)


def feed(tables: Tables, prev: str, shards: Sequence[int], until_ms: int) -> Rows:
    """Timers of these shards that are there now and were not visible in the snapshot `prev`."""
    wanted = set(shards)
    keys = [
        key
        for xid in tables.transactions.unseen(read_snapshot(prev))
        for key in tables.timers_by_xid.get(xid, ())
        if key.due_ms < until_ms and shard_of(key.job_id) in wanted
    ]
    return _rows(tables, keys)


def _rows(tables: Tables, keys: Iterable[TimerKey]) -> Rows:
    keys = list(keys)
    rows = empty(TIMER, len(keys))
    for number, key in enumerate(keys):
        rows[number] = (*key, tables.timers[key].flags)
    return rows
