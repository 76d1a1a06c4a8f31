"""Drops leaves of timers that nobody will ever read again.

A leaf that ends at E may go when (1) every shard, owned or not, has acknowledged E, and (2) no transaction is left
that could still put a timer into it. A due time is never before the clock at its insert, so a transaction whose id
was drawn after the clock had passed E can't. Hence a *mark*: a transaction id m drawn once the clock has passed E
by a minute; when every stored snapshot has seen the end of all transactions before m (its xmin is m or more), all
timers of the leaf are visible to all owners, and resolved.

Example of what (2) is for: a request inserts a timer that is due at 23:59:59, and its commit waits for a standby.
At midnight and a bit every shard has acknowledged the day. Dropping the leaf now would wait for the request's
lock, its commit would answer 201, and the row would be dropped unseen.
"""

from collections.abc import Sequence
from typing import Final

import psycopg

from tickwheel.adapters.postgresql.detaching import SQL, detach_whole, name_of
from tickwheel.adapters.postgresql.ledger_retention import Straggler, read_acknowledged
from tickwheel.adapters.postgresql.partitions import LEAVES_LOCK, Leaf, list_leaves
from tickwheel.adapters.postgresql.session import Session

MARK_AFTER_MS: Final = 60_000
"""How long after the end of a leaf its mark is drawn: more than any clock of the cluster may be off."""


def mark_leaves(session: Session, now_ms: int) -> None:
    """Draw marks for leaves that have been over for a minute. `now_ms`: the database's clock, read before."""
    over = [leaf.name for leaf in _leaves(session) if leaf.end + MARK_AFTER_MS <= now_ms]
    marked = dict(session.rows(SQL["marks"]))
    unmarked = [name for name in over if name not in marked]
    if unmarked:
        session.write(SQL["draw_mark"], {"leaves": unmarked})


def drop_resolved(session: Session) -> list[Straggler]:
    """Drop all leaves that may go; gives those that are marked and may not."""
    marks = dict(session.rows(SQL["marks"]))
    acknowledged = read_acknowledged(session)
    stragglers = []
    for leaf in _leaves(session):
        mark = marks.get(leaf.name)
        if mark is None:
            continue
        if acknowledged.ack_ms < leaf.end:
            stragglers.append(Straggler(leaf.name, f"some shard has acknowledged only {acknowledged.ack_ms}"))
        elif acknowledged.oldest_xid < mark:
            stragglers.append(Straggler(leaf.name, "a transaction from before its end may still be open"))
        else:
            try:
                _drop(session, leaf)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled) as error:
                stragglers.append(Straggler(leaf.name, f"it could not be taken out yet ({str(error).strip()})"))
                break
    return stragglers


def _drop(session: Session, leaf: Leaf) -> None:
    with session.transaction():
        session.rows(SQL["hold_leaves"], {"key": LEAVES_LOCK})
        session.run(SQL["seal_timers"], {"end": leaf.end})
    detach_whole(session, "timers", leaf.name)
    drop_detached(session, leaf.name)


def drop_detached(session: Session, leaf: str) -> None:
    """Drop what was taken out, and its mark."""
    with session.transaction():
        session.run(b"DROP TABLE %s" % name_of(leaf))
        session.run(SQL["forget_mark"], {"leaf": leaf})


def _leaves(session: Session) -> Sequence[Leaf]:
    return list_leaves(session.connection, "timers")
