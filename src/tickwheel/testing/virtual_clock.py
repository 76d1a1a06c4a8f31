"""A clock that stands still until it is told to move.

Sleepers wake in the order of their instants, and whoever has been woken runs until it blocks again before time
goes on, so a test sees the same order every time. With `auto_jump` the clock moves by itself: whenever all is
blocked it jumps to the next sleeper. Example: three loops that sleep 5, 200 and 1,000 ms, run for a virtual day,
take as long as their own work.
"""

import asyncio
import heapq
import types
from collections.abc import Generator
from itertools import count
from typing import Final

from tickwheel.testing.idle_loop import IdleLoop, running_idle_loop

START_MS: Final = 1_790_000_000_000
"""Where virtual time starts unless told otherwise: in September 2026."""


class VirtualClock:
    """Implements `ports.clock.Clock`. Sleeping needs an `IdleLoop`; reading and `step_ms` do not."""

    def __init__(self, start_ms: int = START_MS, *, auto_jump: bool = False) -> None:
        self._start_ms = self._now_ms = start_ms
        self._auto_jump = auto_jump
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._jump_planned = False

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms - self._start_ms

    async def sleep_ms(self, length_ms: int) -> None:
        if length_ms <= 0:
            await _yield_once()
            return
        woken: asyncio.Future[None] = asyncio.Future()
        heapq.heappush(self._sleepers, (self._now_ms + length_ms, next(self._numbers), woken))
        self._plan_jump()
        await woken

    @property
    def next_wake_ms(self) -> int | None:
        """When the next sleeper wakes; None when nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def step_ms(self, length_ms: int) -> None:
        """Move at once; sleepers that are due by then wake when the loop runs again, all at the new time."""
        self._now_ms += length_ms
        while (wake_ms := self.next_wake_ms) is not None and wake_ms <= self._now_ms:
            self._wake_next()

    async def advance(self, length_ms: int) -> None:
        """Move step by step: each sleeper wakes at its own instant and acts before time goes on."""
        until_ms = self._now_ms + length_ms
        loop = running_idle_loop()
        reached = loop.create_future()

        def step() -> None:
            if reached.done():
                return  # who waited here was cancelled
            wake_ms = self.next_wake_ms
            if wake_ms is None or wake_ms > until_ms:
                reached.set_result(None)
                return
            self._now_ms = max(self._now_ms, wake_ms)
            self._wake_next()
            loop.when_idle(step)

        loop.when_idle(step)
        await reached
        self._now_ms = max(self._now_ms, until_ms)

    def _wake_next(self) -> None:
        _, _, woken = heapq.heappop(self._sleepers)
        if not woken.done():
            woken.set_result(None)

    def _plan_jump(self) -> None:
        if not self._auto_jump or self._jump_planned:
            return
        loop = asyncio.get_running_loop()
        if not isinstance(loop, IdleLoop):
            raise RuntimeError("auto_jump needs tickwheel.testing.idle_loop.run, or its IdleLoop")
        self._jump_planned = True
        loop.when_idle(self._jump)

    def _jump(self) -> None:
        self._jump_planned = False
        wake_ms = self.next_wake_ms
        if wake_ms is not None:
            self._now_ms = max(self._now_ms, wake_ms)
            self._wake_next()
        if self._sleepers:
            self._plan_jump()


@types.coroutine
def _yield_once() -> Generator[None, None, None]:
    yield
