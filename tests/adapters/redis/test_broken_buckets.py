"""A real Redis is broken in the middle of 2,000 jobs over two minutes: each fires once, and none of them early.

A second here is a fortieth of one: the clock runs fast, so that minutes pass in seconds.
"""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final
from uuid import uuid4

import pytest

from tickwheel.adapters.redis.address import read_address
from tickwheel.adapters.redis.buckets import RedisBuckets
from tickwheel.domain.run import RunState
from tickwheel.ports.events import BufferFailed
from tickwheel.services.scheduler import SchedulerSettings
from tickwheel.testing.virtual_clock import START_MS, VirtualClock

from ...servers.redis import RedisCluster, RedisServer
from ...services.world import World, lateness_ms

RATE: Final = 40
JOBS: Final = 2_000
SETTINGS: Final = SchedulerSettings(webhook_slots=64, handler_slots=16, near_ms=20_000, buffer_ms=600_000)
MINUTE_MS: Final = 60_000
QUIET_MS: Final = 120_000

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


class FastClock(VirtualClock):
    """Begins at a whole minute and goes on by itself."""

    def __init__(self) -> None:
        super().__init__(-(-START_MS // MINUTE_MS) * MINUTE_MS)
        self._began = time.monotonic()

    def now_ms(self) -> int:
        return self._start_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int((time.monotonic() - self._began) * 1_000 * RATE)

    async def sleep_ms(self, length_ms: int) -> None:
        await asyncio.sleep(max(0, length_ms) / 1_000 / RATE)


@pytest.fixture
async def server() -> AsyncIterator[RedisServer]:
    with RedisServer() as server:
        yield server


class Breaker:
    """What goes wrong, at simulated times."""

    def __init__(self, server: RedisServer, clock: FastClock) -> None:
        self._server, self._clock = server, clock

    async def _wait(self, length_ms: int) -> None:
        await self._clock.sleep_ms(length_ms)

    async def flush(self) -> None:
        for _ in range(6):
            await self._wait(20_000)
            self._server.ask("FLUSHALL")

    async def kill(self) -> None:
        for _ in range(3):
            await self._wait(25_000)
            self._server.kill()
            await self._wait(15_000)
            self._server.launch()

    async def freeze(self) -> None:
        for _ in range(3):
            await self._wait(5_000)
            self._server.freeze()
            await self._wait(35_000)  # three times as long as a call may take
            self._server.thaw()

    async def refuse_for_want_of_memory(self) -> None:
        await self._wait(5_000)
        self._server.ask("CONFIG", "SET", "maxmemory", 1_000)
        await self._wait(60_000)
        self._server.ask("CONFIG", "SET", "maxmemory", 0)

    async def evict(self) -> None:
        self._server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        await self._wait(30_000)
        used = int(self._server.ask("INFO", "memory").split(b"used_memory:")[1].split()[0])
        self._server.ask("CONFIG", "SET", "maxmemory", used - 30_000)

    async def come_back_as_it_was(self) -> None:
        """From an old copy on disk: what a stale replica has."""
        await self._wait(8_000)
        self._server.ask("SAVE")
        old = self._server.folder / "dump.rdb"
        for _ in range(2):
            copy = shutil.copy(old, self._server.folder / "copy.rdb")
            await self._wait(30_000)
            self._server.kill()
            shutil.copy(copy, old)
            self._server.launch()


BREAKS: dict[str, Callable[[Breaker], Coroutine[Any, Any, None]]] = {
    "FLUSHALL": Breaker.flush,
    "kill": Breaker.kill,
    "SIGSTOP": Breaker.freeze,
    "maxmemory, noeviction": Breaker.refuse_for_want_of_memory,
    "maxmemory, eviction": Breaker.evict,
    "stale copy": Breaker.come_back_as_it_was,
}


@pytest.mark.parametrize("fault", BREAKS)
async def test_jobs_fire_once_and_not_early_while_redis_is_broken(server: RedisServer, fault: str) -> None:
    clock = FastClock()
    await fire_meanwhile(clock, server.url, BREAKS[fault](Breaker(server, clock)))


async def test_jobs_fire_once_and_not_early_while_masters_of_a_cluster_are_killed() -> None:
    with RedisCluster() as cluster:
        clock = FastClock()

        async def kill() -> None:
            for _ in range(2):
                await clock.sleep_ms(30_000)
                cluster.masters()[0].kill()

        await fire_meanwhile(clock, cluster.url, kill())


async def until_all_are_called(world: World, clock: FastClock, last_ms: int) -> None:
    """Or until none was for long: on a busy machine the clock runs ahead of the work."""
    called, since_ms = 0, max(last_ms, clock.now_ms())
    while called < JOBS and clock.now_ms() < since_ms + QUIET_MS:
        await clock.sleep_ms(1_000)
        if len(world.calls) > called:
            called, since_ms = len(world.calls), max(last_ms, clock.now_ms())


async def fire_meanwhile(clock: FastClock, url: str, breaking: Coroutine[Any, Any, None]) -> None:
    """2,000 jobs over two minutes, half of them created while Redis is being broken."""
    address = read_address(url, setting="buffer")
    buffer = RedisBuckets(address, clock, cluster="t", owner=uuid4().hex[:8], call_seconds=0.3)
    world = World(settings=SETTINGS, buffer=buffer, clock=clock)
    scheduler = await world.start()
    jobs = [world.job(in_ms=70_000 + n * 60, retries=0) for n in range(JOBS)]
    await world.add(scheduler, *jobs[: JOBS // 2])
    under_way = asyncio.ensure_future(breaking)
    most = 0
    for n in range(JOBS // 2, JOBS, 100):  # the rest come while it is being broken
        await world.add(scheduler, *jobs[n : n + 100])
        await clock.sleep_ms(2_000)
        most = max(most, scheduler.buffering.count)
    await under_way
    await until_all_are_called(world, clock, max(new.job.scheduled_ms or 0 for new in jobs))
    await clock.sleep_ms(5_000)
    await scheduler.drain(0)
    assert most > JOBS // 4, "the buffer was hardly used"
    assert world.events.of(BufferFailed), "the fault was not met"
    called = sorted(call.work.job_id for call in world.calls)
    assert called == sorted(new.job.job_id for new in jobs)
    by_id = {new.job.job_id: new for new in jobs}
    assert min(lateness_ms(call, by_id[call.work.job_id]) for call in world.calls) >= 0
    for new in jobs:
        assert (await world.run_of(new.job.job_id)).state is RunState.SUCCEEDED
