"""A queue whose hints are leased briefly to whoever takes them: the same hint, taken by another worker meanwhile,
is dropped without asking the ledger.

Hints come twice: an owner publishes what has not begun for five seconds again, and a queue gives out again what a
worker that hangs has taken. The ledger refuses the second begin, at the price of a write that changes nothing.

**What it must not do** is keep a run from beginning. A lease is shorter than the time after which an owner
publishes again; it is given up with the hint; and no process refuses a hint twice, so a lease that stays (a Redis
whose clock was set back, or that came back with what it held) costs one more publication. While leases can't be
had, hints pass as they come.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np

from tickwheel.domain.columns import Rows
from tickwheel.ports.brief_leases import BriefLeases
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import Delivery, Queue, Receipt, Topic

K = TypeVar("K")
V = TypeVar("V")
LENGTH_MS: Final = 4_000
AWAY_MS: Final = 5_000
KEPT: Final = 10_000
"""Refused hints, and deliveries not settled yet, that are remembered."""


class LeasedQueue:
    """Implements `ports.queue.Queue` around another one."""

    def __init__(self, queue: Queue, leases: BriefLeases, clock: Clock) -> None:
        self._queue, self._leases, self._clock = queue, leases, clock
        self._away_until_ms = 0
        self._refused: dict[bytes, None] = {}
        self._open: dict[Receipt, Rows] = {}

    async def publish(self, topic: Topic, hints: Rows) -> None:
        await self._queue.publish(topic, hints)

    async def take(self, topics: Sequence[Topic], limit: int) -> Sequence[Delivery]:
        deliveries = await self._queue.take(topics, limit)
        if not deliveries or self._clock.monotonic_ms() < self._away_until_ms:
            return deliveries
        rows = np.concatenate([delivery.rows for delivery in deliveries])
        try:
            mine = await self._leases.acquire(rows, LENGTH_MS)
        except ConnectionError:
            self._away_until_ms = self._clock.monotonic_ms() + AWAY_MS
            return deliveries
        for number in np.flatnonzero(~mine).tolist():
            mine[number] = self._is_refused_already(rows[number].tobytes())
        ends = np.cumsum([len(delivery.rows) for delivery in deliveries])
        parts = np.split(mine, ends[:-1])
        left = [d._replace(rows=d.rows[part]) for d, part in zip(deliveries, parts, strict=True) if part.any()]
        dropped = [d.receipt for d, part in zip(deliveries, parts, strict=True) if not part.any()]
        for delivery in left:
            _remember(self._open, delivery.receipt, delivery.rows)
        if dropped:
            await self._queue.ack(dropped)
        return left

    async def wait(self, topics: Sequence[Topic], limit_ms: int) -> None:
        await self._queue.wait(topics, limit_ms)

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            self._open.pop(receipt, None)
        await self._queue.ack(receipts)

    async def nack(self, receipts: Sequence[Receipt]) -> None:
        given_back = [rows for receipt in receipts if (rows := self._open.pop(receipt, None)) is not None]
        if given_back and self._clock.monotonic_ms() >= self._away_until_ms:
            try:
                await self._leases.release(np.concatenate(given_back))
            except ConnectionError:
                self._away_until_ms = self._clock.monotonic_ms() + AWAY_MS
        await self._queue.nack(receipts)

    async def depth(self, topics: Sequence[Topic]) -> Sequence[int]:
        return await self._queue.depth(topics)

    async def aclose(self) -> None:
        await self._leases.aclose()
        await self._queue.aclose()

    def _is_refused_already(self, hint: bytes) -> bool:
        if hint in self._refused:
            del self._refused[hint]
            return True
        _remember(self._refused, hint, None)
        return False


def _remember(kept: dict[K, V], key: K, value: V) -> None:
    kept[key] = value
    if len(kept) > KEPT:
        del kept[next(iter(kept))]
