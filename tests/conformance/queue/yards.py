"""Where the suite runs a queue: opens it as often as asked, and lets time pass as its server counts it."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import count

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.adapters.postgresql.queue import PostgresQueue
from tickwheel.adapters.redis.address import read_address
from tickwheel.adapters.redis.queue import RedisQueue
from tickwheel.adapters.system import SystemClock
from tickwheel.ports.queue import Queue
from tickwheel.testing.virtual_clock import VirtualClock

from ...servers.redis import RedisServer

VISIBLE_AGAIN_MS = 60_000
SETTLING_TURNS = 10
PATIENCE_S = 20
"""How long an answer of a server may take here."""
_numbers = count(1)


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


class RedisYard(Yard):
    """On a real Redis. The test makes deliveries older there, so nothing depends on how busy the machine is."""

    def __init__(self, url: str, servers: Sequence[RedisServer]) -> None:
        super().__init__()
        self._url, self._servers = url, servers
        self.cluster = f"test-{next(_numbers)}"

    def _open(self) -> RedisQueue:
        return self._queue(self._url)

    def open_unreachable(self) -> Queue:
        return self._queue(re.sub(r":\d+", ":1", self._url))

    def _queue(self, url: str) -> RedisQueue:
        return RedisQueue(
            read_address(url, setting="queue"),
            SystemClock(),
            cluster=self.cluster,
            visible_again_ms=VISIBLE_AGAIN_MS,
            call_seconds=PATIENCE_S,
        )

    async def pass_ms(self, length_ms: int) -> None:
        await asyncio.sleep(0.01)  # who was about to wait does
        for server in self._servers:
            for key in server.ask("KEYS", f"tickwheel:{self.cluster}:queue:*"):
                self._make_older(server, key, length_ms)

    @staticmethod
    def _make_older(server: RedisServer, key: bytes, length_ms: int) -> None:
        if not server.ask("XINFO", "GROUPS", key):
            return
        for id_, consumer, idle_ms, _ in server.ask("XPENDING", key, "workers", "-", "+", 1_000):
            server.ask(
                *("XCLAIM", key, "workers", consumer, 0, id_),
                *("IDLE", idle_ms + length_ms, "JUSTID"),
            )


class PostgresYard(Yard):
    """On a real PostgreSQL, by the test's clock."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url, self._clock = url, VirtualClock()

    def _open(self) -> PostgresQueue:
        return self._queue(self._url)

    def open_unreachable(self) -> Queue:
        return self._queue("postgresql://nobody@127.0.0.1:1/nowhere")

    def _queue(self, url: str) -> PostgresQueue:
        return PostgresQueue(url, SystemClock(), visible_again_ms=VISIBLE_AGAIN_MS, pinned_clock=self._clock)

    async def pass_ms(self, length_ms: int) -> None:
        await asyncio.sleep(0.01)  # who was about to wait does
        self._clock.step_ms(length_ms)
