"""Workers apart from the nodes, and the queue between them: real code over the model of the database.

In a story with workers the nodes run nothing themselves. The queue may lose everything at any moment, be away for
somebody or for all, and deliver again what was taken; sessions and hints go through the same weather as all else.
Some workers belong to a tenant.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from typing import Any, Final, TypeVar

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.domain.columns import Rows
from tickwheel.domain.job import TargetType
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import Event, LoopFailed
from tickwheel.ports.executor import Executor, Progress, Report
from tickwheel.ports.queue import Delivery, Queue, Receipt, Topic
from tickwheel.ports.workers import WorkerNote
from tickwheel.services.remote.store_source import StoreSource
from tickwheel.services.remote.worker_loop import WorkerLoop
from tickwheel.testing.model import ModelDatabase, ModelStore, Process, ProcessClock, Weather
from tickwheel.testing.seeded_randomness import SeededRandomness

from .nodes import CURRENT, SETTINGS
from .targets import TargetExecutor, Targets

T = TypeVar("T")
SLOTS: Final = 12
OWN: Final = {"y": "acme", "z": "acme"}
"""The tenants of workers that serve one only, by their names."""
VISIBLE_AGAIN_MS: Final = 1_500


class SimQueue:
    """The queue itself; each process reaches it through a `QueueLink` of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.is_up = True
        self.loses = False  # what is published is gone at once
        self.inner: Queue = MemoryQueue(clock, VISIBLE_AGAIN_MS)

    def flush(self) -> None:
        """All hints are gone."""
        self.inner = MemoryQueue(self._clock, VISIBLE_AGAIN_MS)


class QueueLink:
    """Implements `ports.queue.Queue` for a process: refused while the queue is away, or the process cut off."""

    def __init__(self, queue: SimQueue, process: Process, clock: Clock) -> None:
        self._queue, self._process, self._clock = queue, process, clock

    async def publish(self, topic: Topic, hints: Rows) -> None:
        await self._call(lambda queue: queue.publish(topic, hints[:0] if self._queue.loses else hints))

    async def take(self, topics: Sequence[Topic], limit: int) -> Sequence[Delivery]:
        return await self._call(lambda queue: queue.take(topics, limit))

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        await self._call(lambda queue: queue.ack(receipts))

    async def nack(self, receipts: Sequence[Receipt]) -> None:
        await self._call(lambda queue: queue.nack(receipts))

    async def depth(self, topics: Sequence[Topic]) -> Sequence[int]:
        return await self._call(lambda queue: queue.depth(topics))

    async def wait(self, topics: Sequence[Topic], limit_ms: int) -> None:
        until_ms = self._clock.monotonic_ms() + limit_ms
        while not any(await self.depth(topics)) and self._clock.monotonic_ms() < until_ms:
            await self._clock.sleep_ms(20)

    async def aclose(self) -> None:
        return

    async def _call(self, verb: Callable[[Queue], Awaitable[T]]) -> T:
        await self._process.pass_gate()
        if not (self._queue.is_up and self._process.reaches_store and self._process.alive):
            raise ConnectionError("the queue can't be reached")
        answer = await verb(self._queue.inner)
        await self._process.pass_gate()
        return answer


class SimWorker:
    """One start of a worker, with the store and the queue at hand. Its tasks die with it."""

    def __init__(
        self,
        name: str,
        number: int,
        *,
        database: ModelDatabase,
        queue: SimQueue,
        weather: Weather,
        targets: Targets,
        rng: random.Random,
        on_loop_failed: Callable[[str], None],
    ) -> None:
        self.name, self.tasks = name, list[asyncio.Task[Any]]()
        self.tenant_id = OWN.get(name)
        self.process = Process(f"{name}/{number}")
        self.clock = ProcessClock(database.clock, self.process)
        self._targets, self._on_loop_failed = targets, on_loop_failed
        self._context = copy_context()
        self._context.run(CURRENT.set, self)
        self._loop = self._context.run(self._build, database, queue, weather, rng)

    def _build(self, database: ModelDatabase, queue: SimQueue, weather: Weather, rng: random.Random) -> WorkerLoop:
        source = StoreSource(
            store=ModelStore(database, self.process, weather),
            queue=QueueLink(queue, self.process, self.clock),
            clock=self.clock,
            randomness=SeededRandomness(rng.getrandbits(32)),
            events=self,
            process=self.process.name,
            handlers=(),
            webhooks=True,
            lease_ms=SETTINGS.lease_ms,
            tenant_id=self.tenant_id,
        )
        return WorkerLoop(
            source=source,
            clock=self.clock,
            events=self,
            note=WorkerNote(name=self.name, webhooks=True, slots=SLOTS, tenant_id=self.tenant_id),
            build={TargetType.HTTP_WEBHOOK: self._build_executor},
        )

    def own(self, task: "asyncio.Task[Any]") -> None:
        """It dies with this worker."""
        self.tasks.append(task)
        if len(self.tasks) % 100 == 0:
            self.tasks = [task for task in self.tasks if not task.done()]

    def _build_executor(self, report: Report, progress: Progress) -> Executor:
        return TargetExecutor(report, self._targets, self.process, self._spawn, SLOTS, self.tenant_id)

    def _spawn(self, work: Awaitable[T]) -> "asyncio.Task[T]":
        async def carry_out() -> T:
            return await work

        return asyncio.get_running_loop().create_task(carry_out(), context=self._context.copy())

    def emit(self, event: Event) -> None:
        """Loops that fail in ways nobody thought of."""
        expected = ("StoreUnavailable", "OutcomeUnknown", "ConnectionError", "SessionOver")
        if isinstance(event, LoopFailed) and event.loop != "completion" and not event.error.startswith(expected):
            self._on_loop_failed(f"{self.process.name} {event.loop}: {event.error}")

    def start(self) -> None:
        """Enlist and take work; again while that fails, as a service manager does."""
        self._spawn(self._start())

    async def _start(self) -> None:
        while True:
            try:
                await self._loop.start()
            except Exception:
                await self.clock.sleep_ms(200)
            else:
                return

    def kill(self) -> None:
        """SIGKILL."""
        self.process.alive = False
        self.process.go_on()
        for task in list(self.tasks):
            task.cancel()

    def stop(self) -> None:
        """SIGSTOP."""
        self.process.stop()

    def go_on(self) -> None:
        """SIGCONT."""
        self.process.go_on()

    async def shut_down(self) -> None:
        """A planned stop."""
        await asyncio.wait((self._spawn(self._loop.drain(1_000)),))
        self.process.alive = False
