"""Room for what comes and retention of what was: one thread, a session of its own for each turn.

Turns are rare and may take long (an export of millions of rows), so they don't share the sessions that others wait
for. Two processes that sweep at once are harmless: the second finds the lock taken and does nothing.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import psycopg

from tickwheel.adapters.postgresql.definitions_retention import DefinitionsRetention, free_piece
from tickwheel.adapters.postgresql.detaching import (
    JOBS,
    RESULTS,
    SQL,
    Piece,
    adopt,
    finish_pending,
    is_there,
    name_of,
    rescue,
)
from tickwheel.adapters.postgresql.errors import translate
from tickwheel.adapters.postgresql.history import ExportFailed, History
from tickwheel.adapters.postgresql.ledger_retention import KEY_LIFE_MS, LedgerRetention, Straggler
from tickwheel.adapters.postgresql.partitions import Connection, make_window
from tickwheel.adapters.postgresql.retired_nodes import drop_retired
from tickwheel.adapters.postgresql.session import Session, SessionKind, connect
from tickwheel.adapters.postgresql.timer_retention import drop_detached, drop_resolved, mark_leaves
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.ids import DAY_MS, HOME_HORIZON_MS

UPKEEP: Final = SessionKind(
    "upkeep",
    (
        b"SET lock_timeout = '2s'",
        b"SET statement_timeout = '10min'",
        b"SET idle_in_transaction_session_timeout = '60s'",
        b"SET plan_cache_mode = force_custom_plan",
        b"SET jit = off",
    ),
    prepares=False,
)
SWEEP_LOCK: Final = 0x7469_636B_0002
BEHIND_MS: Final = DAY_MS
"""A leaf for what is a little late is made as well."""
LEDGER_AHEAD_MS: Final = 7 * DAY_MS
"""The ledger gets its rows when runs begin; each empty leaf ahead costs every read that can't prune it."""

T = TypeVar("T")


class Upkeep:
    """`maintain` and `sweep` of the store."""

    def __init__(self, url: str, pinned_ms: Callable[[], int | None], history: History | None = None) -> None:
        self._url, self._pinned_ms, self._history = url, pinned_ms, history
        self._ledger, self._definitions = LedgerRetention(), DefinitionsRetention()
        self._timers: list[Straggler] = []
        self._thread = ThreadPoolExecutor(1, "postgresql-upkeep")
        self._session: Session | None = None
        self._closed = False

    async def maintain(self) -> None:
        """See `make_room`."""
        await self._turn(lambda session: make_room(session.connection, self._clock(session)))

    async def sweep(self, retention_ms: int) -> int:
        """See `Store.sweep`; the clock that counts is the database's."""
        return await self._turn(lambda session: self._sweep(session, retention_ms))

    def stragglers(self) -> list[Straggler]:
        """Leaves that the last sweep wanted to drop and had to leave."""
        return [*self._timers, *self._ledger.stragglers.values()]

    def close(self) -> None:
        """End the turn under way. Blocks."""
        self._closed = True
        session = self._session
        if session is not None:
            session.cut()
        self._thread.shutdown()

    async def _turn(self, work: Callable[[Session], T]) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)

    def _run(self, work: Callable[[Session], T]) -> T:
        try:
            self._session = session = connect(self._url, UPKEEP)
            try:
                return work(session)
            finally:
                self._session = None
                session.close()
        except psycopg.Error as error:
            raise translate(error) from error
        except (OSError, ExportFailed) as error:
            raise StoreUnavailable(f"history could not be written, so nothing was dropped ({error})") from error

    def _clock(self, session: Session) -> int:
        now_ms: int = session.rows(SQL["clock"], {"pinned_ms": self._pinned_ms()})[0][0]
        return now_ms

    def _sweep(self, session: Session, retention_ms: int) -> int:
        if not session.rows(SQL["try_lock"], {"key": SWEEP_LOCK})[0][0]:
            return 0
        finish_pending(session)
        self._finish_orphans(session)
        now_ms = self._clock(session)
        drop_retired(session, now_ms, now_ms - max(retention_ms, KEY_LIFE_MS))
        mark_leaves(session, now_ms)
        self._timers = drop_resolved(session)
        deleted = self._drop_pieces(session, now_ms, retention_ms)  # of a sweep that was interrupted
        while not deleted and self._ledger.take_out(session, now_ms, retention_ms):
            deleted = self._drop_pieces(session, now_ms, retention_ms)
        return deleted + self._definitions.delete_over(session, now_ms, retention_ms)

    def _finish_orphans(self, session: Session) -> None:
        for (leaf,) in session.rows(SQL["orphans"]):
            if leaf.startswith("timers_"):
                drop_detached(session, leaf)
            else:
                adopt(session, leaf)

    def _drop_pieces(self, session: Session, now_ms: int, retention_ms: int) -> int:
        cutoff_ms = now_ms - max(retention_ms, KEY_LIFE_MS)
        deleted = 0
        for values in session.rows(SQL["pieces"]):
            piece = Piece(*values)
            if is_there(session, piece.name):
                rescue(session, piece.table, piece, cutoff_ms, now_ms)
                deleted += self._drop_piece(session, piece)
        return deleted

    def _drop_piece(self, session: Session, piece: Piece) -> int:
        row_count: int = session.rows(b"SELECT count(*) FROM %s" % name_of(piece.name))[0][0]
        if piece.table is JOBS:
            free_piece(session, piece.name)
        elif self._history is not None and row_count and piece.table is not RESULTS:
            _export(session, self._history, piece.name)
        with session.transaction():
            session.run(b"DROP TABLE %s" % name_of(piece.name))
            session.run(SQL["piece_is_dropped"], {"piece": piece.name, "row_count": row_count})
        return row_count


def make_room(connection: Connection, now_ms: int) -> None:
    """Leaves from yesterday on, two months ahead (the ledger: a week); others are made when a row asks."""
    today_ms = now_ms // DAY_MS * DAY_MS
    start_ms = today_ms - BEHIND_MS
    make_window(connection, start_ms, today_ms + LEDGER_AHEAD_MS, now_ms)
    make_window(connection, start_ms, today_ms + HOME_HORIZON_MS, now_ms, tables=("timers", "jobs"))


def _export(session: Session, history: History, piece: str) -> None:
    written = history.export(session, piece)
    bindings = {"piece": piece, "row_count": written.row_count, "checksum": written.checksum}
    session.run(SQL["piece_is_written"], bindings)
