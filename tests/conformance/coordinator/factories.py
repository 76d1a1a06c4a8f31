"""How each coordinator is opened for the suite: empty, on a clock that the test moves.

An adapter joins by one entry in `BACKENDS`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tickwheel.adapters.memory.coordinator import MemoryCoordinator
from tickwheel.ports.coordinator import Coordinator
from tickwheel.testing.virtual_clock import VirtualClock

LAPSE_MS = 2_000


@asynccontextmanager
async def memory(clock: VirtualClock) -> AsyncIterator[Coordinator]:
    yield MemoryCoordinator(clock, LAPSE_MS)


BACKENDS: dict[str, Callable[[VirtualClock], AbstractAsyncContextManager[Coordinator]]] = {"memory": memory}
