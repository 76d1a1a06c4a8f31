"""A story that is written out: nodes, calls and faults come when the scene says so, nothing comes by chance."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from tickwheel.adapters.memory.tables import LedgerRow
from tickwheel.domain.columns import Rows
from tickwheel.domain.concurrency import Limit
from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.ids import make_job_id
from tickwheel.domain.job import CatchUp, Job, Lane, Overlap, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.outcome import OK, Outcome, RetryPolicy
from tickwheel.domain.run import RunState
from tickwheel.ports.executor import Work
from tickwheel.ports.store import Change, FirstTimer, JobView, LedgerWrite, NewJob
from tickwheel.services.jobs import Jobs
from tickwheel.services.runs import Runs
from tickwheel.testing.model import Fate, ModelStore, Process, Weather
from tickwheel.testing.seeded_randomness import SeededRandomness

from . import targets
from .nodes import Node
from .story import Plot, Story

T = TypeVar("T")
SHARD = 3
TENANT = "default"


class Script:
    """Implements `testing.model.Weather`: the next calls of a verb fare as told, others get through at once."""

    def __init__(self) -> None:
        self.fates: dict[str, list[Fate]] = {}
        self.opens: dict[str, list[int]] = {}
        self.ways: dict[str, int] = {}
        self.refused: set[str] = set()

    def fate(self, verb: str) -> Fate:
        if verb in self.refused:
            return Fate.REFUSED
        return self.fates[verb].pop(0) if self.fates.get(verb) else Fate.FINE

    def way_ms(self, verb: str) -> int:
        return self.ways.get(verb, 0)

    def open_ms(self, verb: str) -> int:
        return self.opens[verb].pop(0) if self.opens.get(verb) else 0


class NoOwner:
    """An API node that owns nothing: nobody arms what it inserts."""

    def arm(self, timers: Rows) -> None: ...

    def forget_work(self, job_id: bytes) -> None: ...

    def abort(self, runs: Sequence[tuple[bytes, int]]) -> None: ...


Scene = Callable[["Stage"], Coroutine[Any, Any, None]]
SCENES_WITH_WORKERS: set[Scene] = set()


def with_workers(scene: Scene) -> Scene:
    """Its nodes run nothing themselves."""
    SCENES_WITH_WORKERS.add(scene)
    return scene


class Stage(Story):
    """One scene. `outside` is a connection of somebody who owns nothing; `jobs` and `runs` go through it."""

    names: Sequence[str] = ()
    calm_limit_ms = 6_000
    rests = True
    ok = OK

    def __init__(self, scene: Scene, dropped: Iterable[str] = ()) -> None:
        super().__init__(1, dropped=dropped, plot=Plot(), has_workers=scene in SCENES_WITH_WORKERS)
        self._scene = scene
        self.scripts: dict[str, Script] = {}
        self.script = Script()
        self.outside = ModelStore(self.database, Process("outside"), self.script)
        self.jobs = Jobs(self.outside, NoOwner(), self.clock, SeededRandomness(5))
        self.runs = Runs(self.outside, NoOwner(), self.clock)
        self.job_count = 0
        self.targets.behave = lambda work: targets.Fate(1, OK)

    def weather_of(self, name: str) -> Weather:
        return self.script_of(name)

    def script_of(self, name: str) -> Script:
        """What is told about the calls of nodes of that name."""
        return self.scripts.setdefault(name, Script())

    async def tell(self) -> None:
        try:
            await self._scene(self)
            await self._end_well()
        finally:
            await self._end()

    async def _end_well(self) -> None:
        for script in (self.script, *self.scripts.values()):
            script.__init__()  # type: ignore[misc]  # everything gets through again
        self.targets.behave = lambda work: targets.Fate(1, OK)
        await self._calm_down()

    async def start(self, *names: str) -> list[Node]:
        """Start nodes and wait until they share the shards and have loaded their timers."""
        nodes = [self.start_node(name) for name in names]
        await self.pass_ms(3_000)
        return nodes

    async def pass_ms(self, length_ms: int) -> None:
        """Let time pass."""
        await self.clock.advance(length_ms)

    async def until(self, predicate: Callable[[], bool], limit_ms: int = 5_000) -> None:
        """Let time pass, a millisecond at a time, until it holds."""
        for _ in range(limit_ms):
            if predicate():
                return
            await self.clock.advance(1)
        raise AssertionError("it did not come true")

    def begin(self, call: Awaitable[object]) -> None:
        """A call whose answer nobody waits for."""

        async def carry_out() -> None:
            with suppress(TickwheelError):
                await call

        self.background(carry_out())

    async def now(self, call: Awaitable[T]) -> T:
        """A call, until its answer is there."""
        task = asyncio.ensure_future(call)
        while not task.done():
            await self.clock.advance(1)
        return task.result()

    def rows(self) -> list[LedgerRow]:
        """The ledger."""
        return list(self.database.tables.ledger.values())

    def owner(self, shard: int = SHARD) -> Node:
        """The node that owns the shard."""
        return next(node for node in self.nodes if shard in node.scheduler.holdings.shards())

    def other(self, node: Node) -> Node:
        """Another one."""
        return next(other for other in self.nodes if other is not node)

    def kill(self, node: Node) -> None:
        """SIGKILL, and no new start."""
        node.kill()
        self.nodes.remove(node)

    def after_pair(self, act: Callable[[], object], shard: int = SHARD) -> None:
        """Do this right after the next pair of the shard was stored."""
        pairs, before = self.database.tables.ownership.pairs, self.database.tables.ownership.pairs.get(shard)

        async def watch() -> None:
            while pairs.get(shard) is before:
                await self.clock.sleep_ms(1)
            act()

        self.background(watch())

    def attempts(self, takes_ms: int, outcome: Outcome = OK) -> None:
        """How attempts go from now on."""
        self.targets.behave = lambda work: targets.Fate(takes_ms, outcome)

    def first_attempts(self, takes_ms: int, outcome: Outcome) -> None:
        """How first attempts go; later ones succeed at once."""
        self.targets.behave = lambda work: (
            targets.Fate(takes_ms, outcome) if work.attempt == 1 else targets.Fate(1, OK)
        )

    def by_run(self, fate: Callable[[Work], targets.Fate]) -> None:
        """How each attempt goes."""
        self.targets.behave = fate

    def job(
        self,
        in_ms: int = 0,
        *,
        cron: str = "",
        retries: int = 3,
        overlap: Overlap = Overlap.ALLOW,
        catch_up: CatchUp = CatchUp.FIRE_ONCE,
        shard: int = SHARD,
        concurrency: tuple[Limit, ...] = (),
        tenant_id: str = TENANT,
    ) -> NewJob:
        """A job of the shard, due in so long, or recurring with its first occurrence then."""
        self.job_count += 1
        now_ms = self.clock.now_ms()
        due_ms = now_ms + in_ms
        spec = Spec(
            target=Target(type=TargetType.HTTP_WEBHOOK, endpoint="https://a.example/x"),
            retry=RetryPolicy(max_retries=retries, initial_interval_ms=600, max_interval_ms=1_000),
            cron=cron,
            overlap=overlap,
            catch_up=catch_up,
            concurrency=concurrency,
        )
        job = Job(
            job_id=make_job_id(
                created_ms=now_ms, shard=shard, due_ms=None, random48=self.job_count.to_bytes(6, "big")
            ),
            tenant_id=tenant_id,
            name="j",
            schedule_type=ScheduleType.CRON if cron else ScheduleType.ONE_OFF,
            lane=Lane.DEFAULT,
            spec=spec,
            payload="{}",
            created_ms=now_ms,
            effective_ms=now_ms,
            scheduled_ms=None if cron else due_ms,
        )
        return NewJob(job=job, timer=FirstTimer(due_ms, due_ms, 1))

    async def add(self, *jobs: NewJob) -> bytes:
        """Insert from outside; gives the last one's id."""
        await self.now(self.outside.insert_jobs(jobs))
        return jobs[-1].job.job_id

    def add_open(self, open_ms: int, *jobs: NewJob) -> None:
        """Insert from outside in a transaction that stays open for so long."""
        self.script.opens["insert_jobs"] = [open_ms]
        self.begin(self.outside.insert_jobs(jobs))

    async def to_second(self) -> int:
        """Wait for a full second; gives it."""
        now_ms = self.clock.now_ms()
        await self.pass_ms(-now_ms % 1_000 or 1_000)
        return self.clock.now_ms()

    async def waiting_runs(self, *delays_ms: int, retries: int = 3) -> bytes:
        """A recurring job without a next occurrence in sight and one waiting run per delay."""
        new = self.job(50_000, cron="0 0 1 1 *", retries=retries)
        job_id = await self.add(new)
        now_ms = self.clock.now_ms()
        writes = tuple(
            LedgerWrite(now_ms - 100 + number, RunState.SCHEDULED, follow_up_ms=now_ms + delay_ms)
            for number, delay_ms in enumerate(delays_ms)
        )

        def decide(view: JobView, at_ms: int) -> Change:
            return Change(runs=writes)

        await self.now(self.outside.change_job(TENANT, job_id, decide))
        return job_id

    async def one_more_run(self, job_id: bytes, delay_ms: int, lane: Lane) -> None:
        """Give the job one more waiting run, in this lane."""
        now_ms = self.clock.now_ms()
        write = LedgerWrite(now_ms, RunState.SCHEDULED, follow_up_ms=now_ms + delay_ms)

        def decide(view: JobView, at_ms: int) -> Change:
            return Change(job=replace(view.job, lane=lane), runs=(write,))

        await self.now(self.outside.change_job(TENANT, job_id, decide))

    def state_of(self, job_id: bytes) -> list[str]:
        """The states of the job's runs, oldest first."""
        rows = self.database.tables.runs_of.get(job_id, {})
        return [row.run.state.name for _, row in sorted(rows.items())]
