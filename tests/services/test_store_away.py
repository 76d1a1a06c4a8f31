"""The store hangs, fails in odd ways, or answers late: what the firing side does meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from tickwheel.domain.columns import Rows
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.outcome import OK
from tickwheel.domain.run import RunState
from tickwheel.ports.events import LoopFailed
from tickwheel.ports.store import AttemptNote, Completed
from tickwheel.services import completion
from tickwheel.services.changes.end import cancel
from tickwheel.services.scheduler import SchedulerSettings

from .world import World

Verb = Callable[..., Coroutine[Any, Any, Any]]
LEASE_MS = 30_000


async def hang(*args: object) -> None:
    await asyncio.Event().wait()


async def refuse(*args: object, **options: object) -> None:
    raise StoreUnavailable("down")


def lose_first_answer(verb: Verb) -> Verb:
    """It is done; only the answer to the first call is lost."""
    calls: list[object] = []

    async def call(*args: Any, **options: Any) -> Any:
        answer = await verb(*args, **options)
        calls.append(args)
        if len(calls) == 1:
            raise OutcomeUnknown("the answer was lost")
        return answer

    return call


async def test_attempts_stop_before_their_lease_ends_though_the_store_hangs() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    world.memory.renew = hang  # type: ignore[method-assign, assignment]  # never answers
    await world.add(scheduler, world.job(in_ms=100), world.job(in_ms=100, handler="h"))
    await world.clock.advance(LEASE_MS)
    assert [len(executor.cancelled) for executor in world.executors] == [1, 1]
    await scheduler.drain(0)


async def test_attempt_that_outlived_its_lease_is_not_renewed() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(101)
    assert len(world.calls) == 1
    world.clock.step_ms(LEASE_MS + 1_000)  # the process was stopped before RUNNING was written
    world.behave = lambda work: OK
    await world.clock.advance(3_000)
    assert [call.work.attempt for call in world.calls] == [1, 2]
    await scheduler.drain(0)


async def test_lost_run_is_reaped_once_however_long_the_store_refuses() -> None:
    world = World()
    world.behave = lambda work: None
    (job_id,) = await world.add(None, world.job())
    first = await world.start()
    await world.clock.advance(1_000)
    await world.crash(first)
    complete = world.memory.complete
    world.memory.complete = refuse  # type: ignore[method-assign, assignment]
    second = await world.start()
    await world.clock.advance(2 * LEASE_MS)
    assert second.completions.pending == 1
    world.memory.complete, world.behave = complete, lambda work: OK  # type: ignore[method-assign]
    await world.clock.advance(5_000)
    assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    await second.drain(0)


async def test_drain_does_not_wait_for_a_reaper_that_found_nothing() -> None:
    world = World()
    world.behave = lambda work: None
    await world.add(None, world.job(handler="h"))
    first = await world.start()
    await world.clock.advance(1_000)
    await world.crash(first)
    world.serves = lambda target: False  # nobody claims it, so the reaper waits for the end of its lease
    second = await world.start()
    await world.clock.advance(5_000)
    began_ms = world.clock.now_ms()
    await asyncio.gather(second.drain(0), world.clock.advance(100))
    assert world.clock.now_ms() - began_ms == 100


async def test_one_end_that_cannot_be_written_does_not_take_others_with_it() -> None:
    world = World()
    scheduler = await world.start()
    jobs = [world.job(in_ms=100) for _ in range(9)]
    complete, poison = world.memory.complete, jobs[4].job.job_id

    async def choke(batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        if poison in [row.tobytes() for row in batch["job_id"]]:
            raise ValueError("a fault of the store")
        return await complete(batch, notes)

    world.memory.complete = choke  # type: ignore[method-assign]
    await world.add(scheduler, *jobs)
    await world.clock.advance(1_000)
    states = [(await world.run_of(new.job.job_id)).state for new in jobs]
    assert [state is RunState.SUCCEEDED for state in states] == [new.job.job_id != poison for new in jobs]
    assert len(world.calls) == 9
    assert scheduler.completions.pending == 0
    told = LoopFailed(loop="completion", error="ValueError: a fault of the store", retry_in_ms=0)
    assert world.events.of(LoopFailed) == [told]
    await scheduler.drain(0)


async def test_last_attempt_that_never_began_goes_back_though_running_was_written() -> None:
    world = World()
    scheduler = await world.start()
    world.memory.renew = lose_first_answer(world.memory.renew)  # type: ignore[method-assign]
    (job_id,) = await world.add(scheduler, world.job(in_ms=100, retries=0))
    await world.clock.advance(5_000)
    assert [call.work.attempt for call in world.calls] == [1]
    assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    await scheduler.drain(0)


async def test_attempt_of_a_claim_that_was_long_unknown_starts_under_a_whole_lease() -> None:
    world = World()
    left_ms: list[int] = []

    def look(work: object) -> object:
        (row,) = world.memory._tables.ledger.values()
        left_ms.append((row.run.lease_ms or 0) - world.clock.now_ms())
        return OK

    world.behave = look  # type: ignore[assignment]  # gives OK
    scheduler = await world.start()
    claim = world.memory.claim
    world.memory.claim = lose_first_answer(claim)  # type: ignore[method-assign]
    await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(110)
    world.memory.claim = refuse  # type: ignore[method-assign, assignment]
    await world.clock.advance(20_000)
    world.memory.claim = claim  # type: ignore[method-assign]
    await world.clock.advance(5_000)
    assert left_ms == [LEASE_MS], "one start, though the safety net brought its timer again meanwhile"
    await scheduler.drain(0)


async def test_timer_that_is_armed_twice_starts_once_though_its_claim_was_unknown() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    world.memory.claim = lose_first_answer(world.memory.claim)  # type: ignore[method-assign]
    await world.clock.advance(10)
    await world.add(scheduler, world.job(in_ms=100))
    scheduler.arm(await world.memory.load_timers(0, 2**62, 10))
    await world.clock.advance(5_000)
    assert len(world.calls) == 1
    await scheduler.drain(0)


async def test_lease_counts_from_when_its_renewal_was_sent() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    renew = world.memory.renew

    async def answer_slowly(batch: Rows, notes: Any = None) -> Any:
        world.memory.renew = hang  # type: ignore[method-assign, assignment]  # the next one never answers
        held = await renew(batch)
        await world.clock.sleep_ms(15_000)
        return held

    world.memory.renew = answer_slowly  # type: ignore[method-assign]
    await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(LEASE_MS)
    assert world.executors[0].cancelled == [0]
    await scheduler.drain(0)


async def test_attempt_whose_renewal_is_refused_stops() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(1_000)
    await world.memory.change_job("default", job_id, cancel)  # the owner is not told
    await world.clock.advance(LEASE_MS // 3)
    assert world.executors[0].cancelled == [0]
    await scheduler.drain(0)


async def test_run_whose_handler_is_gone_too_is_reaped_when_its_lease_ends() -> None:
    world = World()
    world.behave = lambda work: None
    (job_id,) = await world.add(None, world.job(handler="h"))
    first = await world.start()
    await world.clock.advance(1_000)
    await world.crash(first)
    world.serves = lambda target: False
    second = await world.start()
    await world.clock.advance(LEASE_MS + 1_000)
    assert (await world.run_of(job_id)).state is RunState.SCHEDULED
    await second.drain(0)


async def test_end_of_which_nothing_was_written_is_sent_again() -> None:
    world = World()
    scheduler = await world.start()
    complete, lost = world.memory.complete, list[Rows]()

    async def lose_the_first(batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        if not lost:
            lost.append(batch)
            raise OutcomeUnknown("the disk reported an error")
        return await complete(batch, notes)

    world.memory.complete = lose_the_first  # type: ignore[method-assign]
    (job_id,) = await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(1_000)
    assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    assert len(world.calls) == 1
    await scheduler.drain(0)


async def test_timer_that_is_committed_while_its_slice_is_read_fires_on_time() -> None:
    world = World()
    scheduler = await world.start()
    load, late = world.memory.load_timers, [world.job(in_ms=20_000), world.job(in_ms=300_000)]

    async def commit_meanwhile(from_ms: int, until_ms: int, limit: int, shards: object = None) -> Rows:
        page = await load(from_ms, until_ms, limit)
        for new in [new for new in late if (new.job.scheduled_ms or 0) < until_ms]:
            late.remove(new)
            await world.add(scheduler, new)
        return page

    world.memory.load_timers = commit_meanwhile  # type: ignore[method-assign]
    await world.clock.advance(310_000)
    assert late == []
    assert [call.started_ms - call.work.scheduled_ms for call in world.calls] == [0, 0]
    await scheduler.drain(0)


async def test_nothing_more_starts_while_too_many_ends_are_uncommitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "PENDING_LIMIT", 20)
    world = World(settings=SchedulerSettings(webhook_slots=16, handler_slots=1))
    complete, world.memory.complete = world.memory.complete, refuse  # type: ignore[method-assign, assignment]
    await world.add(None, *(world.job() for _ in range(100)))
    scheduler = await world.start()
    await world.clock.advance(10_000)
    assert len(world.calls) <= 20 + 16
    world.memory.complete = complete  # type: ignore[method-assign]
    await world.clock.advance(10_000)
    assert len(world.calls) == 100
    await scheduler.drain(0)
