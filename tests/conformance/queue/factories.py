"""How each queue is opened for the suite: empty, on a clock that the test moves.

An adapter joins by one entry in `BACKENDS`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.ports.queue import Queue
from tickwheel.testing.virtual_clock import VirtualClock

VISIBLE_AGAIN_MS = 5_000


@asynccontextmanager
async def memory(clock: VirtualClock) -> AsyncIterator[Queue]:
    yield MemoryQueue(clock, VISIBLE_AGAIN_MS)


BACKENDS: dict[str, Callable[[VirtualClock], AbstractAsyncContextManager[Queue]]] = {"memory": memory}
