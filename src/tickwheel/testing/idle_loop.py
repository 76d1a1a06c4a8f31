"""An event loop that knows when nobody has anything to do.

A virtual clock may move only when all coroutines are blocked; jumping earlier would let time pass in the middle
of what somebody does. The moment is seen where asyncio would wait: it does so only when no callback is ready.
Work in other threads is invisible here; `grace_ms` (real time) makes the loop wait that long for news from
sockets and threads before it calls itself idle.

Whole clusters run on this loop, tens of thousands of steps to the second, and most steps do little. So while there
is nothing but callbacks (no socket, no timer of asyncio's own, no debugging), they are called straight from the
queue, in the order that asyncio has, and the system is not asked for news that can't be there.
"""

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class IdleLoop(asyncio.SelectorEventLoop):
    """A loop with `when_idle`."""

    _ready: deque[asyncio.Handle]  # these are asyncio's own, which its stubs don't tell
    _scheduled: list[asyncio.TimerHandle]
    _debug: bool
    _closed: bool

    def __init__(self, grace_ms: int = 0) -> None:
        self._idle_selector = _IdleSelector(grace_ms)
        super().__init__(self._idle_selector)
        self._own_file_count = self._idle_selector.file_count  # the pipe that wakes the loop
        self._has_grace = grace_ms > 0

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once, the next time that nothing is ready to run; one callback per such moment."""
        self._idle_selector.waiting.append(callback)

    def call_soon(  # type: ignore[override]  # mypy 1 takes no *args: Any for a tuple of type variables
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._debug or self._closed:
            return super().call_soon(callback, *args, context=context)
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        """One turn of the loop: everything that is ready now, or else whoever waits for idleness."""
        ready, selector = self._ready, self._idle_selector
        waiting, has_files = selector.waiting, selector.file_count > self._own_file_count
        if self._scheduled or self._has_grace or has_files or not (ready or waiting):
            super()._run_once()  # type: ignore[misc]  # asyncio's own, which its stubs don't tell
            return
        if not ready:
            waiting.popleft()()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()


class _Handle(asyncio.Handle):
    """A callback of a loop that is not being debugged."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled = False
        self._repr = self._source_traceback = None


class _IdleSelector(selectors.DefaultSelector):
    def __init__(self, grace_ms: int) -> None:
        super().__init__()
        self.waiting: deque[Callable[[], None]] = deque()
        self._grace_s = grace_ms / 1000
        self.file_count = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self.file_count += 1
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self.file_count -= 1
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if not self.waiting:
            return super().select(timeout)
        events = super().select(self._grace_s)
        if not events:
            self.waiting.popleft()()
        return events


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on an `IdleLoop`."""
    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        return runner.run(main)


def running_idle_loop() -> IdleLoop:
    """The loop that runs here; raises `RuntimeError` if it is of another kind."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, IdleLoop):
        raise RuntimeError("virtual time needs tickwheel.testing.idle_loop.run, or its IdleLoop")
    return loop


async def until_idle() -> None:
    """Let everybody else go on until all are blocked. Needs an `IdleLoop`."""
    loop = running_idle_loop()
    reached = loop.create_future()
    loop.when_idle(lambda: None if reached.done() else reached.set_result(None))
    await reached
