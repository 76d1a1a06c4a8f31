"""`MemoryQueue`: packs in lists, gone with the process. The reference for every other queue.

No verb awaits anything, so each is atomic by itself. Deliveries all last equally long, hence the oldest of those
that are out ends first: looking at the first ones is enough to find what is to be visible again.
"""

from collections import deque
from itertools import count
from typing import NamedTuple

import numpy as np

from tickwheel.domain.columns import Rows, empty
from tickwheel.domain.job import Lane
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import HINT, PACK_COUNT, Delivery, Receipt


class _Out(NamedTuple):
    """A delivery that was neither acked nor given back."""

    lane: Lane
    packs: list[Rows]
    until_ms: int  # monotonic; visible again from then on


class MemoryQueue:
    """Implements `ports.queue.Queue`; what is not acked within `visible_again_ms` is delivered again."""

    def __init__(self, clock: Clock, visible_again_ms: int) -> None:
        self._clock, self._visible_again_ms = clock, visible_again_ms
        self._waiting: dict[Lane, deque[Rows]] = {lane: deque() for lane in Lane}
        self._out: dict[Receipt, _Out] = {}
        self._numbers = count(1)

    async def publish(self, lane: Lane, hints: Rows) -> None:
        for start in range(0, len(hints), PACK_COUNT):
            self._waiting[lane].append(hints[start : start + PACK_COUNT].copy())

    async def take(self, lane: Lane, limit: int) -> Delivery:
        self._show_again()
        receipt = str(next(self._numbers))
        packs = self._take_packs(self._waiting[lane], limit)
        if not packs:
            return Delivery(empty(HINT), receipt)
        self._out[receipt] = _Out(lane, packs, self._clock.monotonic_ms() + self._visible_again_ms)
        return Delivery(np.concatenate(packs), receipt)

    async def ack(self, receipt: Receipt) -> None:
        self._show_again()
        self._out.pop(receipt, None)

    async def nack(self, receipt: Receipt) -> None:
        if receipt in self._out:
            self._give_back(receipt)

    async def depth(self, lane: Lane) -> int:
        self._show_again()
        return sum(len(pack) for pack in self._waiting[lane])

    def _take_packs(self, waiting: deque[Rows], limit: int) -> list[Rows]:
        packs: list[Rows] = []
        room = limit
        while waiting and room > 0 and (not packs or len(waiting[0]) <= room):
            packs.append(waiting.popleft())
            room -= len(packs[-1])
        return packs

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
        self._waiting[out.lane].extend(out.packs)
