"""Leases, heartbeats, crashes: who may still commit."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.outcome import OK
from tickwheel.domain.run import RunState
from tickwheel.services.scheduler import SchedulerSettings

from .world import World


async def test_attempt_of_a_crashed_process_is_claimed_again_at_once_under_a_higher_token() -> None:
    world = World()
    world.behave = lambda work: None
    first = await world.start()
    (job_id,) = await world.add(first, world.job(in_ms=100))
    await world.clock.advance(1_000)
    await world.crash(first)
    world.behave = lambda work: OK
    second = await world.start()
    await world.clock.advance(5_000)
    assert [call.work.attempt for call in world.calls] == [1, 2]
    assert world.calls[1].work.fence > world.calls[0].work.fence
    run = await world.run_of(job_id)
    assert run.state is RunState.SUCCEEDED
    await second.drain(0)


async def test_last_attempt_that_never_began_is_not_used_up_by_a_crash() -> None:
    world = World()
    first = await world.start()
    (job_id,) = await world.add(first, world.job(in_ms=100, retries=0))
    original = world.memory.renew
    world.memory.renew = _raise(StoreUnavailable("down"))  # type: ignore[method-assign]
    await world.clock.advance(1_000)
    assert world.calls == []
    await world.crash(first)
    world.memory.renew = original  # type: ignore[method-assign]
    second = await world.start()
    await world.clock.advance(5_000)
    assert [call.work.attempt for call in world.calls] == [1]
    assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    await second.drain(0)


async def test_last_attempt_is_running_in_the_ledger_before_it_begins() -> None:
    world = World()
    states: list[RunState] = []

    def look(work: object) -> object:
        (row,) = world.memory._tables.ledger.values()
        states.append(row.run.state)
        return OK

    world.behave = look  # type: ignore[assignment]
    scheduler = await world.start()
    await world.add(scheduler, world.job(in_ms=100, retries=0))
    await world.clock.advance(1_000)
    assert states == [RunState.RUNNING]
    await scheduler.drain(0)


async def test_three_lost_workers_in_a_row_quarantine_the_run() -> None:
    world = World()
    world.behave = lambda work: None
    (job_id,) = await world.add(None, world.job(in_ms=100, retries=10))
    await world.lose(3)
    scheduler = await world.start()
    await world.clock.advance(60_000)
    run = await world.run_of(job_id)
    assert run.state is RunState.FAILED
    assert len(world.calls) == 3
    assert run.error is not None
    assert "worker lost 3 times in a row" in run.error
    await scheduler.drain(0)


async def test_long_attempt_keeps_its_lease_and_is_started_once() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(1_000)
    assert (await world.run_of(job_id)).state is RunState.RUNNING
    await world.clock.advance(600_000)
    run = await world.run_of(job_id)
    assert run.beat_ms is not None
    assert world.clock.now_ms() - run.beat_ms <= 10_200
    assert len(world.calls) == 1
    webhooks = world.executors[0]
    webhooks.finish(next(iter(webhooks.open)))
    await world.clock.advance(10)
    assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    await scheduler.drain(0)


async def test_process_that_stalls_past_its_lease_cannot_commit_after_the_run_moved_on() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=16, handler_slots=16, lease_ms=30_000))
    world.behave = lambda work: None
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(1_000)
    webhooks = world.executors[0]
    webhooks.obeys_cancel = False
    world.clock.step_ms(40_000)  # everything stood still
    await world.clock.advance(20_000)
    assert [call.work.attempt for call in webhooks.calls] == [1, 2]
    late, current = webhooks.calls[0].work.slot, webhooks.calls[1].work.slot
    webhooks.finish(late)
    await world.clock.advance(10)
    run = await world.run_of(job_id)
    assert run.state is RunState.RUNNING
    assert run.fence == webhooks.calls[1].work.fence
    webhooks.finish(current)
    await world.clock.advance(10)
    run = await world.run_of(job_id)
    assert run.state is RunState.SUCCEEDED
    assert run.fence == webhooks.calls[1].work.fence
    await scheduler.drain(0)


@pytest.mark.pitfall(44)
async def test_attempt_that_stops_for_a_lost_lease_is_run_again_and_not_cancelled() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(1_000)
    world.clock.step_ms(40_000)
    world.behave = lambda work: OK
    await world.clock.advance(20_000)
    run = await world.run_of(job_id)
    assert run.state is RunState.SUCCEEDED
    assert run.attempt == 2
    await scheduler.drain(0)


@pytest.mark.parametrize("verb", ["claim", "complete", "load_work", "load_timers"])
@pytest.mark.parametrize("happened", [False, True])
async def test_store_that_fails_for_a_while_loses_and_doubles_nothing(verb: str, happened: bool) -> None:
    world = World()
    original = getattr(world.memory, verb)
    failures = 5

    async def flaky(*args: object, **options: object) -> object:
        nonlocal failures
        if failures:
            failures -= 1
            if happened:
                await original(*args, **options)
                raise OutcomeUnknown("the answer was lost")
            raise StoreUnavailable("down")
        return await original(*args, **options)

    setattr(world.memory, verb, flaky)
    scheduler = await world.start()
    ids = await world.add(scheduler, *(world.job(in_ms=100 + n, retries=n % 3) for n in range(40)))
    await world.clock.advance(60_000)
    for job_id in ids:
        assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    assert len(world.calls) == len(ids)
    await scheduler.drain(0)


async def test_drain_hands_back_what_did_not_end_in_time_without_using_up_an_attempt() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(1_000)
    drained = asyncio.ensure_future(scheduler.drain(5_000))
    await world.clock.advance(8_000)
    await drained
    run = await world.run_of(job_id)
    assert run.state is RunState.SCHEDULED
    assert run.attempt == 0
    world.behave = lambda work: OK
    second = await world.start()
    await world.clock.advance(1_000)
    assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    await second.drain(0)


def _raise(error: Exception) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def fail(*args: object) -> Any:
        raise error

    return fail
