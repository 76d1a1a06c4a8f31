"""Waiting for hints where nothing tells of them: one poll per process, while anybody waits.

All who wait share it, however many they are: it asks for all their topics at once, at first after 5 ms, then less
and less often down to each 50 ms. Somebody new is looked for at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import Topic

FIRST_PAUSE_MS: Final = 5
LAST_PAUSE_MS: Final = 50


class _Waiter(NamedTuple):
    topics: frozenset[Topic]
    woken: "asyncio.Future[None]"


class Waiting:
    """`filled` gives those of its topics of which there is something to take; it may raise `ConnectionError`."""

    def __init__(self, clock: Clock, filled: Callable[[Sequence[Topic]], Awaitable[Sequence[Topic]]]) -> None:
        self._clock, self._filled = clock, filled
        self._waiters: list[_Waiter] = []
        self._polling: asyncio.Task[None] | None = None
        self._pause_ms = FIRST_PAUSE_MS
        self._newcomer = asyncio.Event()

    async def wait(self, topics: Sequence[Topic], limit_ms: int) -> None:
        """Return when one of them is filled, or after the limit. Raises what the poll raises."""
        waiter = _Waiter(frozenset(topics), asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self._newcomer.set()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        limit = asyncio.ensure_future(self._clock.sleep_ms(limit_ms))
        try:
            await asyncio.wait({waiter.woken, limit}, return_when=asyncio.FIRST_COMPLETED)
            if waiter.woken.done():
                waiter.woken.result()
        finally:
            limit.cancel()
            waiter.woken.cancel()
            self._waiters.remove(waiter)
            if not self._waiters:
                self._stop()

    async def aclose(self) -> None:
        for waiter in self._waiters:
            if not waiter.woken.done():
                waiter.woken.set_result(None)
        self._stop()

    def _stop(self) -> None:
        polling, self._polling = self._polling, None
        if polling is not None:
            polling.cancel()

    async def _poll(self) -> None:
        while True:
            if self._newcomer.is_set():
                self._newcomer.clear()
                self._pause_ms = FIRST_PAUSE_MS
            waiters = [waiter for waiter in self._waiters if not waiter.woken.done()]
            topics = list(frozenset[Topic]().union(*(waiter.topics for waiter in waiters)))
            try:
                filled = set(await self._filled(topics)) if topics else set()
            except ConnectionError as error:
                for waiter in waiters:
                    if not waiter.woken.done():
                        waiter.woken.set_exception(error)
                filled = set()
            for waiter in waiters:
                if not waiter.woken.done() and not filled.isdisjoint(waiter.topics):
                    waiter.woken.set_result(None)
            await self._rest()

    async def _rest(self) -> None:
        """Until the next poll; a newcomer ends it."""
        ends = [
            asyncio.ensure_future(self._newcomer.wait()),
            asyncio.ensure_future(self._clock.sleep_ms(self._pause_ms)),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        self._pause_ms = min(2 * self._pause_ms, LAST_PAUSE_MS)
