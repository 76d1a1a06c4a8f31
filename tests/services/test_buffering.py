"""A buffer that loses, tears, goes back in time or is away: nothing is lost, nothing is early or fired twice."""

from collections.abc import Callable

import pytest

from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.run import RunState
from tickwheel.ports.events import BufferFailed, ClaimsAnswered
from tickwheel.ports.store import NewJob
from tickwheel.services.changes.end import cancel
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.testing.faulty_buffer import FaultyBuffer

from .world import World, lateness_ms

MINUTE_MS = 60_000
SETTINGS = SchedulerSettings(webhook_slots=64, handler_slots=16, near_ms=60_000, buffer_ms=20 * MINUTE_MS)


class Yard:
    """A world with a buffer, and jobs due over its next ten minutes."""

    def __init__(self) -> None:
        self.buffer = FaultyBuffer()
        self.world = World(settings=SETTINGS, buffer=self.buffer)
        self.jobs: list[NewJob] = []

    async def add(self, scheduler: Scheduler | None, count: int, *, from_ms: int = 1_000) -> None:
        """Jobs every 1.7 seconds."""
        jobs = [self.world.job(in_ms=from_ms + number * 1_700, retries=0) for number in range(count)]
        await self.world.add(scheduler, *jobs)
        self.jobs.extend(jobs)

    async def check(self, *, late_ms: int = 5) -> None:
        """Each was called once, on time."""
        by_id = {new.job.job_id: new for new in self.jobs}
        called = [call.work.job_id for call in self.world.calls]
        assert sorted(called) == sorted(by_id), f"{len(called)} calls of {len(by_id)} jobs"
        lateness = [lateness_ms(call, by_id[call.work.job_id]) for call in self.world.calls]
        assert min(lateness) >= 0
        assert max(lateness) <= late_ms
        for new in self.jobs:
            assert (await self.world.run_of(new.job.job_id)).state is RunState.SUCCEEDED

    @property
    def kinds(self) -> list[str]:
        return [event.what for event in self.world.events.of(BufferFailed)]


async def test_what_is_far_waits_in_the_buffer_and_not_in_the_wheel() -> None:
    yard = Yard()
    await yard.add(None, 150)
    scheduler = await yard.world.start()
    await yard.add(scheduler, 150)
    await yard.world.clock.advance(3_000)
    assert len(scheduler.wheel) < 150
    assert scheduler.buffering.count > 150
    far = 300 - len(scheduler.wheel) - len(yard.world.calls)
    assert scheduler.buffering.count >= far  # what came near stays there until it is resolved
    loaded: list[int] = []
    load = yard.world.memory.load_timers

    async def count_loads(from_ms: int, until_ms: int, *rest: object) -> object:
        page = await load(from_ms, until_ms, *rest)  # type: ignore[arg-type]
        if from_ms > yard.world.clock.now_ms():
            loaded.append(len(page))
        return page

    yard.world.memory.load_timers = count_loads  # type: ignore[method-assign, assignment]
    await yard.world.clock.advance(6 * MINUTE_MS)
    await yard.check()
    assert sum(loaded) == 0, "the store was read for what was in the buffer"
    assert not yard.kinds
    await scheduler.drain(0)
    assert not yard.buffer.buckets, "what a process put there goes with it"


FAULTS: dict[str, Callable[[FaultyBuffer], None]] = {
    "flushed": FaultyBuffer.flush,
    "torn": lambda buffer: buffer.tear(0.2),
    "evicted": lambda buffer: buffer.evict(0.5),
    "corrupt": FaultyBuffer.corrupt,
    "stale": FaultyBuffer.go_back,
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_the_buffer_lost_is_fired_on_time(fault: str) -> None:
    yard = Yard()
    scheduler = await yard.world.start()
    await yard.add(scheduler, 150)
    await yard.world.clock.advance(2_500)
    yard.buffer.remember()
    await yard.add(scheduler, 150)
    await yard.world.clock.advance(2_500)
    for _ in range(5):
        FAULTS[fault](yard.buffer)
        await yard.add(scheduler, 10, from_ms=150_000)
        await yard.world.clock.advance(MINUTE_MS)
    await yard.world.clock.advance(5 * MINUTE_MS)
    await yard.check()
    assert "lost" in yard.kinds, "the fault was not met"
    await scheduler.drain(0)


@pytest.mark.parametrize("fault", ["away", "full", "tears"])
async def test_a_buffer_that_refuses_makes_nothing_late(fault: str) -> None:
    yard = Yard()
    scheduler = await yard.world.start()
    await yard.add(scheduler, 100)
    await yard.world.clock.advance(30_000)
    for _ in range(4):
        setattr(yard.buffer, fault, True)
        await yard.add(scheduler, 30, from_ms=100_000)
        await yard.world.clock.advance(45_000)
        setattr(yard.buffer, fault, False)
        await yard.add(scheduler, 30, from_ms=100_000)
        await yard.world.clock.advance(45_000)
    await yard.world.clock.advance(5 * MINUTE_MS)
    await yard.check()
    assert yard.kinds, "the fault was not met"
    await scheduler.drain(0)


async def test_a_buffer_that_hangs_holds_up_what_is_far_only() -> None:
    """An adapter gives up after a second; even one that doesn't keeps no near timer waiting."""
    yard = Yard()
    scheduler = await yard.world.start()
    await yard.add(scheduler, 60)
    await yard.world.clock.advance(2_500)
    yard.buffer.hangs.clear()
    await yard.world.clock.advance(40_000)
    assert len(yard.world.calls) >= 24
    yard.buffer.hangs.set()
    await yard.world.clock.advance(3 * MINUTE_MS)
    await yard.check()
    await scheduler.drain(0)


async def test_a_process_that_dies_leaves_nothing_that_only_the_buffer_knew() -> None:
    yard = Yard()
    first = await yard.world.start()
    await yard.add(first, 200)
    await yard.world.clock.advance(5_000)
    assert first.buffering.count > 100
    await yard.world.crash(first)
    yard.buffer.flush()
    second = await yard.world.start()
    await yard.world.clock.advance(7 * MINUTE_MS)
    await yard.check()
    await second.drain(0)


async def test_a_cancelled_run_stays_cancelled_though_the_buffer_brings_its_timer() -> None:
    yard = Yard()
    scheduler = await yard.world.start()
    [job_id] = await yard.world.add(scheduler, yard.world.job(in_ms=300_000))
    await yard.world.clock.advance(5_000)
    assert scheduler.buffering.count == 1
    await yard.world.memory.change_job("default", job_id, cancel)
    await yard.world.clock.advance(6 * MINUTE_MS)
    assert not yard.world.calls
    await scheduler.drain(0)


async def test_without_faults_nothing_is_claimed_twice() -> None:
    yard = Yard()
    await yard.add(None, 100)
    scheduler = await yard.world.start()
    await yard.add(scheduler, 100)
    await yard.world.clock.advance(5 * MINUTE_MS)
    tried = sum(int(event.verdicts.sum()) for event in yard.world.events.of(ClaimsAnswered))
    won = sum(int(event.verdicts[ClaimVerdict.WON]) for event in yard.world.events.of(ClaimsAnswered))
    assert (tried, won) == (200, 200)
    await scheduler.drain(0)


async def test_far_timers_are_not_kept_in_the_process_while_the_buffer_is_away() -> None:
    yard = Yard()
    yard.buffer.away = True
    scheduler = await yard.world.start()
    await yard.add(scheduler, 300)
    await yard.world.clock.advance(10_000)
    assert scheduler.buffering.count == 0
    assert len(scheduler.wheel) < 100
    await yard.world.clock.advance(10 * MINUTE_MS)
    await yard.check()
    await scheduler.drain(0)
