"""Runs many short coroutines on few tasks.

A task costs more than a handler that does little. So a *runner* is one task that takes attempts from a queue and
steps each coroutine itself: one that ends without ever waiting has cost no task at all. The first that waits keeps
its runner for itself to its end, and other runners go on with the queue; so whatever hangs on the current task
(timeouts, task groups, sessions of a database) belongs to one attempt alone.

Runners are many where handlers wait, and few where they don't: each that waits starts others, twice as many as
the one before it did. A runner gives way after `TURN_S`, for handlers that never wait would keep the loop for the
length of the whole queue.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, Final, Generic, TypeVar

TURN_S: Final = 0.005
RUNNERS_AT_ONCE: Final = 64

Item = TypeVar("Item")


class Coroutines(Generic[Item]):
    """`begin(item)` makes the coroutine of an item, or None to leave it out; `end` gets what became of it.

    That is `end(item, error, value)`: what it raised, or None and what it returned.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        begin: "Callable[[Item, asyncio.Task[None]], Coroutine[Any, Any, Any] | None]",
        end: Callable[[Item, BaseException | None, Any], None],
    ) -> None:
        self._loop, self._begin, self._end = loop, begin, end
        self._context = copy_context()  # what runners begin with, whoever starts them
        self._queue: deque[Item] = deque()
        self._runners: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly
        self._unstarted = 0  # runners that have not begun
        self._growth = 1

    def submit(self, item: Item) -> None:
        """Run the coroutine of `item` soon. Loop thread only."""
        self._queue.append(item)
        if not self._unstarted:
            self._growth = 1
            self._start_another()

    def _start_runner(self) -> None:
        self._unstarted += 1
        runner = self._loop.create_task(self._run(), context=self._context.copy())
        self._runners.add(runner)
        runner.add_done_callback(self._runners.discard)

    def _start_another(self) -> None:
        """One that is to go on in place of one that ends."""
        if self._queue and not self._unstarted:
            self._start_runner()

    def _start_more(self) -> None:
        """Others that go on while one waits."""
        self._growth = min(2 * self._growth, RUNNERS_AT_ONCE)
        for _ in range(min(self._growth - self._unstarted, len(self._queue))):
            self._start_runner()

    async def _run(self) -> None:
        self._unstarted -= 1
        runner = asyncio.current_task()
        assert runner is not None
        queue, loop, clean = self._queue, self._loop, copy_context()
        turn_ends_s = loop.time() + TURN_S
        while queue:
            item = queue.popleft()
            coroutine = self._begin(item, runner)
            if coroutine is None:
                continue
            try:
                waits_for = coroutine.send(None)
            except StopIteration as stop:
                self._end(item, None, stop.value)
            except BaseException as error:  # whatever a handler raises is its end, not the runner's
                self._end(item, error, None)
            else:
                self._start_more()
                await self._finish(item, coroutine, waits_for)
                return
            left_something = copy_context() != clean or runner.cancelling()
            if left_something or loop.time() > turn_ends_s:
                break
        self._start_another()

    async def _finish(self, item: Item, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        try:
            value = await _Rest(coroutine, waits_for)
        except BaseException as error:  # as above
            self._end(item, error, None)
        else:
            self._end(item, None, value)


class _Rest:
    """What is left of a coroutine that was stepped once and waits for something: await it to go on from there."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._coroutine, self._waits_for = coroutine, waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, waits_for = self._coroutine, self._waits_for
        while True:
            failure: BaseException | None = None
            value = None
            try:
                value = yield waits_for
            except BaseException as error:  # a cancellation, for the coroutine to see
                failure = error
            try:
                waits_for = coroutine.send(value) if failure is None else coroutine.throw(failure)
            except StopIteration as stop:
                return stop.value
