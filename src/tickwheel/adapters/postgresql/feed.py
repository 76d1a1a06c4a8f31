"""The feed: what is committed after an owner has read its timers.

Every timer carries the xid of its transaction. A snapshot says which transactions it sees: all below its xmax but
those of its list, which were still open. So what a snapshot `prev` had not seen and is there now has either an xid
>= its xmax, or one of its list: two index scans, and each timer comes exactly once, in whatever order transactions
commit. Example: prev is `100:105:101,103`. Transaction 103 commits after a hang of ten seconds, 107 has committed:
the poll gives the timers of 103 and 107, and its own snapshot, say `101:108:101`, is the next prev.

Two things would break that, and are refused. After a crash PostgreSQL hands out again the xids of transactions
that left nothing durable, so a `prev` from before it may lie above them: it is good only in the session that read
it (a stored one is safe, its own commit has a higher xid). And a standby's snapshots list no open transactions
(B5, B6).
"""

import re
import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
from psycopg import sql

from tickwheel.adapters.postgresql.arrays import COPY_HEAD_BYTES, COPY_TAIL_BYTES
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.columns import TIMER, empty
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.ports.shards import STORED, Fed, FeedSessionLost, Snapshot

FEED: Final = sql.SQL(load_statements("load")["feed"].decode())
TAKE_SNAPSHOT: Final = load_statements("shards")["snapshot"]

_SNAPSHOT: Final = re.compile(r"(\d+):(\d+):(\d+(?:,\d+)*)?")
_ROW: Final = np.dtype(
    [
        ("count", ">i2"),
        ("length_1", ">i4"),
        ("due_ms", ">i8"),
        ("length_2", ">i4"),
        ("job_id", "V16"),
        ("length_3", ">i4"),
        ("scheduled_ms", ">i8"),
        ("length_4", ">i4"),
        ("gen", ">i4"),
        ("length_5", ">i4"),
        ("flags", ">i2"),
        ("length_6", ">i4"),
    ]
)
"""A row of the feed up to its text, which is NULL in all but the first."""


def take_snapshot(session: Session) -> Snapshot:
    """The snapshot of now, good in this session."""
    [[text, standby]] = session.rows(TAKE_SNAPSHOT)
    if standby:
        raise StoreUnavailable("the server is a standby, whose snapshots do not tell which transactions are open")
    return Snapshot(text, session.number)


def feed(session: Session, prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
    """See `ShardStore.feed`."""
    if prev.session not in (STORED, session.number):
        raise FeedSessionLost("the session that read the snapshot is gone")
    data = session.copy_out(query(prev, shards, until_ms))
    text_start = COPY_HEAD_BYTES + _ROW.itemsize
    (length,) = struct.unpack_from(">i", data, text_start - 4)
    rows_start = text_start + length
    count = (len(data) - rows_start - COPY_TAIL_BYTES) // _ROW.itemsize
    fed = np.frombuffer(data, _ROW, count, rows_start)
    rows = empty(TIMER, count)
    for name in ("due_ms", "job_id", "scheduled_ms", "gen", "flags"):
        rows[name] = fed[name]
    return Fed(rows, Snapshot(data[text_start:rows_start].decode(), session.number))


def query(prev: Snapshot, shards: Sequence[int], until_ms: int) -> sql.Composed:
    """The statement of a poll."""
    found = _SNAPSHOT.fullmatch(prev.text)
    if found is None:
        raise ValueError(f"{prev.text!r} is not a snapshot")
    return FEED.format(
        xmax=sql.Literal(found[2]),
        in_progress=sql.Literal("{" + (found[3] or "") + "}"),
        until_ms=sql.Literal(until_ms),
        shards=sql.Literal(list(shards)),
    )
