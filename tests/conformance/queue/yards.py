"""Where the suite runs a queue: opens it as often as asked, and lets time pass as its server counts it."""

import asyncio
from abc import ABC, abstractmethod

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.ports.queue import Queue
from tickwheel.testing.virtual_clock import VirtualClock

VISIBLE_AGAIN_MS = 60_000
SETTLING_TURNS = 10


class Yard(ABC):
    """One empty queue. What was opened is closed at the end."""

    def __init__(self) -> None:
        self._opened: list[Queue] = []

    async def open(self) -> Queue:
        """The queue as another process has it, where it can be shared at all."""
        self._opened.append(self._open())
        return self._opened[-1]

    async def aclose(self) -> None:
        for queue in self._opened:
            await queue.aclose()

    @abstractmethod
    def _open(self) -> Queue: ...

    @abstractmethod
    async def pass_ms(self, length_ms: int) -> None:
        """Let deliveries grow older by that."""

    def open_unreachable(self) -> Queue | None:
        """One whose server isn't there; None where the queue has no server."""
        return None


class MemoryYard(Yard):
    def __init__(self) -> None:
        super().__init__()
        self._clock = VirtualClock()
        self._queue = MemoryQueue(self._clock, VISIBLE_AGAIN_MS)

    def _open(self) -> Queue:
        return self._queue

    async def pass_ms(self, length_ms: int) -> None:
        for _ in range(SETTLING_TURNS):  # who was about to sleep does
            await asyncio.sleep(0)
        self._clock.step_ms(length_ms)
