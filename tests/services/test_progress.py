"""What attempts say of themselves on the way to the store, and what they return."""

from collections.abc import Mapping
from typing import Any

from tickwheel.domain.columns import Bools, Rows
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.outcome import LOST_LIMIT_COUNT, Outcome, OutcomeClass, ProgressNote
from tickwheel.domain.run import RunState
from tickwheel.ports.executor import Work
from tickwheel.ports.store import NewJob, Run
from tickwheel.services.heartbeats import SAY_EVERY_MS
from tickwheel.services.scheduler import Scheduler

from .world import World

KILLED = Outcome(outcome_class=OutcomeClass.LOST, error="the handler's process was killed by SIGKILL")


async def run_of(world: World, new: NewJob) -> Run:
    assert new.job.scheduled_ms is not None
    run = await world.store.get_run(new.job.tenant_id, new.job.job_id, new.job.scheduled_ms)
    assert run is not None
    return run


async def talking(world: World) -> tuple[Scheduler, NewJob]:
    """One attempt that goes on until told, in slot 0 or wherever it is."""
    world.behave = lambda work: None
    [new] = [world.job()]
    await world.store.insert_jobs([new])
    scheduler = await world.start()
    await world.clock.advance(50)
    return scheduler, new


def slot_of(world: World) -> tuple[Any, int]:
    [(executor, slot)] = [(executor, slot) for executor in world.executors for slot in executor.open]
    return executor, slot


async def test_what_an_attempt_says_is_on_the_run_within_a_second() -> None:
    world = World()
    scheduler, new = await talking(world)
    executor, slot = slot_of(world)
    executor.say(slot, ProgressNote(0.4, "two of five"))
    await world.clock.advance(SAY_EVERY_MS)
    run = await run_of(world, new)
    assert (run.state, run.progress, run.note) == (RunState.RUNNING, 0.4, "two of five")
    view = await world.store.get_job(new.job.tenant_id, new.job.job_id)
    assert view is not None
    assert view.current is not None
    assert view.current.note == "two of five"
    executor.finish(slot)
    await scheduler.drain(1_000)
    assert (await run_of(world, new)).progress is None


async def test_the_latest_word_counts_and_the_store_hears_once_a_second() -> None:
    world = World()
    scheduler, new = await talking(world)
    executor, slot = slot_of(world)
    heard: list[float | None] = []
    renew = world.memory.renew

    async def counting(batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        heard.extend(note.progress for note in (notes or {}).values())
        return await renew(batch, notes)

    world.memory.renew = counting  # type: ignore[method-assign]  # to look on
    for number in range(500):
        executor.say(slot, ProgressNote(number / 1_000))
        await world.clock.advance(10)
    await world.clock.advance(SAY_EVERY_MS + 100)
    assert 4 <= len(heard) <= 7
    assert heard[-1] == 0.499
    assert (await run_of(world, new)).progress == 0.499
    executor.finish(slot)
    await scheduler.drain(1_000)


async def test_what_was_said_while_the_store_was_away_is_told_later() -> None:
    world = World()
    scheduler, new = await talking(world)
    await world.clock.advance(SAY_EVERY_MS)
    executor, slot = slot_of(world)
    renew, failures = world.memory.renew, 0

    async def away(batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        nonlocal failures
        failures += 1
        raise StoreUnavailable("away")

    world.memory.renew = away  # type: ignore[method-assign]  # for a while
    executor.say(slot, ProgressNote(0.7))
    await world.clock.advance(2_000)
    assert failures
    world.memory.renew = renew  # type: ignore[method-assign]  # as it was
    await world.clock.advance(5_000)
    assert (await run_of(world, new)).progress == 0.7
    executor.finish(slot)
    await scheduler.drain(1_000)


async def test_what_is_said_last_is_not_the_next_attempts() -> None:
    world = World()
    scheduler, _ = await talking(world)
    executor, slot = slot_of(world)
    executor.say(slot, ProgressNote(1.0))
    executor.finish(slot)
    assert not any(pool.said for pool in scheduler.pools)
    executor.say(slot, ProgressNote(1.0))  # late: nobody runs there any more
    assert not any(pool.said for pool in scheduler.pools)
    await scheduler.drain(1_000)


async def test_what_a_handler_returned_is_stored_with_its_success() -> None:
    world = World()
    returned = Outcome(outcome_class=OutcomeClass.SUCCESS, result=b'{"sum":3}')
    too_much = Outcome(outcome_class=OutcomeClass.SUCCESS, result_dropped="too long")
    ends = iter((returned, too_much))
    world.behave = lambda work: next(ends)
    jobs = [world.job(), world.job(in_ms=100)]
    await world.store.insert_jobs(jobs)
    scheduler = await world.start()
    await world.clock.advance(1_000)
    await scheduler.drain(1_000)
    runs = [await run_of(world, new) for new in jobs]
    assert [(run.state, run.result, run.result_dropped) for run in runs] == [
        (RunState.SUCCEEDED, '{"sum":3}', None),
        (RunState.SUCCEEDED, None, "too long"),
    ]


async def test_run_that_kills_its_process_is_quarantined_with_the_cause_and_others_go_on() -> None:
    world = World()
    poison = world.job(retries=20)
    others = [world.job(in_ms=number * 500) for number in range(10)]

    def behave(work: Work) -> Outcome | None:
        return KILLED if work.job_id == poison.job.job_id else Outcome(outcome_class=OutcomeClass.SUCCESS)

    world.behave = behave
    await world.store.insert_jobs([poison, *others])
    scheduler = await world.start()
    await world.clock.advance(60_000)
    run = await run_of(world, poison)
    assert (run.state, run.attempt, run.lost_count) == (RunState.FAILED, LOST_LIMIT_COUNT, LOST_LIMIT_COUNT)
    [letter] = (await world.store.list_dead(poison.job.tenant_id, 10, None)).items
    assert letter.cause == "the handler's process was killed by SIGKILL (worker lost 3 times in a row)"
    assert [attempt.error for attempt in run.attempts[:2]] == [KILLED.error] * 2
    for other in others:
        assert (await run_of(world, other)).state is RunState.SUCCEEDED
    await scheduler.drain(1_000)
