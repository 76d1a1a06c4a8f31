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
from collections.abc import Sequence
from typing import Final

from psycopg import sql

from tickwheel.adapters.postgresql.arrays import TIMER_ARRAYS, timers_from_arrays
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.ports.shards import STORED, Fed, FeedSessionLost, Snapshot

FEED: Final = sql.SQL(load_statements("load")["feed"].decode())
TAKE_SNAPSHOT: Final = load_statements("shards")["snapshot"]

_SNAPSHOT: Final = re.compile(r"(\d+):(\d+):(\d+(?:,\d+)*)?")


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
    [(text, *columns)] = session.rows_of(query(prev, shards, until_ms))
    return Fed(timers_from_arrays(columns), Snapshot(text, session.number))


def query(prev: Snapshot, shards: Sequence[int], until_ms: int) -> sql.Composed:
    """The statement of a poll."""
    found = _SNAPSHOT.fullmatch(prev.text)
    if found is None:
        raise ValueError(f"{prev.text!r} is not a snapshot")
    return FEED.format(
        columns=sql.SQL(TIMER_ARRAYS),
        xmax=sql.Literal(found[2]),
        in_progress=sql.Literal("{" + (found[3] or "") + "}"),
        until_ms=sql.Literal(until_ms),
        shards=sql.Literal(list(shards)),
    )
