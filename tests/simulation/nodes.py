"""Whole nodes: firing side, ownership side and use cases of one process, over the model of the database.

Every asyncio task that a node starts carries the node in its context, so that a kill ends all of them where they
happen to be, and nothing else.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, Protocol, TypeVar

from tickwheel.adapters.memory.peers import MemoryNetwork, MemoryPeers
from tickwheel.domain.errors import OutcomeUnknown
from tickwheel.ports.buffer import Buffer
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import Event, LoopFailed
from tickwheel.ports.executor import Executor, Progress, Report
from tickwheel.ports.queue import Queue
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.jobs import Jobs
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.node_note import NodeNote
from tickwheel.services.ownership.ownership import Ownership
from tickwheel.services.ownership.recent import RecentlyArmed
from tickwheel.services.runs import Runs
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.testing.model import ModelDatabase, ModelStore, Process, ProcessClock, Weather
from tickwheel.testing.seeded_randomness import SeededRandomness

from .coordination import Coordination, CoordinatorLink
from .rulebook import TENANT_LIMITS
from .targets import TargetExecutor, Targets

T = TypeVar("T")
SLOTS: Final = 24
TASKS_KEPT: Final = 100
SETTINGS: Final = SchedulerSettings(
    lease_ms=4_000,
    window_ms=60_000,
    webhook_slots=SLOTS,
    webhook_host_limit=SLOTS,
    handler_slots=4,
    feed_poll_ms=100,
    near_ms=600,
    buffer_ms=20_000,
)


class TaskOwner(Protocol):
    """A program whose tasks end when it is killed."""

    def own(self, task: "asyncio.Task[Any]") -> None: ...


CURRENT: ContextVar[TaskOwner | None] = ContextVar("node", default=None)


def make_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], context: Context | None = None
) -> "asyncio.Task[T]":
    """The loop's task factory: tasks belong to the node that starts them."""
    context = context if context is not None else copy_context()
    task = asyncio.Task(work, loop=loop, context=context)
    node = context.get(CURRENT)
    if node is not None:
        node.own(task)
    return task


class Node:
    """One start of a program."""

    def __init__(
        self,
        name: str,
        number: int,
        *,
        database: ModelDatabase,
        weather: Weather,
        coordination: Coordination,
        network: MemoryNetwork,
        targets: Targets,
        rng: random.Random,
        on_loop_failed: Callable[[str], None],
        buffer: Buffer | None = None,
        queue_of: Callable[[Process, Clock], Queue] | None = None,
    ) -> None:
        self.name, self.tasks = name, list[asyncio.Task[Any]]()
        self._tasks_kept = TASKS_KEPT
        self.process = Process(f"{name}/{number}")
        self.clock = ProcessClock(database.clock, self.process)
        self.store = ModelStore(database, self.process, weather)
        self.peers = MemoryPeers(network)
        self._network, self._targets, self._on_loop_failed = network, targets, on_loop_failed
        self._context = copy_context()
        self._context.run(CURRENT.set, self)
        randomness = SeededRandomness(rng.getrandbits(32))
        holdings = Holdings()
        self.scheduler = Scheduler(
            store=self.store,
            clock=self.clock,
            randomness=randomness,
            events=self,
            build_webhooks=self._build_executor,
            build_handlers=self._build_executor,
            serves=lambda target: queue_of is None,
            holdings=holdings,
            worker=self.process.name,
            settings=SETTINGS,
            shards=self.store,
            is_leader=lambda: False,
            buffer=buffer,
            queue=None if queue_of is None else queue_of(self.process, self.clock),
        )
        self.scheduler._planner.tenant_limit = TENANT_LIMITS.get
        self.ownership = Ownership(
            store=self.store,
            coordinator=CoordinatorLink(coordination, self.process),
            peers=self.peers,
            holdings=holdings,
            intake=self.scheduler.intake,
            clock=self.clock,
            randomness=randomness,
            events=self,
            note=NodeNote(name=name),
        )
        self.scheduler.join(self.ownership)
        self.scheduler._groups._recent = RecentlyArmed(self.clock, cell_bits=10)  # small, as the jobs are few
        self.jobs = Jobs(self.store, self.scheduler, self.clock, randomness)
        self.runs = Runs(self.store, self.scheduler, self.clock)
        self.dead_letters = DeadLetters(self.store, self.scheduler, self.clock)

    def own(self, task: "asyncio.Task[Any]") -> None:
        """It dies with this node. What has ended is dropped now and then: cheaper than a callback each."""
        self.tasks.append(task)
        if len(self.tasks) > self._tasks_kept:
            self.tasks = [task for task in self.tasks if not task.done()]
            self._tasks_kept = len(self.tasks) + TASKS_KEPT

    def _build_executor(self, report: Report, progress: Progress) -> Executor:
        return TargetExecutor(report, self._targets, self.process, self.spawn, SLOTS)

    def emit(self, event: Event) -> None:
        """Events are looked at for one thing: loops that fail in ways nobody thought of."""
        expected = ("StoreUnavailable", "OutcomeUnknown")
        if isinstance(event, LoopFailed) and event.loop != "completion" and not event.error.startswith(expected):
            self._on_loop_failed(f"{self.process.name} {event.loop}: {event.error}")

    def spawn(self, work: Awaitable[T]) -> "asyncio.Task[T]":
        """Begin something that dies with the node."""

        async def carry_out() -> T:
            return await work

        return asyncio.get_running_loop().create_task(carry_out(), context=self._context.copy())

    def start(self) -> None:
        """Join the cluster."""
        self.spawn(self._start())

    async def _start(self) -> None:
        self.scheduler.start()
        while True:
            try:
                await self.ownership.start()
            except Exception:
                await self.clock.sleep_ms(100)
            else:
                return

    async def handle(self, request: Awaitable[T]) -> T:
        """A request to this node's API; raises `OutcomeUnknown` if the node dies over it."""
        handling = self.spawn(request)
        await asyncio.wait((handling,))
        if handling.cancelled():
            raise OutcomeUnknown("the node died over it")
        return handling.result()

    @property
    def answers(self) -> bool:
        """Whether its API takes requests."""
        return self.process.alive and not self.process.is_stopped

    def kill(self) -> None:
        """SIGKILL."""
        self.process.alive = False
        self.process.go_on()
        for task in list(self.tasks):
            task.cancel()
        self._network.listeners.pop(self.ownership.process, None)

    def stop(self) -> None:
        """SIGSTOP: its port accepts, and says nothing."""
        self.process.stop()

    def go_on(self) -> None:
        """SIGCONT."""
        self.process.go_on()

    async def shut_down(self) -> None:
        """A planned stop, to its end or to the node's death."""
        await asyncio.wait((self.spawn(self._shut_down()),))

    async def _shut_down(self) -> None:
        await self.ownership.hand_over(3_000)
        await self.scheduler.drain(1_000)
        await self.ownership.leave()
        self.process.alive = False
