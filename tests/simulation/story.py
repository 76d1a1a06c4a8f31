"""One seed's story: a cluster, people who use it, everything that can go wrong; then calm, and a reckoning.

Time is virtual and every choice comes from the seed, so a seed replays exactly. Neither the safety net nor the
check of chains runs: they mend what the protocol lets slip, and here it must not let anything slip.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import msgspec
from tests.small_claims import small_claims

from tickwheel.adapters.memory.audit import audit_slots
from tickwheel.adapters.memory.peers import MemoryNetwork
from tickwheel.domain.ids import job_id_text
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import IN_FLIGHT, TERMINAL, RunState
from tickwheel.ports.buffer import Buffer
from tickwheel.testing.idle_loop import IdleLoop
from tickwheel.testing.model import ModelDatabase, Weather
from tickwheel.testing.model.rules import Rules
from tickwheel.testing.virtual_clock import VirtualClock

from .coordination import Coordination
from .faults import Faults
from .nodes import Node, make_task
from .rulebook import Rulebook
from .storm import Storm
from .targets import Targets
from .users import Users
from .workers import QueueLink, SimQueue, SimWorker

NODE_NAMES: Final = ("a", "b", "c")
WORKER_NAMES: Final = ("v", "w", "y")
"""The last one belongs to a tenant."""
LEAF_CHECK_MS: Final = 500
CALM_LIMIT_MS: Final = 60_000
REST_MS: Final = 1_200
OVERDUE_MS: Final = 3_000
"""In calm weather nothing is later than this."""


class Plot(msgspec.Struct, frozen=True):
    """How long and how wild. Lengths in ms."""

    busy_ms: int = 9_500
    request_every_ms: int = 75
    fault_every_ms: int = 370
    bad_rate: float = 0.004
    slow_rate: float = 0.05


class Story:
    """`tell` it once."""

    names: Sequence[str] = NODE_NAMES
    calm_limit_ms = CALM_LIMIT_MS
    rests = False
    """Whether nothing is under way any more that could move shards when the story ends."""

    def __init__(
        self,
        seed: int,
        *,
        dropped: Iterable[str] = (),
        plot: Plot | None = None,
        has_workers: bool | None = None,
    ) -> None:
        """`has_workers` None: every third seed has, and its nodes run nothing themselves."""
        self.seed, self.plot = seed, plot or Plot()
        rng = random.Random(seed)
        self._node_rng = random.Random(rng.getrandbits(64))
        self.clock = VirtualClock()
        self.database = ModelDatabase(self.clock, Rules(dropped))
        self.storm = Storm(random.Random(rng.getrandbits(64)))
        self.coordination = Coordination(self.clock)
        self.network = MemoryNetwork()
        self.rulebook = Rulebook(self.database)
        self.targets = Targets(random.Random(rng.getrandbits(64)), self.clock, self.rulebook)
        self.faults = Faults(random.Random(rng.getrandbits(64)), self)
        user_rng = random.Random(rng.getrandbits(64))
        self.users = Users(user_rng, self.clock, self.rulebook, lambda: self._pick_node(user_rng))
        self.nodes: list[Node] = []
        self.ever: list[Node] = []
        self.has_workers = seed % 3 == 2 if has_workers is None else has_workers
        self.queue = SimQueue(self.clock)
        self.workers: list[SimWorker] = []
        self.workers_ever: list[SimWorker] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    # What faults and tests do

    def start_node(self, name: str) -> Node:
        """One more process of that name."""
        node = Node(
            name,
            len(self.ever),
            database=self.database,
            weather=self.weather_of(name),
            coordination=self.coordination,
            network=self.network,
            targets=self.targets,
            rng=self._node_rng,
            on_loop_failed=lambda text: self.rulebook.broken("crash", text),
            buffer=self.buffer_of(name),
            queue_of=partial(QueueLink, self.queue) if self.has_workers else None,
        )
        self.nodes.append(node)
        self.ever.append(node)
        node.start()
        return node

    def start_worker(self, name: str) -> SimWorker:
        """One more worker of that name."""
        worker = SimWorker(
            name,
            len(self.workers_ever),
            database=self.database,
            queue=self.queue,
            weather=self.weather_of(name),
            targets=self.targets,
            rng=self._node_rng,
            on_loop_failed=lambda text: self.rulebook.broken("crash", text),
        )
        self.workers.append(worker)
        self.workers_ever.append(worker)
        worker.start()
        return worker

    def buffer_of(self, name: str) -> Buffer | None:
        """Where a process of that name keeps far timers."""
        return None

    def weather_of(self, name: str) -> Weather:
        """What befalls the calls of nodes of that name."""
        return self.storm

    def background(self, work: Awaitable[None]) -> None:
        """Beside everything else."""

        async def carry_out() -> None:
            await work

        task = asyncio.get_running_loop().create_task(carry_out())
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.rulebook.broken("crash", f"{task.exception()!r}")

    async def sleep_ms(self, length_ms: int) -> None:
        """On the world's clock."""
        await self.clock.sleep_ms(length_ms)

    def _pick_node(self, rng: random.Random) -> Node | None:
        nodes = [node for node in self.nodes if node.answers]
        return rng.choice(nodes) if nodes else None

    # The story

    async def tell(self) -> None:
        """Live through it; `violations` are in the rulebook."""
        try:
            self._begin()
            await self.clock.advance(self.plot.busy_ms)
            await self._calm_down()
        finally:
            await self._end()

    def _begin(self) -> None:
        for name in self.names:
            self.start_node(name)
        for name in WORKER_NAMES if self.has_workers else ():
            self.start_worker(name)
        self.storm.bad_rate, self.storm.slow_rate = self.plot.bad_rate, self.plot.slow_rate
        self.background(self._use())
        self.background(self._break())
        self.background(self._drop_leaves())

    async def _use(self) -> None:
        while self.clock.monotonic_ms() < self.plot.busy_ms:
            self.background(self.users.act())
            await self.clock.sleep_ms(self.plot.request_every_ms)

    async def _break(self) -> None:
        await self.clock.sleep_ms(800)
        while self.clock.monotonic_ms() < self.plot.busy_ms:
            self.faults.strike()
            await self.clock.sleep_ms(self.plot.fault_every_ms)

    async def _drop_leaves(self) -> None:
        while True:
            await self.clock.sleep_ms(LEAF_CHECK_MS)
            sealed_ms = self.database.seal() if self.database.is_up else None
            if sealed_ms is not None:
                await self.clock.sleep_ms(LEAF_CHECK_MS)
                self.database.drop(sealed_ms)

    async def _calm_down(self) -> None:
        """Heal everything, resume what is paused, and wait until nothing is left to do."""
        self.storm.calm_down()
        self.targets.is_calm = True
        self.database.restart()
        self.coordination.is_up = True
        for node in self.nodes:
            node.process.reaches_store = node.process.reaches_coordinator = True
            node.clock.skew_ms = 0
            node.go_on()
        for name in sorted(set(self.names) - {node.name for node in self.nodes}):
            self.start_node(name)
        self.queue.is_up = True
        for worker in self.workers:
            worker.process.reaches_store = True
            worker.go_on()
        for name in sorted(set(WORKER_NAMES) - {w.name for w in self.workers}) if self.has_workers else ():
            self.start_worker(name)
        await self.clock.advance(3_000)
        node = next(node for node in self.nodes if node.answers)
        self.background(self.users.resume_all(node))
        until_ms = self.clock.monotonic_ms() + self.calm_limit_ms
        while True:
            await self.clock.advance(1_000)
            left = self._left()
            if not left or self.clock.monotonic_ms() > until_ms:
                break
        for text in left:
            self.rulebook.broken("I1 lost", text)
        if self.rests:
            await self._check_rest()
        self._reckon()

    async def _check_rest(self) -> None:
        """In calm weather no shard changes hands."""
        before = [state.epoch for state in self.database.tables.ownership.states()]
        await self.clock.advance(REST_MS)
        after = [state.epoch for state in self.database.tables.ownership.states()]
        moved_count = sum(one != other for one, other in zip(before, after, strict=True))
        if moved_count:
            self.rulebook.broken("G1 restless", f"{moved_count} shards changed hands with nothing going on")

    def _left(self) -> list[str]:
        """What should have been done by now."""
        tables, now_ms = self.database.tables, self.clock.now_ms()
        left = []
        for job in tables.jobs.values():
            for row in tables.runs_of.get(job.job_id, {}).values():
                run = row.run
                since_ms = run.retry_ms if run.state is RunState.SCHEDULED else run.claimed_ms
                waits = run.state in IN_FLIGHT or run.state is RunState.SCHEDULED
                if waits and (since_ms or 0) < now_ms - OVERDUE_MS:
                    left.append(f"{_name(job)} {run.state.name} at {run.scheduled_ms} is not over")
            if job.state is JobState.ACTIVE:
                left += self._left_of(job, now_ms)
        return left

    def _left_of(self, job: Job, now_ms: int) -> list[str]:
        tables = self.database.tables
        if not job.recurring:
            assert job.scheduled_ms is not None
            row = tables.ledger.get((job.job_id, job.scheduled_ms))
            if row is None and job.scheduled_ms < now_ms - OVERDUE_MS:
                return [f"{_name(job)}, due at {job.scheduled_ms}, has no run"]
            waits = row is None or row.run.state not in TERMINAL
            return [f"{_name(job)} has yet to run"] if waits and job.scheduled_ms < now_ms + CALM_LIMIT_MS else []
        live = tables.live_timers(job.job_id)
        if live and live[0].due_ms < now_ms - OVERDUE_MS:
            return [f"{_name(job)}: the occurrence of {live[0].due_ms} does not begin"]
        return []

    def _reckon(self) -> None:
        tables = self.database.tables
        strays = audit_slots(tables)
        if strays:
            self.rulebook.broken("L1 limit", f"{strays} slots are held by nobody")
        for job_id in self.users.known - tables.jobs.keys():
            self.rulebook.broken("I1 lost", f"{job_id_text(job_id)} was answered with 201 and is not there")
        for job in tables.jobs.values():
            if job.recurring and job.state is JobState.ACTIVE:
                live = tables.live_timers(job.job_id)
                if len(live) != 1:
                    self.rulebook.broken("I9 chain", f"{_name(job)} has {len(live)} next timers")
        for job_id, at_ms in tables.due_at_change:
            if (job_id, at_ms) not in tables.ledger:
                self.rulebook.broken("E5 vanished", f"{job_id_text(job_id)}: the occurrence of {at_ms}")

    async def _end(self) -> None:
        programs: list[Node | SimWorker] = [*self.ever, *self.workers_ever]
        for one in programs:
            one.kill()
        for task in list(self._tasks):
            task.cancel()
        everything = [*self._tasks, *(task for one in programs for task in one.tasks)]
        await asyncio.gather(*everything, return_exceptions=True)
        await self.database.aclose()

    @property
    def met(self) -> Counter[str]:
        """What happened, by kind."""
        return self.faults.met + self.storm.met + self.users.met + self.rulebook.counts


def _name(job: Job) -> str:
    return f"{job_id_text(job.job_id)} ({job.schedule_type.value}, {job.state.name})"


def live_through(story: Story) -> None:
    """Tell a story on a loop of its own."""
    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        runner.get_loop().set_task_factory(make_task)  # type: ignore[arg-type]  # the stub knows no context
        runner.run(story.tell())


def tell(seed: int, *, dropped: Iterable[str] = (), plot: Plot | None = None) -> Story:
    """Tell the story of a seed on a loop of its own. Every other one has small claims, which overlap."""
    story = Story(seed, dropped=dropped, plot=plot)
    with small_claims() if seed % 2 else nullcontext():
        live_through(story)
    return story
