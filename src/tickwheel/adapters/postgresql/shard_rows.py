"""Rows of nodes, shards and pairs: see `ports.shards`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tickwheel.adapters.postgresql.arrays import int2s, int8s, texts
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.columns import Ints
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.shards import STORED, FeedSessionLost, HeldPair, Pair, ShardState, Snapshot, Taken

SQL: Final = load_statements("shards")


def acquire(session: Session, worker: str) -> Ints:
    """Depose everybody else, then take all shards: two commits, so that all claims ended before the second."""
    session.write(SQL["enlist_again"], {"me": worker})
    session.write(SQL["depose_others"], {"me": worker})
    epochs: Ints = np.zeros(SHARD_COUNT, dtype=np.int64)
    for shard, epoch in session.write(SQL["take_all"], {"me": worker}):
        epochs[shard] = epoch
    return epochs


def enlist(session: Session, incarnation: str) -> None:
    """See `ShardStore.enlist`."""
    session.write(SQL["enlist"], {"me": incarnation})


def depose(session: Session, incarnation: str, proved_dead: bool) -> None:
    """See `ShardStore.depose`."""
    session.write(SQL["depose"], {"incarnation": incarnation, "dead": proved_dead})


def deposed(session: Session, incarnations: Sequence[str]) -> list[str]:
    """See `ShardStore.deposed`."""
    return [name for (name,) in session.rows(SQL["deposed"], {"incarnations": texts(incarnations)})]


def list_shards(session: Session) -> list[ShardState]:
    """See `ShardStore.list_shards`."""
    return [ShardState(*row) for row in session.rows(SQL["list_shards"])]


def take(session: Session, incarnation: str, seen: Mapping[int, int]) -> list[Taken]:
    """See `ShardStore.take`."""
    rows = session.write(SQL["take"], _held(incarnation, seen))
    return [
        Taken(shard, epoch, None if ack_ms is None else Pair(ack_ms, Snapshot(text)))
        for shard, epoch, ack_ms, text in rows
    ]


def release(session: Session, incarnation: str, held: Mapping[int, int]) -> None:
    """See `ShardStore.release`."""
    session.write(SQL["release"], _held(incarnation, held))


def store_pairs(session: Session, incarnation: str, pairs: Sequence[HeldPair]) -> list[int]:
    """See `ShardStore.store_pairs`; in the session of the feed."""
    if any(held.pair.snapshot.session not in (STORED, session.number) for held in pairs):
        raise FeedSessionLost("the session that read a snapshot is gone")
    bindings = {
        **_held(incarnation, {held.shard: held.epoch for held in pairs}),
        "acks": int8s([held.pair.ack_ms for held in pairs]),
        "snapshots": texts([held.pair.snapshot.text for held in pairs]),
    }
    stored = {shard for (shard,) in session.write(SQL["store_pairs"], bindings)}
    return [held.shard for held in pairs if held.shard not in stored]


def now_ms(session: Session, pin_ms: int | None) -> int:
    """The server's clock, or the pinned one."""
    [[value]] = session.rows(SQL["now_ms"], {"pin": pin_ms})
    return int(value)


def _held(incarnation: str, epochs: Mapping[int, int]) -> dict[str, Any]:
    return {"me": incarnation, "shards": int2s(list(epochs)), "epochs": int8s(list(epochs.values()))}
