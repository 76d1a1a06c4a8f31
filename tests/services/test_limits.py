"""Limits of concurrency from the firing side: who waits, when it is asked for again, and that slots never leak."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import ClaimVerdict, Rows
from tickwheel.domain.concurrency import Limit, Scope
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.ids import shard_of
from tickwheel.domain.outcome import OK
from tickwheel.domain.run import IN_FLIGHT, RunState, SkipReason
from tickwheel.ports.events import ClaimsAnswered
from tickwheel.ports.executor import Work
from tickwheel.ports.store import Change, JobView, NewJob
from tickwheel.services.scheduler import Scheduler

from .world import FAILED, World

KEY = Limit(1, key="k")
LEASE_MS = 30_000


def limited(world: World, *limits: Limit, **fields: Any) -> NewJob:
    new = world.job(**fields)
    return replace(new, job=replace(new.job, spec=replace(new.job.spec, concurrency=limits or (KEY,))))


def takes(world: World, length_ms: int) -> None:
    """Attempts last so long."""

    async def end(work: Work) -> None:
        await world.clock.sleep_ms(length_ms)
        for executor in world.executors:
            if executor.open.get(work.slot) is work:
                executor.finish(work.slot)

    tasks = set()

    def behave(work: Work) -> None:
        task = asyncio.get_running_loop().create_task(end(work))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    world.behave = behave


def most_open(world: World) -> int:
    return sum(executor.most_open for executor in world.executors)


def counted(world: World, verdict: ClaimVerdict) -> int:
    return sum(int(event.verdicts[verdict]) for event in world.events.of(ClaimsAnswered))


async def states(world: World, ids: Sequence[bytes]) -> list[RunState]:
    return [run.state for job_id in ids for run in await world.runs(job_id)]


async def drained(world: World, scheduler: Scheduler) -> None:
    assert await world.memory.audit_slots() == 0
    assert not world.memory._tables.slots
    assert not len(scheduler.limits)
    await scheduler.drain(0)


@pytest.mark.parametrize("kind", ["handler", "webhook"])
async def test_a_crowd_is_worked_off_in_due_order_and_hardly_asked_for(kind: str) -> None:
    world = World()
    takes(world, 20)
    scheduler = await world.start()
    fields = {"handler": "h"} if kind == "handler" else {}
    ids = await world.add(
        scheduler, *(limited(world, Limit(2, key="k"), in_ms=100 + n, **fields) for n in range(300))
    )
    await world.clock.advance(10_000)
    assert await states(world, ids) == [RunState.SUCCEEDED] * len(ids)
    assert most_open(world) == 2
    assert [call.work.job_id for call in world.calls] == ids
    assert counted(world, ClaimVerdict.LIMITED) < len(ids) / 4
    last_ms = world.calls[-1].started_ms - world.calls[0].started_ms
    assert last_ms < 300 / 2 * 20 * 1.5, "slots are refilled as soon as they are free"
    await drained(world, scheduler)


async def test_definitions_of_what_waits_are_not_read_again_and_again() -> None:
    world = World()
    reads = 0
    load_work = world.memory.load_work

    async def counting(job_ids: Sequence[bytes]) -> Any:
        nonlocal reads
        reads += len(job_ids)
        return await load_work(job_ids)

    world.memory.load_work = counting  # type: ignore[method-assign]
    world.behave = lambda work: None
    scheduler = await world.start()
    await world.add(scheduler, *(limited(world, in_ms=100) for _ in range(2_000)))
    await world.clock.advance(60_000)
    assert len(world.calls) == 1
    assert len(scheduler.limits) == 1_999
    assert reads < 2_000 + 60 * 6, "one look each, and one poll each fifth of a second"
    await world.crash(scheduler)


async def test_neither_other_keys_nor_runs_without_limits_wait_behind_a_crowd() -> None:
    world = World()
    world.behave = lambda work: None if work.job_name == "hangs" else OK
    scheduler = await world.start()
    await world.add(scheduler, *(limited(world, in_ms=10, name="hangs") for _ in range(500)))
    await world.clock.advance(500)
    ids = await world.add(scheduler, limited(world, Limit(1, key="b"), in_ms=10), world.job(in_ms=10))
    await world.clock.advance(60)
    assert await states(world, ids) == [RunState.SUCCEEDED] * 2
    await world.crash(scheduler)


@pytest.mark.pitfall(59)
async def test_several_limits_without_contention_add_no_delay() -> None:
    world = World()
    scheduler = await world.start()
    limits = (Limit(3, key="a"), Limit(3, key="b"), Limit(9, Scope.JOB_NAME), Limit(99, Scope.TENANT))
    for _ in range(20):
        [job_id] = await world.add(scheduler, limited(world, *limits, in_ms=100))
        await world.clock.advance(1_000)
        call = world.calls[-1]
        assert call.work.job_id == job_id
        assert call.started_ms - call.work.scheduled_ms < 50
    await drained(world, scheduler)


@pytest.mark.pitfall(88)
async def test_while_a_key_runs_only_one_more_waits() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    bounded = Limit(1, key="k", max_waiting=1)
    ids = await world.add(scheduler, limited(world, bounded))
    await world.clock.advance(100)
    for _ in range(5):
        ids += await world.add(scheduler, limited(world, bounded))
        await world.clock.advance(300)
        assert (await states(world, ids)).count(RunState.SCHEDULED) <= 1
    refused = [run for job_id in ids for run in await world.runs(job_id) if run.state is RunState.SKIPPED]
    assert [run.skip_reason for run in refused] == [SkipReason.LIMIT] * 4
    world.behave = lambda work: OK
    world.executors[0].finish(next(iter(world.executors[0].open)))
    await world.clock.advance(2_000)
    assert (await states(world, ids)).count(RunState.SUCCEEDED) == 2
    await drained(world, scheduler)


@pytest.mark.pitfall(20)
async def test_a_key_coalesces_what_recurs_while_nothing_serves_it() -> None:
    world = World()
    world.serves = lambda target: False
    scheduler = await world.start()
    new = world.job(cron="* * * * *", first_ms=world.next_minute_ms())
    spec = replace(new.job.spec, concurrency=(Limit(1, key="k", max_waiting=1),))
    [job_id] = await world.add(scheduler, replace(new, job=replace(new.job, spec=spec)))
    await world.clock.advance(30 * 60_000)
    assert (await states(world, [job_id])).count(RunState.SCHEDULED) <= 1
    world.serves, world.behave = lambda target: True, lambda work: None
    await scheduler.drain(0)
    scheduler = await world.start()
    await world.clock.advance(5 * 60_000)
    seen = await states(world, [job_id])
    assert sum(state in IN_FLIGHT for state in seen) == 1
    assert seen.count(RunState.SCHEDULED) == 1
    await world.crash(scheduler)


@pytest.mark.pitfall(38)
async def test_the_slot_of_a_dead_holder_is_free_within_its_lease() -> None:
    world = World()
    world.behave = lambda work: None
    first = await world.start()
    [holder, waits] = await world.add(first, limited(world, retries=0), limited(world, in_ms=5))
    await world.clock.advance(1_000)
    assert [call.work.job_id for call in world.calls] == [holder]
    await world.crash(first)
    world.behave = lambda work: OK
    second = await world.start()
    await world.clock.advance(LEASE_MS)
    assert waits in [call.work.job_id for call in world.calls]
    await world.clock.advance(LEASE_MS)
    assert (await world.run_of(waits)).state is RunState.SUCCEEDED
    await drained(world, second)


@pytest.mark.pitfall(35)
@pytest.mark.parametrize("happened", [False, True], ids=["refused", "answer lost"])
async def test_a_store_that_is_cut_during_the_last_ack_leaves_no_slot_taken(happened: bool) -> None:
    world = World()
    failures, complete = 3, world.memory.complete

    async def flaky(batch: Rows, notes: Any) -> Any:
        nonlocal failures
        if not failures:
            return await complete(batch, notes)
        failures -= 1
        if happened:
            await complete(batch, notes)
            raise OutcomeUnknown("the answer was lost")
        raise StoreUnavailable("cut")

    world.memory.complete = flaky  # type: ignore[method-assign]
    scheduler = await world.start()
    ids = await world.add(scheduler, limited(world, retries=0), limited(world, in_ms=5))
    await world.clock.advance(LEASE_MS)
    assert await states(world, ids) == [RunState.SUCCEEDED] * 2
    await drained(world, scheduler)


@pytest.mark.pitfall(31)
async def test_a_hundred_deaths_between_claim_and_start_leak_no_slot() -> None:
    world = World()
    hangs, claim = True, world.memory.claim

    async def claim_and_hang(*args: Any, **options: Any) -> Any:
        answers = await claim(*args, **options)
        if hangs and (answers["verdict"] == ClaimVerdict.WON).any():
            await asyncio.Event().wait()
        return answers

    world.memory.claim = claim_and_hang  # type: ignore[method-assign]
    two = Limit(2, key="k")
    ids = await world.add(None, *(limited(world, two, in_ms=n, retries=100) for n in range(90)))
    for _ in range(100):
        scheduler = await world.start()
        await world.clock.advance(300)
        assert world.memory._tables.used("key\ndefault\nk").running in (1, 2)
        await world.crash(scheduler)
    hangs = False
    scheduler = await world.start()
    await world.clock.advance(120_000)
    assert all(state in (RunState.SUCCEEDED, RunState.FAILED) for state in await states(world, ids))
    assert most_open(world) <= 2
    await drained(world, scheduler)


async def test_a_slot_that_is_freed_elsewhere_is_noticed_soon() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    [first, second] = await world.add(scheduler, limited(world), limited(world, in_ms=5))
    await world.clock.advance(1_000)

    def cancel(view: JobView, now_ms: int) -> Change:
        return Change(cancel_open=True)

    await world.memory.change_job("default", first, cancel)
    await world.clock.advance(300)
    assert [call.work.job_id for call in world.calls] == [first, second]
    await world.crash(scheduler)


async def test_many_slots_that_are_freed_elsewhere_are_filled_within_a_second() -> None:
    world = World()
    world.behave = lambda work: None
    world.settings = replace(world.settings, webhook_slots=200, webhook_host_limit=200)
    scheduler = await world.start()
    most = Limit(64, key="k")
    ids = await world.add(scheduler, *(limited(world, most, in_ms=5) for _ in range(150)))
    await world.clock.advance(1_000)
    assert len(world.calls) == 64

    def cancel(view: JobView, now_ms: int) -> Change:
        return Change(cancel_open=True)

    for job_id in [call.work.job_id for call in world.calls]:
        await world.memory.change_job("default", job_id, cancel)
    await world.clock.advance(1_000)
    assert len(world.calls) == 128
    assert len(ids) == 150
    await world.crash(scheduler)


async def test_what_waits_is_unresolved_and_leaves_with_its_shard() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    jobs = [limited(world, in_ms=50) for _ in range(40)]
    await world.add(scheduler, *jobs)
    await world.clock.advance(5_000)
    waiting = scheduler.limits.rows()
    assert len(waiting) == 39
    floors = scheduler._unresolved.lowest_ms()
    due_ms = int(waiting["due_ms"].min())
    assert scheduler.limits.lowest_due_ms() == due_ms
    shards = sorted({shard_of(job_id) for job_id in waiting["job_id"].tolist()})
    assert (floors[shards] <= due_ms).all()
    gone = shards[:3]
    scheduler.limits.forget(gone)
    left = scheduler.limits.rows()
    assert not np.isin([shard_of(job_id) for job_id in left["job_id"].tolist()], gone).any()
    assert len(scheduler.limits) == len(left) > 0
    scheduler.limits.forget(shards)
    assert len(scheduler.limits) == 0
    assert scheduler.limits.lowest_due_ms() is None
    await world.crash(scheduler)


async def test_what_is_past_its_deadline_is_skipped_though_it_waits() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    ids = await world.add(
        scheduler, limited(world), *(limited(world, in_ms=5, deadline_ms=2_000) for _ in range(50))
    )
    await world.clock.advance(4_000)
    assert (await states(world, ids)).count(RunState.SKIPPED) == 50
    await world.crash(scheduler)


async def test_retries_take_their_turn() -> None:
    world = World()
    world.behave = lambda work: FAILED if work.attempt == 1 else OK
    scheduler = await world.start()
    ids = await world.add(scheduler, *(limited(world, in_ms=n) for n in range(10)))
    await world.clock.advance(60_000)
    assert await states(world, ids) == [RunState.SUCCEEDED] * 10
    assert most_open(world) == 1
    await drained(world, scheduler)


async def test_crowds_with_a_count_in_common_all_move() -> None:
    world = World()
    takes(world, 10)
    scheduler = await world.start()
    whole = Limit(3, Scope.TENANT)
    ids = []
    for n in range(60):
        ids += await world.add(scheduler, limited(world, Limit(1, key=f"customer-{n % 6}"), whole, in_ms=n))
    await world.clock.advance(5_000)
    assert await states(world, ids) == [RunState.SUCCEEDED] * 60
    assert most_open(world) == 3
    await drained(world, scheduler)
