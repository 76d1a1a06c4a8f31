"""Reads waiting timers, what is committed later, and what claims need of jobs.

Timers come as arrays in binary form and become columns at once. A page of `load_timers` is read in pieces, each
with a bounded number of each shard's timers. Where a shard had more than that, whatever lies at or beyond its last
row is incomplete; the piece ends before the first such instant, and the next begins there. Example: 4 per shard;
shard 1 gave dues 1 2 3 4 (there may be more), shard 2 gave 2 9: the piece is 1 2 2 3. A tie longer than that is
read whole.
"""

from collections.abc import Mapping, Sequence
from math import isqrt
from typing import Final

import numpy as np
from psycopg import sql

from tickwheel.adapters.postgresql.arrays import TIMER_ARRAYS, int2s, int4s, timers_from_arrays, uuids, uuids_of
from tickwheel.adapters.postgresql.batches import Bindings, bounds, homes_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.shard_rows import now_ms as read_clock
from tickwheel.adapters.postgresql.statements import in_leaves, load_statements
from tickwheel.domain.columns import FLAG_RECURRING, Ints, Rows
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.job import JobState
from tickwheel.ports.store import WorkDefinition

SQL: Final = load_statements("load")
TIMERS: Final = sql.SQL(SQL["timers"].decode())
ALL: Final = 1 << 62
_SPARE: Final = 16
_SPREAD: Final = 4
"""So many standard deviations more than its share is read of each shard: one piece is mostly a whole page."""
_GROWTH: Final = 4
_STATES: Final = {int(state): state for state in JobState}


def load_timers(
    session: Session, from_ms: int, until_ms: int, limit: int, shards: Sequence[int], pin_ms: int | None
) -> Rows:
    """See `TimerStore.load_timers`."""
    limit = max(1, limit)
    now_ms = read_clock(session, pin_ms)
    share = -(-limit // max(1, len(shards)))
    per_shard = share + _SPREAD * isqrt(share) + _SPARE
    pieces, count = [], 0
    while from_ms < until_ms and count < limit:
        rows = _read(session, from_ms, until_ms, per_shard, shards, now_ms)
        complete_ms = _complete_until(rows, per_shard)
        if complete_ms is not None:
            part = rows[rows["due_ms"] < complete_ms]
            if not len(part):  # a tie that is longer than what was asked for
                part = _read(session, complete_ms, complete_ms + 1, ALL, shards, now_ms)
                complete_ms += 1
            rows = part
        pieces.append(_ordered(rows))
        count += len(rows)
        from_ms = until_ms if complete_ms is None else complete_ms
        per_shard *= _GROWTH  # few shards hold most of it
    rows = np.concatenate(pieces)
    if len(rows) > limit:
        rows = rows[: int(rows["due_ms"].searchsorted(rows["due_ms"][limit - 1], "right"))]
    return rows


def _read(
    session: Session, from_ms: int, until_ms: int, per_shard: int, shards: Sequence[int], now_ms: int
) -> Rows:
    [columns] = session.rows_of(
        TIMERS.format(
            columns=sql.SQL(TIMER_ARRAYS),
            shards=sql.Literal(list(shards)),
            from_ms=sql.Literal(from_ms),
            until_ms=sql.Literal(until_ms),
            now_ms=sql.Literal(now_ms),
            per_shard=sql.Literal(per_shard),
        )
    )
    return timers_from_arrays(columns)


def _complete_until(rows: Rows, per_shard: int) -> int | None:
    """The first instant that may lack rows; None: nothing is lacking."""
    if not len(rows):
        return None
    shards = shards_of(rows["job_id"])
    full = np.bincount(shards) >= per_shard
    if not full.any():
        return None
    lasts: Ints = np.full(len(full), np.iinfo(np.int64).min)
    np.maximum.at(lasts, shards, rows["due_ms"])
    return int(lasts[full].min())


def _ordered(rows: Rows) -> Rows:
    """In the total order of timers: due, job id, instant, gen."""
    ids = np.ascontiguousarray(rows["job_id"]).view(">u8").reshape(-1, 2)
    order = np.lexsort((rows["gen"], rows["scheduled_ms"], ids[:, 1], ids[:, 0], rows["due_ms"]))
    return rows[order]


def load_work(session: Session, job_ids: Sequence[bytes], now_ms: int) -> list[WorkDefinition | None]:
    """In the order given; None where there is no such job."""
    if not job_ids:
        return []
    bindings = work_bindings(job_ids)
    jobs = session.near_leaves.relation("jobs", bindings["home_min"], bindings["home_max"], now_ms)
    rows = session.rows(in_leaves(SQL["work"], ("jobs", jobs)), bindings)
    recurring = {job_ids[row[0] - 1]: row[4] for row in rows if row[10] & FLAG_RECURRING}
    taken = _taken(session, recurring) if recurring else {}
    works: list[WorkDefinition | None] = [None] * len(job_ids)
    for number, tenant, name, state, version, spec, payload, key, effective_ms, updated_ms, _, changes in rows:
        works[number - 1] = WorkDefinition(
            tenant,
            name,
            _STATES[state],
            version,
            spec.encode(),
            payload,
            key,
            effective_ms,
            taken.get(job_ids[number - 1], ()) if taken else (),
            changes,
            updated_ms,
        )
    return works


def work_bindings(job_ids: Sequence[bytes]) -> Bindings:
    """The parameters of `work`; at least one job."""
    ids = np.frombuffer(b"".join(job_ids), "V16")
    homes, shards = homes_of(ids), shards_of(ids)
    return {
        "homes": int4s(homes),
        "ids": uuids(ids),
        "home_set": int4s(np.unique(homes)),
        "shards": int2s(shards),
        **bounds("home", homes),
        **bounds("shard", shards),
    }


def _taken(session: Session, versions: Mapping[bytes, int]) -> dict[bytes, tuple[int, ...]]:
    bindings = {"ids": uuids_of(list(versions)), "versions": int4s(list(versions.values()))}
    return {job_id.bytes: tuple(instants) for job_id, instants in session.rows(SQL["taken"], bindings)}
