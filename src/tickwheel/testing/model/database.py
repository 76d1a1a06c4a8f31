"""The server: transactions that take time, row locks, crashes, dropped leaves of timers.

A transaction is carried out in two steps. When it begins, its id is drawn, its row locks are taken, and its
`look` reads what the statement reads; when it commits, `apply` writes, at once and as a whole. What `look` saw is
still true then if a lock held it still, and that is just what the locks are for.

A crash of the server ends all open transactions, and their ids are given out again (B5): those of the transactions
that had not committed leave no trace.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from typing import Any, Final, TypeVar

from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.ports.clock import Clock
from tickwheel.testing.model.row_locks import RowLocks, Wish
from tickwheel.testing.model.rules import Rules
from tickwheel.testing.model.tables import ModelTables

L = TypeVar("L")
T = TypeVar("T")

LEAF_MS: Final = 2_000
"""Length of a leaf of the timers table: short, so that leaves are dropped within a simulation."""
SEAL_AFTER_MS: Final = 3_000
"""C6: so long after the end of a leaf an id is drawn that marks the transactions which can't write into it."""
LOCK_PATIENCE_MS: Final = 1_000
"""A statement that has waited this long for a row is given up."""


class ModelDatabase:
    """One server. `clock` is its clock; `rules` says what its statements leave undone."""

    def __init__(self, clock: Clock, rules: Rules | None = None) -> None:
        self.clock = clock
        self.rules = rules or Rules()
        self.tables = ModelTables(self.rules)
        self.locks = RowLocks()
        self.is_up = True
        self.crash_count = 0
        self.dropped_leaf_count = 0
        self.after_commit: list[Callable[[], None]] = []
        self._marks: dict[int, int] = {}  # end of a leaf -> the id that was drawn for it
        self._serving: set[asyncio.Task[Any]] = set()

    @property
    def open_count(self) -> int:
        """Transactions that are open now."""
        return len(self.tables.transactions.open)

    def serve(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Carry this out on the server, whatever becomes of the client."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._serving.add(task)
        task.add_done_callback(self._served)
        return task

    def _served(self, task: asyncio.Task[Any]) -> None:
        self._serving.discard(task)
        if not task.cancelled():
            task.exception()  # its client may be gone; then nobody else asks

    async def transact(
        self,
        *,
        wishes: Sequence[Wish],
        open_ms: int,
        aborts: bool,
        look: Callable[[], L],
        apply: Callable[[L, int], T],
    ) -> T:
        """One transaction; `apply` gets what `look` saw and the server's clock at the statement."""
        crash_count = self.crash_count
        xid = self.tables.transactions.begin()
        holder = (crash_count, xid)
        committed = False
        try:
            for wish in sorted(wishes, key=lambda wish: repr(wish.row)) if len(wishes) > 1 else wishes:
                granted = self.locks.take(holder, wish)
                if granted is not None:
                    await self._wait(granted)
                    self._check(crash_count)
            statement_ms = self.clock.now_ms()
            looked = look()
            if open_ms:
                await self.clock.sleep_ms(open_ms)
                self._check(crash_count)
            if aborts:
                raise StoreUnavailable("the transaction was rolled back")
            self.tables.clock_ms = statement_ms
            with self.tables.writing(xid):
                answer = apply(looked, statement_ms)
            committed = True
            for told in self.after_commit:
                told()
            return answer
        finally:
            if crash_count == self.crash_count:
                self.tables.transactions.end(xid, committed=committed)
                self.locks.release(holder)

    async def _wait(self, granted: asyncio.Future[None]) -> None:
        """For a row; not for ever."""
        limit = asyncio.ensure_future(self.clock.sleep_ms(LOCK_PATIENCE_MS))
        try:
            await asyncio.wait((granted, limit), return_when=asyncio.FIRST_COMPLETED)
        finally:
            limit.cancel()
        if not granted.done():
            raise StoreUnavailable("waited too long for a row")

    def _check(self, crash_count: int) -> None:
        if crash_count != self.crash_count:
            raise OutcomeUnknown("the server is gone")

    def crash(self) -> None:
        """The server dies; `restart` starts it again."""
        self.is_up = False
        self.crash_count += 1
        self.locks.clear()
        self.tables.transactions.crash()

    def restart(self) -> None:
        """It answers again. All sessions are new ones."""
        self.is_up = True

    def seal(self) -> int | None:
        """Find the end up to which leaves may be dropped (C6); None when there is nothing new."""
        now_ms, pairs = self.clock.now_ms(), self.tables.ownership.pairs
        end_ms = (now_ms - SEAL_AFTER_MS) // LEAF_MS * LEAF_MS
        transactions = self.tables.transactions
        if end_ms not in self._marks:
            xid = transactions.begin()
            transactions.end(xid)
            self._marks[end_ms] = xid
        if len(pairs) < len(self.tables.ownership.shards):
            return None
        acked_ms = min(pair.ack_ms for pair in pairs.values())
        oldest = min(int(text.partition(":")[0]) for text in {pair.snapshot.text for pair in pairs.values()})
        ends = [
            end
            for end, mark in self._marks.items()
            if end <= acked_ms and (oldest >= mark or not self.rules.hold("C6"))
        ]
        sealed_ms = max(ends, default=0)
        if sealed_ms <= self.tables.sealed_ms:
            return None
        self.tables.sealed_ms = sealed_ms
        return sealed_ms

    def drop(self, sealed_ms: int) -> None:
        """Drop the leaves up to there. Some time after `seal`, for a DROP waits for its lock."""
        self.tables.drop_leaves(sealed_ms)
        self.dropped_leaf_count += 1
        self._marks = {end: mark for end, mark in self._marks.items() if end > sealed_ms}

    async def aclose(self) -> None:
        """Wait for nobody."""
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
