"""From a stored timer to a committed completion, in one process."""

from tickwheel.domain.job import Lane, Overlap
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.ports.events import RunsUnserved
from tickwheel.ports.executor import Work
from tickwheel.services.scheduler import SchedulerSettings

from .world import FAILED, REFUSED, World, lateness_ms

MINUTE_MS = 60_000


async def test_one_off_starts_at_its_instant_and_succeeds() -> None:
    world = World()
    scheduler = await world.start()
    new = world.job(in_ms=5_000)
    (job_id,) = await world.add(scheduler, new)
    await world.clock.advance(4_999)
    assert world.calls == []
    await world.clock.advance(10)
    (call,) = world.calls
    assert 0 <= lateness_ms(call, new) <= 5
    run = await world.run_of(job_id)
    assert run.state is RunState.SUCCEEDED
    assert run.attempt == 1
    await scheduler.drain(0)


async def test_overdue_one_off_fires_at_start() -> None:
    world = World()
    (job_id,) = await world.add(None, world.job(in_ms=1_000))
    await world.clock.advance(3_600_000)
    scheduler = await world.start()
    await world.clock.advance(50)
    assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    await scheduler.drain(0)


async def test_timer_beyond_the_window_is_loaded_when_its_slice_comes() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=16, handler_slots=16, window_ms=MINUTE_MS))
    scheduler = await world.start()
    await world.clock.advance(100)
    new = world.job(in_ms=5 * MINUTE_MS)
    (job_id,) = await world.add(scheduler, new)
    assert len(scheduler.wheel) == 0
    await world.clock.advance(5 * MINUTE_MS + 10)
    assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    assert lateness_ms(world.calls[0], new) <= 5
    await scheduler.drain(0)


async def test_failed_attempt_is_retried_with_a_higher_token_until_none_is_left() -> None:
    world = World()
    world.behave = lambda work: FAILED
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, world.job(in_ms=100, retries=3))
    await world.clock.advance(60_000)
    run = await world.run_of(job_id)
    assert run.state is RunState.FAILED
    assert [call.work.attempt for call in world.calls] == [1, 2, 3, 4]
    fences = [call.work.fence for call in world.calls]
    assert fences == sorted(set(fences))
    page = await world.memory.list_dead("default", 10, None)
    assert [letter.run.job_id for letter in page.items] == [job_id]
    await scheduler.drain(0)


async def test_permanent_failure_is_not_retried() -> None:
    world = World()
    world.behave = lambda work: REFUSED
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, world.job(in_ms=100))
    await world.clock.advance(60_000)
    assert (await world.run_of(job_id)).state is RunState.FAILED
    assert len(world.calls) == 1
    await scheduler.drain(0)


async def test_snooze_uses_up_no_attempt() -> None:
    world = World()
    snooze = Outcome(outcome_class=OutcomeClass.SNOOZE, retry_after_ms=2_000)
    answers = [snooze, snooze, OK]
    world.behave = lambda work: answers.pop(0)
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, world.job(in_ms=100, retries=0))
    await world.clock.advance(10_000)
    assert [call.work.attempt for call in world.calls] == [1, 1, 1]
    assert (await world.run_of(job_id)).state is RunState.SUCCEEDED
    await scheduler.drain(0)


async def test_recurring_job_fires_each_minute_on_the_grid() -> None:
    world = World()
    scheduler = await world.start()
    first_ms = world.next_minute_ms()
    (job_id,) = await world.add(scheduler, world.job(cron="* * * * *", first_ms=first_ms))
    await world.clock.advance(10 * MINUTE_MS)
    runs = await world.runs(job_id)
    assert [run.scheduled_ms for run in runs] == [first_ms + n * MINUTE_MS for n in range(10)]
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    await scheduler.drain(0)


async def test_overlap_skip_never_runs_two_at_once_and_records_what_it_refused() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    first_ms = world.next_minute_ms()
    job = world.job(cron="* * * * *", first_ms=first_ms, overlap=Overlap.SKIP)
    (job_id,) = await world.add(scheduler, job)
    await world.clock.advance(3 * MINUTE_MS)
    runs = await world.runs(job_id)
    assert [run.state for run in runs] == [RunState.RUNNING, RunState.SKIPPED, RunState.SKIPPED]
    assert {run.skip_reason for run in runs[1:]} == {SkipReason.OVERLAP}
    await scheduler.drain(0)


async def test_buffer_one_runs_the_waiting_occurrence_after_the_running_one_ends() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    first_ms = world.next_minute_ms()
    job = world.job(cron="* * * * *", first_ms=first_ms, overlap=Overlap.BUFFER_ONE)
    (job_id,) = await world.add(scheduler, job)
    await world.clock.advance(3 * MINUTE_MS)
    assert len(world.calls) == 1
    webhooks = world.executors[0]
    webhooks.finish(next(iter(webhooks.open)))
    await world.clock.advance(3_000)
    assert [call.work.scheduled_ms for call in world.calls] == [first_ms, first_ms + MINUTE_MS]
    runs = await world.runs(job_id)
    assert runs[1].attempt == 1
    await scheduler.drain(0)


async def test_work_in_flight_never_exceeds_the_slots() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=8, handler_slots=4))
    world.behave = lambda work: None
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=100) for _ in range(50)))
    await world.clock.advance(1_000)
    webhooks = world.executors[0]
    assert webhooks.most_open == 5  # of 8 slots one each is kept for CRITICAL, HIGH and LOW
    assert len(scheduler.ready) == 45
    while webhooks.open:
        webhooks.finish(next(iter(webhooks.open)))
        await world.clock.advance(5)
    assert len(webhooks.calls) == 50
    assert webhooks.most_open == 5
    await scheduler.drain(0)


async def test_critical_run_starts_while_low_ones_fill_the_slots() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=8, handler_slots=4))
    world.behave = lambda work: None
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=100, lane=Lane.LOW) for _ in range(50)))
    await world.clock.advance(1_000)
    await world.add(scheduler, world.job(in_ms=100, lane=Lane.CRITICAL))
    await world.clock.advance(110)
    assert world.calls[-1].work.lane == Lane.CRITICAL
    await scheduler.drain(0)


async def test_late_one_off_still_runs_unless_it_has_a_deadline() -> None:
    world = World()
    kept, dropped = world.job(in_ms=1_000), world.job(in_ms=1_000, deadline_ms=5_000)
    await world.add(None, kept, dropped)
    await world.clock.advance(9_000)
    scheduler = await world.start()
    await world.clock.advance(100)
    assert (await world.run_of(kept.job.job_id)).state is RunState.SUCCEEDED
    run = await world.run_of(dropped.job.job_id)
    assert (run.state, run.skip_reason) == (RunState.SKIPPED, SkipReason.DEADLINE)
    await scheduler.drain(0)


async def test_runs_of_an_absent_handler_wait_and_run_once_it_is_there() -> None:
    world = World()
    world.serves = lambda target: target.name != "absent"
    scheduler = await world.start()
    waiting, live = world.job(in_ms=100, handler="absent"), world.job(in_ms=100, handler="live")
    await world.add(scheduler, waiting, live)
    await world.clock.advance(30_000)
    assert [call.work.target.name for call in world.calls] == ["live"]
    assert world.events.of(RunsUnserved)
    assert await world.runs(waiting.job.job_id) == []
    await scheduler.drain(0)
    world.serves = lambda target: True
    scheduler = await world.start()
    await world.clock.advance(100)
    assert (await world.run_of(waiting.job.job_id)).attempt == 1
    await scheduler.drain(0)


async def test_runs_that_wait_for_a_slot_are_not_taken_for_lost() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=1, handler_slots=1))
    world.behave = lambda work: None
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=100) for _ in range(10)))
    await world.clock.advance(60_000)
    assert len(scheduler.ready) == 9
    await scheduler.drain(0)


async def test_a_flood_that_fills_every_claim_batch_holds_up_neither_low_runs_nor_handlers() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=4_000, handler_slots=100))
    begun: list[bytes] = []

    def begin(work: Work) -> Outcome:
        begun.append(work.job_id)
        return OK

    world.behave = begin
    low, handler = world.job(lane=Lane.LOW), world.job(handler="h")
    await world.add(None, *(world.job() for _ in range(4_000)), low, handler)
    scheduler = await world.start()
    await world.clock.advance(1_000)
    assert len(begun) == 4_002
    assert max(begun.index(new.job.job_id) for new in (low, handler)) < 1_100
    await scheduler.drain(0)


async def test_overdue_timer_that_nobody_armed_is_found() -> None:
    world = World()
    scheduler = await world.start()
    await world.clock.advance(1_000)
    await world.add(None, world.job(in_ms=100))
    await world.clock.advance(15_000)
    assert len(world.calls) == 1
    await scheduler.drain(0)
