"""An event loop that knows when nobody has anything to do.

A virtual clock may move only when all coroutines are blocked; jumping earlier would let time pass in the middle
of what somebody does. The moment is seen in the selector: asyncio asks it to wait only when no callback is ready.
Work in other threads is invisible here; `grace_ms` (real time) makes the loop wait that long for news from
sockets and threads before it calls itself idle.
"""

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class IdleLoop(asyncio.SelectorEventLoop):
    """A loop with `when_idle`."""

    def __init__(self, grace_ms: int = 0) -> None:
        self._idle_selector = _IdleSelector(grace_ms)
        super().__init__(self._idle_selector)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once, the next time that nothing is ready to run; one callback per such moment."""
        self._idle_selector.waiting.append(callback)


class _IdleSelector(selectors.DefaultSelector):
    def __init__(self, grace_ms: int) -> None:
        super().__init__()
        self.waiting: deque[Callable[[], None]] = deque()
        self._grace_s = grace_ms / 1000

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


async def until_idle() -> None:
    """Let everybody else go on until all are blocked. Needs an `IdleLoop`."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, IdleLoop):
        raise RuntimeError("virtual time needs tickwheel.testing.idle_loop.run, or its IdleLoop")
    reached = loop.create_future()
    loop.when_idle(lambda: None if reached.done() else reached.set_result(None))
    await reached
