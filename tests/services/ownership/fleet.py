"""Whole firing sides over one memory store, on virtual time; who owns what is decided by the test."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.ids import SHARD_COUNT, shard_of
from tickwheel.domain.job import Target
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.ports.buffer import Buffer
from tickwheel.ports.events import ClaimsAnswered
from tickwheel.ports.executor import Progress, Report, Work
from tickwheel.ports.shards import Pair
from tickwheel.ports.store import NewJob, Run
from tickwheel.services.arming import first_timer_rows
from tickwheel.services.ownership.groups import ShardGroup
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.testing.virtual_clock import VirtualClock

from ..world import (
    Call,
    Events,
    FakeExecutor,
    World,
)

SETTINGS = SchedulerSettings(webhook_slots=64, handler_slots=16)


class Connection(MemoryStore):
    """One process's view of the store; like a store of a cluster, `expired` knows of renewed attempts only."""

    async def expired(self, now_ms: int, limit: int, shards: Sequence[int] | None = None) -> Sequence[Run]:
        return [run for run in await super().expired(now_ms, limit, shards) if run.beat_ms is not None]


class Process:
    """A firing side, and the least that can stand for its ownership side."""

    def __init__(self, fleet: "Fleet", name: str, settings: SchedulerSettings) -> None:
        self.fleet, self.incarnation = fleet, name
        self.store = Connection(fleet.clock, fleet.tables)
        self.holdings, self.events = Holdings(), Events()
        self.told_lost: list[int] = []
        self.told_exhausted: list[int] = []
        self.executors: list[FakeExecutor] = []
        self.behave: Callable[[Work], Outcome | None] = lambda work: OK
        self.serves: Callable[[Target], bool] = lambda target: True
        self.leads = True
        self.scheduler = Scheduler(
            store=self.store,
            clock=fleet.clock,
            randomness=SeededRandomness(1),
            events=self.events,
            build_webhooks=self._build,
            build_handlers=self._build,
            serves=lambda target: self.serves(target),
            holdings=self.holdings,
            worker=name,
            settings=settings,
            shards=self.store,
            is_leader=lambda: self.leads,
            buffer=fleet.buffers.get(name),
        )
        self.scheduler.join(self)

    def _build(self, report: Report, progress: Progress) -> FakeExecutor:
        executor = FakeExecutor(report, self.fleet.clock, lambda work: self.behave(work))
        self.executors.append(executor)
        return executor

    @property
    def calls(self) -> list[Call]:
        return sorted((c for executor in self.executors for c in executor.calls), key=lambda c: c.started_ms)

    @property
    def groups(self) -> list[ShardGroup]:
        return self.scheduler._groups.all

    @property
    def claim_count(self) -> int:
        """Rows that were tried."""
        return sum(int(event.verdicts.sum()) for event in self.events.of(ClaimsAnswered))

    def verdict_count(self, verdict: ClaimVerdict) -> int:
        return sum(int(event.verdicts[verdict]) for event in self.events.of(ClaimsAnswered))

    def lost(self, found: Mapping[int, int]) -> None:
        gone = [shard for shard, epoch in found.items() if int(self.holdings.epochs[shard]) == epoch]
        self.told_lost.extend(gone)
        if gone:
            self.drop(gone)

    def exhausted(self, shards: Sequence[int]) -> None:
        self.told_exhausted.extend(shards)

    async def start(self) -> None:
        await self.store.enlist(self.incarnation)
        self.scheduler.start()

    async def take(self, shards: Sequence[int] = range(SHARD_COUNT)) -> None:
        """Own these, as far as the store allows it."""
        epochs = {state.shard: state.epoch for state in await self.store.list_shards()}
        taken = await self.store.take(self.incarnation, {shard: epochs[shard] for shard in shards})
        assert sorted(one.shard for one in taken) == sorted(shards)
        for one in taken:
            self.holdings.adopt(one.shard, one.epoch)
        self.scheduler.intake.adopt(taken)

    def drop(self, shards: Sequence[int]) -> None:
        self.holdings.drop(shards)
        self.scheduler.intake.drop(shards)

    async def hand_over(self, shards: Sequence[int]) -> None:
        """G6, but for the pair, which the last second's stands for."""
        await self.scheduler.intake.quiesce(shards)
        held = {shard: int(self.holdings.epochs[shard]) for shard in shards}
        self.drop(shards)
        await self.store.release(self.incarnation, held)

    def pair(self, shard: int) -> Pair:
        return self.scheduler.intake.pairs([shard])[shard]

    def arm(self, *jobs: NewJob) -> None:
        self.scheduler.arm(first_timer_rows([(new.job, new.timer) for new in jobs if new.timer is not None]))

    async def kill(self) -> None:
        """SIGKILL: nothing of it speaks again."""
        loops = list(self.scheduler._loops.values())
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        self.scheduler._loops.clear()
        for executor in self.executors:
            executor.open.clear()
        if self in self.fleet.processes:
            self.fleet.processes.remove(self)


class LateInsert:
    """A transaction that has drawn its id and hangs before its commit."""

    def __init__(self, tables: Tables, now_ms: int) -> None:
        self._tables, self._now_ms = tables, now_ms
        self._xid = tables.transactions.begin()

    def commit(self, *jobs: NewJob) -> None:
        with self._tables.writing(self._xid):
            for new in jobs:
                assert new.timer is not None
                self._tables.put_job(new.job)
                self._tables.put_timer(new.job, new.timer, self._now_ms)
        self._tables.transactions.end(self._xid)


class Fleet:
    """Processes over one store."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.tables = Tables()
        self.api = MemoryStore(self.clock, self.tables)
        """Of a process that owns nothing."""
        self.processes: list[Process] = []
        self.buffers: dict[str, Buffer] = {}
        """By name of the process that is to use it."""
        self._world = World()
        self._world.clock = self.clock

    async def start(self, *names: str, settings: SchedulerSettings = SETTINGS) -> list[Process]:
        started = [Process(self, name, settings) for name in names]
        for process in started:
            self.processes.append(process)
            await process.start()
        return started

    def job(self, *, shard: int | None = None, **kwargs: Any) -> NewJob:
        """As in `World.job`; in a given shard if need be."""
        while True:
            new = self._world.job(**kwargs)
            if shard is None or shard_of(new.job.job_id) == shard:
                return new

    async def insert(self, *jobs: NewJob) -> None:
        """By a process that owns nothing: only the feed or a slice brings them."""
        await self.api.insert_jobs(jobs)

    def begin_insert(self) -> LateInsert:
        return LateInsert(self.tables, self.clock.now_ms())

    async def depose(self, process: Process, *, proved_dead: bool) -> None:
        await self.api.depose(process.incarnation, proved_dead=proved_dead)

    async def pass_ms(self, length_ms: int) -> None:
        await self.clock.advance(length_ms)

    def run_of(self, new: NewJob) -> Run | None:
        assert new.job.scheduled_ms is not None
        row = self.tables.ledger.get((new.job.job_id, new.job.scheduled_ms))
        return None if row is None else row.run

    def stored_ack_ms(self, shard: int) -> int:
        return self.tables.ownership.pairs[shard].ack_ms

    async def end(self) -> None:
        for process in list(self.processes):
            await process.kill()


def shard_of_job(new: NewJob) -> int:
    return shard_of(new.job.job_id)


def with_fleet(test: Callable[[Fleet], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
    """Give the test a fleet, and end within the test what still runs."""

    async def run() -> None:
        fleet = Fleet()
        try:
            await test(fleet)
        finally:
            await fleet.end()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
