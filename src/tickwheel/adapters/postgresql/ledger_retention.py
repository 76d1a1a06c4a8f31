"""Drops leaves of the ledger, and of one-off definitions, that retention has done with.

A leaf of `runs` may go when (1) its end is older than the retention, (2) every shard has acknowledged beyond it,
(3) no leaf of timers is left that could hold a first timer of its runs, and (4) all its rows are terminal, out of
the dead-letter queue, and ended before the retention. Without (3) a timer that is read again (by an owner without
a pair, in a restored copy) would find no row and fire once more; so timers always leave first.

Rows that fail (4) are kept in a leaf of their own if they are few; with many of them the leaf is a *straggler*: it
stays, is looked at again after an hour, and is reported by `list_stragglers`.

Attempts and results follow their runs, definitions follow both. History (without results) is written from the
pieces that were taken out.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import psycopg

from tickwheel.adapters.postgresql.detaching import (
    ATTEMPTS,
    JOBS,
    KEPT_ROWS,
    RESULTS,
    RUNS,
    SQL,
    Moved,
    Table,
    adopt,
    announce,
    count_to_keep,
    detach_whole,
    exchange,
)
from tickwheel.adapters.postgresql.partitions import LEAVES_LOCK, RECURRING_HOME, Leaf, list_leaves
from tickwheel.adapters.postgresql.session import Session
from tickwheel.domain.ids import DAY_MS

KEY_LIFE_MS: Final = DAY_MS
"""Nothing goes sooner after its end: a repeat of a request finds what its idempotency key made."""
EARLIEST_MS: Final = 3_600_000
"""How far the instant of a new job may lie before its creation; its timer is due at creation then."""
LOOK_AGAIN_MS: Final = 3_600_000
_SEAL: Final = {"runs": "seal_runs", "jobs": "seal_jobs"}


class Straggler(NamedTuple):
    """A leaf that is due to be dropped and can't be."""

    leaf: str
    reason: str


class Acknowledged(NamedTuple):
    """What all shards have settled; `ack_ms` 0 while one of them has stored nothing."""

    ack_ms: int
    oldest_xid: int


def read_acknowledged(session: Session) -> Acknowledged:
    """Over all shards, as they are stored."""
    [(complete, ack_ms, oldest_xid)] = session.rows(SQL["acknowledged"])
    return Acknowledged(ack_ms, oldest_xid) if complete else Acknowledged(0, 0)


class LedgerRetention:
    """Remembers which leaves were looked through in vain."""

    def __init__(self) -> None:
        self._again_ms: dict[str, int] = {}
        self.stragglers: dict[str, Straggler] = {}

    def take_out(self, session: Session, now_ms: int, retention_ms: int) -> bool:
        """Make a piece of one leaf that may go; gives whether there was any.

        One at a time, and runs and attempts first: they are written with the names that their definitions have.
        """
        cutoff_ms = now_ms - max(retention_ms, KEY_LIFE_MS)
        acknowledged = read_acknowledged(session)
        runs = list_leaves(session.connection, "runs")
        due = [leaf for leaf in runs if leaf.end <= cutoff_ms]
        due = [leaf for leaf in due if self._is_settled(session, leaf, acknowledged)]
        if self._first_that_goes(session, RUNS, due, now_ms, cutoff_ms):
            return True
        [(_, sealed_runs_ms, _)] = session.rows(SQL["sealed"])
        runs = list_leaves(session.connection, "runs")
        for table in (ATTEMPTS, RESULTS):
            past = [
                leaf
                for leaf in list_leaves(session.connection, table.name)
                if leaf.end <= min(cutoff_ms, sealed_runs_ms)
            ]
            whole = [leaf for leaf in past if not any(_overlap(leaf, other) for other in runs)]
            if self._first_that_goes(session, table, whole, now_ms, cutoff_ms, can_thin=False):
                return True
        homes = [
            leaf
            for leaf in list_leaves(session.connection, "jobs")
            if leaf.start != RECURRING_HOME and leaf.end * DAY_MS <= min(cutoff_ms, sealed_runs_ms)
        ]
        return self._first_that_goes(session, JOBS, homes, now_ms, cutoff_ms)

    def _is_settled(self, session: Session, leaf: Leaf, acknowledged: Acknowledged) -> bool:
        if acknowledged.ack_ms < leaf.end:
            self._note(leaf, f"some shard has acknowledged only up to {acknowledged.ack_ms}")
            return False
        timers = list_leaves(session.connection, "timers")
        if timers and timers[0].start < leaf.end + EARLIEST_MS:
            self._note(leaf, f"the timers in {timers[0].name} are not dropped yet")
            return False
        return True

    def _first_that_goes(
        self,
        session: Session,
        table: Table,
        leaves: Sequence[Leaf],
        now_ms: int,
        cutoff_ms: int,
        *,
        can_thin: bool = True,
    ) -> bool:
        for leaf in leaves:
            if self._again_ms.get(leaf.name, 0) > now_ms:
                continue
            try:
                reason = _take_out(session, table, leaf, cutoff_ms, can_thin=can_thin)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled, Moved) as error:
                self._note(leaf, f"it could not be taken out yet ({str(error).strip() or type(error).__name__})")
                return False
            if reason is None:
                self.stragglers.pop(leaf.name, None)
                return True
            self._again_ms[leaf.name] = now_ms + LOOK_AGAIN_MS
            self._note(leaf, reason)
        return False

    def _note(self, leaf: Leaf, reason: str) -> None:
        self.stragglers[leaf.name] = Straggler(leaf.name, reason)


def _take_out(session: Session, table: Table, leaf: Leaf, cutoff_ms: int, *, can_thin: bool) -> str | None:
    """Make a piece of the leaf, or say why not."""
    count = count_to_keep(session, table, leaf.name, cutoff_ms)
    if count and not can_thin:
        return "its runs are still there"
    if count > KEPT_ROWS:
        return f"more than {KEPT_ROWS} of its rows are still needed"
    if count and not _holds_more(session, leaf.name, count):
        return f"{count} rows are still needed, and nothing else is left in it"
    _seal(session, table.name, leaf)
    if count:
        exchange(session, table, leaf, cutoff_ms)
    else:
        announce(session, leaf)
        detach_whole(session, table.name, leaf.name)
        adopt(session, leaf.name)
    return None


def _holds_more(session: Session, leaf: str, count: int) -> bool:
    rows = session.rows(f'SELECT count(*) FROM (SELECT FROM tickwheel."{leaf}" LIMIT {count + 1}) AS l'.encode())  # noqa: S608  # a name from the catalog, a number
    return bool(rows[0][0] > count)


def _seal(session: Session, table: str, leaf: Leaf) -> None:
    """From now on nobody makes a leaf there again."""
    if table in _SEAL:
        with session.transaction():
            session.rows(SQL["hold_leaves"], {"key": LEAVES_LOCK})
            session.run(SQL[_SEAL[table]], {"end": leaf.end})


def _overlap(one: Leaf, other: Leaf) -> bool:
    return one.start < other.end and other.start < one.end
