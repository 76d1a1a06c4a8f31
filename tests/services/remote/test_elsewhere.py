"""An owner and workers elsewhere: what is claimed for them, published, begun, lost, and handed back."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.domain.job import Lane, Target, TargetType
from tickwheel.domain.rate import RateLimit
from tickwheel.domain.run import RunState
from tickwheel.ports.events import WorkerLost
from tickwheel.ports.queue import Topic, handler_route
from tickwheel.ports.store import NewJob
from tickwheel.ports.workers import RENEW_MS, SESSION_MS
from tickwheel.services.remote.outbox import REPUBLISH_MS
from tickwheel.services.remote.routes import KEPT_MS
from tickwheel.services.remote.taking import Begun

from .remote_world import Remote, begin_all, remote_world, run_of


async def test_what_nothing_here_runs_goes_to_a_worker_that_does() -> None:
    world = remote_world()
    remote = await Remote(world).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)  # the sessions are read each second
    new = world.job(handler="far", lane=Lane.HIGH)
    await world.add(scheduler, new)
    [begun] = await begin_all(world, remote, 1, within_ms=100)
    assert (begun.job_id, begun.attempt, begun.flags & 3) == (new.job.job_id, 1, Lane.HIGH)
    assert begun.definition.payload == "{}"
    assert await remote.succeed(begun)
    assert (await run_of(world, new)).state is RunState.SUCCEEDED
    assert not world.calls
    await world.crash(scheduler)


async def test_backlog_waits_unclaimed_until_workers_have_room() -> None:
    """I12: with four slots, four runs are claimed and queued; the others have no row in the ledger."""
    world = remote_world()
    remote = await Remote(world, slots=4).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    jobs = [world.job(handler="far") for _ in range(50)]
    await world.add(scheduler, *jobs)
    await world.clock.advance(500)
    keys = [(new.job.job_id, new.timer.scheduled_ms) for new in jobs if new.timer is not None]
    assert sum(run is not None for run in await world.store.find_runs(keys)) == 4
    assert scheduler.elsewhere.waits_for(jobs[0].job.spec.target, "default") == "full"
    assert scheduler.elsewhere.waits_for(Target(type=TargetType.HANDLER, name="nobody"), "default") == "worker"
    done = 0
    for _ in range(200):
        for begun in await remote.take(4):
            done += await remote.succeed(begun)
        await world.clock.advance(20)
    assert done == 50
    await world.crash(scheduler)


class FullQueue(MemoryQueue):
    """Tells what it holds, and takes nothing more in: a Redis whose memory is used up."""

    async def publish(self, topic: Topic, hints: Rows) -> None:
        raise ConnectionError("Redis refuses: OOM command not allowed")


async def test_what_the_queue_does_not_take_in_takes_up_room() -> None:
    """I12: what is claimed and not in the queue yet counts, else the whole backlog would be claimed."""
    world = remote_world()
    world.queue = FullQueue(world.clock, 30_000)
    await Remote(world, slots=4).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    jobs = [world.job(handler="far") for _ in range(50)]
    await world.add(scheduler, *jobs)
    await world.clock.advance(2_000)
    keys = [(new.job.job_id, new.timer.scheduled_ms) for new in jobs if new.timer is not None]
    assert sum(run is not None for run in await world.store.find_runs(keys)) == 4
    await world.crash(scheduler)


async def test_a_rate_of_a_handler_holds_for_workers_elsewhere_too() -> None:
    world = remote_world()
    world.settings = replace(world.settings, handler_rates={"far": RateLimit(10, 1_000, 1)})
    remote = await Remote(world, slots=50).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    await world.add(scheduler, *(world.job(handler="far") for _ in range(100)))
    begun = 0
    for _ in range(100):
        begun += len(await remote.take())
        await world.clock.advance(20)
    assert 15 <= begun <= 21, "two seconds of ten per second"
    await world.crash(scheduler)


async def test_higher_lanes_go_first_however_long_the_backlog_is() -> None:
    world = remote_world()
    remote = await Remote(world, slots=4).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    await world.add(scheduler, *(world.job(handler="far", lane=Lane.LOW) for _ in range(500)))
    await world.clock.advance(200)
    urgent = world.job(handler="far", lane=Lane.CRITICAL)
    await world.add(scheduler, urgent)
    await world.clock.advance(50)
    [begun] = await remote.take(1)
    assert begun.job_id == urgent.job.job_id
    await world.crash(scheduler)


async def test_a_hint_that_got_lost_is_published_again() -> None:
    world = remote_world()
    remote = await Remote(world).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    await world.add(scheduler, world.job(handler="far"))
    await world.clock.advance(100)
    assert world.queue is not None
    [lost] = await world.queue.take(remote.topics, 10)  # a worker dies between take and begin
    await world.queue.ack([lost.receipt])
    await world.clock.advance(REPUBLISH_MS - 1_000)
    assert await remote.take() == []
    [begun] = await begin_all(world, remote, 1)
    assert (begun.fence, begun.attempt) == (int(lost.rows["fence"][0]), 1)
    await world.crash(scheduler)


@pytest.mark.parametrize("begun_before", [False, True])
async def test_an_heir_goes_on_with_what_is_queued_or_runs(begun_before: bool) -> None:
    world = remote_world()
    remote = await Remote(world).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    new = world.job(handler="far")
    await world.add(scheduler, new)
    await world.clock.advance(100)
    assert world.queue is not None
    if begun_before:
        [begun] = await remote.take()
        await world.crash(scheduler)
        heir = await world.start()
        await world.clock.advance(5_000)
    else:
        [lost] = await world.queue.take(remote.topics, 10)
        await world.queue.ack([lost.receipt])
        await world.crash(scheduler)
        heir = await world.start()
        [begun] = await begin_all(world, remote, 1, within_ms=5_000)
    assert await remote.take() == []
    assert await remote.succeed(begun)
    run = await run_of(world, new)
    assert (run.state, run.attempt, run.lost_count) == (RunState.SUCCEEDED, 1, 0)
    await world.crash(heir)


async def test_a_worker_that_falls_silent_loses_its_runs_to_another_one() -> None:
    world = remote_world()
    first, second = await Remote(world).enlist(), await Remote(world, "remote-2").enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    new = world.job(handler="far")
    await world.add(scheduler, new)
    [begun] = await begin_all(world, first, 1)
    for _ in range(SESSION_MS // RENEW_MS + 2):
        assert await world.store.renew_worker(second.name, second.note)
        await world.clock.advance(RENEW_MS)
    assert [lost.worker for lost in world.events.of(WorkerLost)] == [first.name]
    [again] = await begin_all(world, second, 1, within_ms=3_000)
    assert (again.job_id, again.attempt, again.lost_count) == (new.job.job_id, 2, 1)
    assert again.fence > begun.fence
    assert not await remote_succeeds(first, begun)
    assert await second.succeed(again)
    await world.crash(scheduler)


async def remote_succeeds(remote: Remote, begun: Begun) -> bool:
    return await remote.succeed(begun)


async def test_workers_that_could_not_renew_because_the_store_was_away_are_not_declared_dead() -> None:
    """G2: only silence in which we ourselves were served counts."""
    world = remote_world()
    remote = await Remote(world).enlist()
    scheduler = await world.start()
    await world.clock.advance(2_500)
    watch = scheduler.elsewhere.watch
    world.clock.step_ms(10 * SESSION_MS)  # nobody was served
    await watch.look()
    await watch.look()
    assert not world.events.of(WorkerLost)
    assert await world.store.renew_worker(remote.name, remote.note)
    await world.crash(scheduler)


async def test_what_nobody_is_left_to_do_is_handed_back_and_waits() -> None:
    world = remote_world()
    remote = await Remote(world).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    new = world.job(handler="far")
    await world.add(scheduler, new)
    await world.clock.advance(100)
    assert (await run_of(world, new)).state is RunState.CLAIMED
    assert await world.store.end_worker(remote.name)
    await world.clock.advance(KEPT_MS + 3 * REPUBLISH_MS)
    run = await run_of(world, new)
    assert (run.state, run.attempt) == (RunState.SCHEDULED, 0)
    other = await Remote(world, "remote-2").enlist()
    [begun] = await begin_all(world, other, 1, within_ms=20_000)
    assert begun.attempt == 1
    await world.crash(scheduler)


async def test_what_has_no_slot_here_overflows_to_workers_elsewhere() -> None:
    world = remote_world(handler_slots=4)
    world.behave = lambda work: None  # never ends
    remote = await Remote(world, slots=8, names=("here",)).enlist()
    scheduler = await world.start(local_routes=[handler_route("here")])
    await world.clock.advance(1_500)
    await world.add(scheduler, *(world.job(handler="here") for _ in range(8)))
    begun = await begin_all(world, remote, 7)  # of four slots here, three are other lanes' own
    assert len(begun) + len(world.calls) == 8
    await world.crash(scheduler)


@pytest.mark.parametrize("late", [False, True], ids=["workers are there", "workers come later"])
async def test_what_only_workers_do_waits_for_no_slot_here(late: bool) -> None:
    """However many runs that only this process does wait before it."""
    world = remote_world(handler_slots=4)
    world.behave = lambda work: None  # never ends
    remote = Remote(world)
    if late:
        await Remote(world, "remote-2", names=("other",)).enlist()
    else:
        await remote.enlist()
    scheduler = await world.start(local_routes=[handler_route("here")])
    await world.clock.advance(1_500)
    await world.add(scheduler, *(world.job(handler="here") for _ in range(2_500)))
    new = world.job(handler="far")
    await world.add(scheduler, new)
    await world.clock.advance(500)
    if late:
        await remote.enlist()
        await world.clock.advance(1_500)
    [begun] = await begin_all(world, remote, 1, within_ms=500)
    assert begun.job_id == new.job.job_id
    assert 0 < len(world.calls) <= 4
    assert len(scheduler.ready) + len(world.calls) == 2_500
    await world.crash(scheduler)


async def test_a_run_whose_job_was_edited_after_it_was_queued_is_handed_back() -> None:
    world = remote_world()
    remote = await Remote(world).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    new = world.job(handler="far")
    await world.add(scheduler, new)
    await world.clock.advance(200)
    stored = world.memory._tables.jobs[new.job.job_id]
    spec = replace(stored.spec, target=Target(type=TargetType.HANDLER, name="here"))
    world.memory._tables.jobs[new.job.job_id] = replace(stored, spec=spec)
    assert await remote.take() == []
    run = await run_of(world, new)
    assert (run.state, run.attempt) == (RunState.SCHEDULED, 0)
    await world.crash(scheduler)


async def test_a_job_that_was_edited_to_another_handler_is_done_by_that_one() -> None:
    world = remote_world()
    await Remote(world, slots=1).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    busy, new = world.job(handler="far"), world.job(handler="far")
    await world.add(scheduler, busy, new)
    await world.clock.advance(200)  # the second waits for room
    stored = world.memory._tables.jobs[new.job.job_id]
    spec = replace(stored.spec, target=Target(type=TargetType.HANDLER, name="here"))
    world.memory._tables.jobs[new.job.job_id] = replace(stored, spec=spec)
    remote = Remote(world, slots=1)
    for begun in await begin_all(world, remote, 1):
        await remote.succeed(begun)
    await world.clock.advance(1_000)
    assert [call.work.job_id for call in world.calls] == [new.job.job_id]
    await world.crash(scheduler)


async def test_a_run_whose_hand_back_could_not_be_written_is_looked_after_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = remote_world()
    remote = await Remote(world).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    new = world.job(handler="far")
    await world.add(scheduler, new)
    await world.clock.advance(100)
    await world.store.end_worker(remote.name)
    with monkeypatch.context() as faulty:

        async def complete(rows: Rows, notes: object) -> None:
            raise ValueError("a fault of the store's code")

        faulty.setattr(world.store, "complete", complete)
        await world.clock.advance(KEPT_MS + 2 * REPUBLISH_MS)
        assert (await run_of(world, new)).state is RunState.CLAIMED
    await world.clock.advance(2 * REPUBLISH_MS)
    assert (await run_of(world, new)).state is RunState.SCHEDULED
    await world.crash(scheduler)


async def test_hints_do_not_pile_up_while_workers_are_busy() -> None:
    world = remote_world()
    remote = await Remote(world, slots=4).enlist()
    scheduler = await world.start()
    await world.clock.advance(1_500)
    await world.add(scheduler, *(world.job(handler="far") for _ in range(50)))
    for _ in range(60):
        await world.clock.advance(2_000)
        await world.store.renew_worker(remote.name, remote.note)
    assert world.queue is not None
    assert sum(await world.queue.depth(remote.topics)) <= 12, "a copy each minute"
    await world.crash(scheduler)


class CrowdedQueue(MemoryQueue):
    """Always holds what others have put there."""

    async def depth(self, topics: Sequence[Topic]) -> Sequence[int]:
        return [100] * len(topics)


async def test_what_waits_for_workers_that_are_gone_is_begun_here_at_once() -> None:
    world = remote_world()
    world.queue = CrowdedQueue(world.clock, 30_000)
    remote = await Remote(world, names=("here",)).enlist()
    scheduler = await world.start(local_routes=[handler_route("here")])
    await world.clock.advance(1_500)
    new = world.job(handler="here")
    await world.store.insert_jobs([new])
    scheduler.elsewhere.backlog.push(handler_route("here"), timer_of(new))
    await world.clock.advance(1_000)
    assert not world.calls
    assert await world.store.end_worker(remote.name)
    await world.clock.advance(1_500)
    assert [call.work.job_id for call in world.calls] == [new.job.job_id]
    await world.crash(scheduler)


def timer_of(new: NewJob) -> Rows:
    assert new.timer is not None
    row = empty(TIMER, 1)
    row["job_id"], row["due_ms"] = np.void(new.job.job_id), new.timer.due_ms
    row["scheduled_ms"], row["gen"], row["flags"] = new.timer.scheduled_ms, 1, new.job.timer_flags
    return row


async def test_a_worker_that_comes_while_overdue_timers_are_read_gets_them_at_once() -> None:
    world = remote_world()
    scheduler = await world.start()
    remote, load = Remote(world), world.memory.load_timers
    read_ends = asyncio.Event()

    async def load_slowly(*args: Any) -> Rows:
        page = await load(*args)
        if not len(page) and not read_ends.is_set():
            await world.add(scheduler, world.job(handler="far"))
            await world.clock.sleep_ms(100)  # nobody can do it
            await remote.enlist()
            await world.clock.sleep_ms(2_000)
            read_ends.set()
        return page

    await world.clock.advance(4_000)
    world.memory.load_timers = load_slowly  # type: ignore[method-assign,assignment]
    for _ in range(400):
        if not read_ends.is_set():
            await world.clock.advance(50)
    assert read_ends.is_set()
    await begin_all(world, remote, 1, within_ms=1_000)
    await world.crash(scheduler)
