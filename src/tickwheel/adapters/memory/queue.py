"""`MemoryQueue`: packs in lists, gone with the process. The reference for every other queue.

No verb but `wait` awaits anything, so each is atomic by itself. Deliveries all last equally long, hence the oldest
of those that are out ends first: looking at the first ones is enough to find what is to be visible again.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from tickwheel.domain.columns import Rows
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import PACK_COUNT, Delivery, Receipt, Topic


class _Out(NamedTuple):
    """A delivery that was neither acked nor given back."""

    topic: Topic
    packs: list[Rows]
    until_ms: int  # monotonic; visible again from then on


class _Waiter(NamedTuple):
    topics: frozenset[Topic]
    woken: asyncio.Event


class MemoryQueue:
    """Implements `ports.queue.Queue`; what is not acked within `visible_again_ms` is delivered again."""

    def __init__(self, clock: Clock, visible_again_ms: int) -> None:
        self._clock, self._visible_again_ms = clock, visible_again_ms
        self._waiting: dict[Topic, deque[Rows]] = {}  # no topic is kept when it is empty
        self._out: dict[Receipt, _Out] = {}
        self._waiters: list[_Waiter] = []
        self._numbers = count(1)

    async def publish(self, topic: Topic, hints: Rows) -> None:
        packs = [hints[start : start + PACK_COUNT].copy() for start in range(0, len(hints), PACK_COUNT)]
        if packs:
            self._append(topic, packs)

    async def take(self, topics: Sequence[Topic], limit: int) -> Sequence[Delivery]:
        self._show_again()
        until_ms = self._clock.monotonic_ms() + self._visible_again_ms
        deliveries: list[Delivery] = []
        room = limit
        for topic in topics:
            packs = self._take_packs(topic, room, even_a_larger_one=not deliveries)
            if packs:
                receipt = str(next(self._numbers))
                self._out[receipt] = _Out(topic, packs, until_ms)
                deliveries.append(Delivery(topic, np.concatenate(packs), receipt))
                room -= len(deliveries[-1].rows)
        return deliveries

    async def wait(self, topics: Sequence[Topic], limit_ms: int) -> None:
        self._show_again()
        if any(topic in self._waiting for topic in topics):
            return
        if self._out:  # in the order of their ends
            next_end_ms = next(iter(self._out.values())).until_ms
            limit_ms = min(limit_ms, next_end_ms - self._clock.monotonic_ms())
        waiter = _Waiter(frozenset(topics), asyncio.Event())
        self._waiters.append(waiter)
        ends = [
            asyncio.ensure_future(waiter.woken.wait()),
            asyncio.ensure_future(self._clock.sleep_ms(limit_ms)),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiters.remove(waiter)
            for end in ends:
                end.cancel()

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        self._show_again()
        for receipt in receipts:
            self._out.pop(receipt, None)

    async def nack(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            if receipt in self._out:
                self._give_back(receipt)

    async def depth(self, topics: Sequence[Topic]) -> Sequence[int]:
        self._show_again()
        return [sum(map(len, self._waiting.get(topic, ()))) for topic in topics]

    async def aclose(self) -> None:
        for waiter in self._waiters:
            waiter.woken.set()

    def _take_packs(self, topic: Topic, room: int, *, even_a_larger_one: bool) -> list[Rows]:
        waiting = self._waiting.get(topic)
        packs: list[Rows] = []
        while waiting and room > 0 and (len(waiting[0]) <= room or (even_a_larger_one and not packs)):
            packs.append(waiting.popleft())
            room -= len(packs[-1])
        if not waiting:
            self._waiting.pop(topic, None)
        return packs

    def _append(self, topic: Topic, packs: list[Rows]) -> None:
        self._waiting.setdefault(topic, deque()).extend(packs)
        for waiter in self._waiters:
            if topic in waiter.topics:
                waiter.woken.set()

    def _show_again(self) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._out:
            receipt = next(iter(self._out))
            if now_ms < self._out[receipt].until_ms:
                return
            self._give_back(receipt)

    def _give_back(self, receipt: Receipt) -> None:
        """At the end, so that a pack which nobody can use does not hold up those behind it."""
        out = self._out.pop(receipt)
        self._append(out.topic, out.packs)
