"""Row locks: shared or exclusive, first come first served, held until the transaction ends."""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

Row: TypeAlias = Hashable
Holder: TypeAlias = Hashable


class Wish(NamedTuple):
    """A row to lock; FOR SHARE unless `exclusive`."""

    row: Row
    exclusive: bool


class _Waiter(NamedTuple):
    holder: Holder
    exclusive: bool
    granted: asyncio.Future[None]


class RowLocks:
    """All row locks of one server."""

    def __init__(self) -> None:
        self._held: dict[Row, dict[Holder, bool]] = {}
        self._queues: dict[Row, deque[_Waiter]] = {}
        self._rows_of: dict[Holder, set[Row]] = {}

    def take(self, holder: Holder, wish: Wish) -> asyncio.Future[None] | None:
        """None: granted at once; else done when it is granted. No deadlocks if all wishes come in one order."""
        row, exclusive = wish
        if row not in self._queues and self._is_free(row, exclusive):
            self._grant(holder, row, exclusive)
            return None
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(row, deque()).append(_Waiter(holder, exclusive, granted))
        return granted

    def release(self, holder: Holder) -> None:
        """End of the holder's transaction; whoever waits behind it may go on."""
        rows = self._rows_of.pop(holder, set())
        waited = [row for row, queue in self._queues.items() if any(w.holder == holder for w in queue)]
        for row in waited:
            self._queues[row] = deque(w for w in self._queues[row] if w.holder != holder)
        for row in [*rows, *waited]:
            held = self._held.get(row, {})
            held.pop(holder, None)
            if not held:
                self._held.pop(row, None)
            self._serve(row)

    def clear(self) -> None:
        """The server is gone: nobody holds anything, and nobody waits any more."""
        queues, self._queues, self._held, self._rows_of = self._queues, {}, {}, {}
        for queue in queues.values():
            for waiter in queue:
                if not waiter.granted.done():
                    waiter.granted.set_result(None)

    def _is_free(self, row: Row, exclusive: bool) -> bool:
        held = self._held.get(row)
        return not held or not (exclusive or any(held.values()))

    def _grant(self, holder: Holder, row: Row, exclusive: bool) -> None:
        self._held.setdefault(row, {})[holder] = exclusive
        self._rows_of.setdefault(holder, set()).add(row)

    def _serve(self, row: Row) -> None:
        queue = self._queues.get(row)
        while queue and self._is_free(row, queue[0].exclusive):
            holder, exclusive, granted = queue.popleft()
            self._grant(holder, row, exclusive)
            if not granted.done():
                granted.set_result(None)
        if not queue:
            self._queues.pop(row, None)
