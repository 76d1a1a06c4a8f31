"""A process's way to the coordinator, which can be cut; the coordinator itself can be away, or lose its data."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from tickwheel.adapters.memory.coordinator import MemoryCoordinator
from tickwheel.ports.clock import Clock
from tickwheel.ports.coordinator import Beat
from tickwheel.testing.model import Process

T = TypeVar("T")
LAPSE_MS = 2_000
UNREACHABLE_MS = 300


class Coordination:
    """The coordinator of a cluster."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.is_up = True
        self.inner = MemoryCoordinator(clock, LAPSE_MS)

    def forget(self) -> None:
        """It was started again without its data."""
        self.inner = MemoryCoordinator(self.clock, LAPSE_MS)


class CoordinatorLink:
    """Implements `ports.coordinator.Coordinator` for a process."""

    def __init__(self, coordination: Coordination, process: Process) -> None:
        self._coordination, self._process = coordination, process

    async def _call(self, verb: Callable[[MemoryCoordinator], Awaitable[T]]) -> T:
        try:
            if not (self._coordination.is_up and self._process.reaches_coordinator and self._process.alive):
                await self._coordination.clock.sleep_ms(UNREACHABLE_MS)
                raise ConnectionError("the coordinator can't be reached")
            return await verb(self._coordination.inner)
        finally:
            if self._process.is_stopped:
                await self._process.pass_gate()

    async def beat(self, incarnation: str, counter: int, payload: bytes) -> None:
        await self._call(lambda inner: inner.beat(incarnation, counter, payload))

    async def members(self) -> Mapping[str, Beat]:
        return await self._call(lambda inner: inner.members())

    async def leave(self, incarnation: str) -> None:
        await self._call(lambda inner: inner.leave(incarnation))

    async def acquire_lock(self, name: str, incarnation: str) -> int | None:
        return await self._call(lambda inner: inner.acquire_lock(name, incarnation))

    async def release_lock(self, name: str, incarnation: str) -> None:
        await self._call(lambda inner: inner.release_lock(name, incarnation))

    async def lock_holder(self, name: str) -> str | None:
        return await self._call(lambda inner: inner.lock_holder(name))

    async def aclose(self) -> None:
        """The coordinator itself stays."""
