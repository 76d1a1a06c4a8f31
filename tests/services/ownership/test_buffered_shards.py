"""Shards come and go while their far timers wait in a buffer: pair and feed know nothing of buckets."""

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

from msgspec.structs import replace

from tickwheel.domain.run import RunState
from tickwheel.ports.events import BufferFailed
from tickwheel.ports.shards import Fed, Snapshot
from tickwheel.ports.store import NewJob
from tickwheel.services.buffering import far_timers
from tickwheel.testing.faulty_buffer import FaultyBuffer

from .fleet import SETTINGS, Fleet, Process, with_fleet

MINUTE_MS = 60_000
BUFFERED = replace(SETTINGS, near_ms=60_000, buffer_ms=30 * MINUTE_MS)
HALF = range(128)


async def start(fleet: Fleet, *names: str) -> list[Process]:
    for name in names:
        fleet.buffers[name] = FaultyBuffer()
    return await fleet.start(*names, settings=BUFFERED)


def due(fleet: Fleet, count: int = 200, *, step_ms: int = 3_000) -> list[NewJob]:
    return [fleet.job(in_ms=2_000 + number * step_ms) for number in range(count)]


def check(fleet: Fleet, jobs: Sequence[NewJob], *processes: Process) -> None:
    """Each was called once, and on time."""
    by_id = {new.job.job_id: new.job.scheduled_ms or 0 for new in jobs}
    calls = [call for process in processes for call in process.calls]
    assert sorted(call.work.job_id for call in calls) == sorted(by_id)
    late_ms = [call.started_ms - by_id[call.work.job_id] for call in calls]
    assert (min(late_ms), max(late_ms) <= 5) == (0, True)
    runs = [fleet.run_of(new) for new in jobs]
    assert all(run is not None and run.state is RunState.SUCCEEDED for run in runs)


@with_fleet
async def test_what_others_insert_reaches_the_buffer_by_the_feed(fleet: Fleet) -> None:
    [a] = await start(fleet, "a")
    await a.take()
    await fleet.pass_ms(5_000)
    jobs = due(fleet)
    await fleet.insert(*jobs)
    await fleet.pass_ms(3_000)
    assert a.scheduler.buffering.count >= 140
    assert len(a.scheduler.wheel) <= 60
    await fleet.pass_ms(11 * MINUTE_MS)
    check(fleet, jobs, a)
    assert a.claim_count == len(jobs)
    assert not a.events.of(BufferFailed)


@with_fleet
async def test_ack_never_passes_what_only_the_buffer_holds(fleet: Fleet) -> None:
    [a] = await start(fleet, "a")
    await a.take()
    new = fleet.job(in_ms=20 * MINUTE_MS)
    await fleet.insert(new)
    shard = new.job.job_id[7]
    for _ in range(15):
        await fleet.pass_ms(MINUTE_MS)
        assert fleet.stored_ack_ms(shard) <= (new.job.scheduled_ms or 0)
        assert fleet.stored_ack_ms(shard) <= a.groups[0].hi_ms
    assert a.scheduler.buffering.count == 1


@with_fleet
async def test_the_next_owner_needs_nothing_of_the_dead_ones_buffer(fleet: Fleet) -> None:
    a, b = await start(fleet, "a", "b")
    await a.take()
    jobs = due(fleet)
    await fleet.insert(*jobs)
    await fleet.pass_ms(100_000)
    assert a.scheduler.buffering.count > 50
    await a.kill()
    await fleet.depose(a, proved_dead=True)
    await b.take()
    await fleet.pass_ms(10 * MINUTE_MS)
    check(fleet, jobs, a, b)


@with_fleet
async def test_shards_that_leave_and_come_back_are_buffered_anew(fleet: Fleet) -> None:
    """Meanwhile another process owned them: what was committed then is in no bucket of the first one."""
    a, b = await start(fleet, "a", "b")
    await a.take()
    jobs = due(fleet)
    await fleet.insert(*jobs[:100])
    await fleet.pass_ms(5_000)
    await a.hand_over(HALF)
    await b.take(HALF)
    more = [fleet.job(in_ms=8 * MINUTE_MS + n * 100, shard=n) for n in HALF]
    await fleet.insert(*more)
    await fleet.pass_ms(5_000)
    await b.hand_over(HALF)
    await a.take(HALF)
    await fleet.insert(*(late := due(fleet)))
    await fleet.pass_ms(12 * MINUTE_MS)
    check(fleet, [*jobs[:100], *more, *late], a, b)


@with_fleet
async def test_the_buffers_range_never_grows_beyond_a_poll_under_way(fleet: Fleet) -> None:
    """B4 for the buffer: a poll that hangs for minutes asked for less than what would be filled by now."""
    [a] = await start(fleet, "a")
    await a.take()
    await fleet.pass_ms(5_000)
    feed, held_up, polls = a.store.feed, asyncio.Event(), list[int]()

    async def hold(prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        polls.append(until_ms)
        await held_up.wait()
        return await feed(prev, shards, until_ms)

    a.store.feed = hold  # type: ignore[method-assign]
    await fleet.pass_ms(5 * MINUTE_MS)
    new = fleet.job(in_ms=29 * MINUTE_MS)  # beyond that poll, and within the range without the rule
    assert (new.job.scheduled_ms or 0) > polls[0]
    await fleet.insert(new)
    held_up.set()
    await fleet.pass_ms(30 * MINUTE_MS)
    check(fleet, [new], a)


@with_fleet
async def test_a_burst_of_far_timers_is_left_to_the_store(fleet: Fleet) -> None:
    with patch.object(far_timers, "MOST_PENDING_TIMERS", 50):
        [a] = await start(fleet, "a")
        await a.take()
        await fleet.pass_ms(5_000)
        jobs = [fleet.job(in_ms=4 * MINUTE_MS + number * 100) for number in range(200)]
        await fleet.insert(*jobs)
        await fleet.pass_ms(3_000)
        assert a.scheduler.buffering.count == 0
        await fleet.pass_ms(6 * MINUTE_MS)
        check(fleet, jobs, a)
