"""Faults that users of other schedulers reported, in small; the long forms run in the benchmarks."""

import numpy as np
import pytest

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.job import Overlap
from tickwheel.domain.outcome import OK
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.ports.events import ScheduleFailing
from tickwheel.services import claim_preparation, plans
from tickwheel.services.scheduler import SchedulerSettings

from .world import FAILED, World

MINUTE_MS = 60_000


@pytest.mark.pitfall(20)
async def test_with_no_free_worker_for_half_an_hour_at_most_one_occurrence_waits() -> None:
    world = World()
    world.behave = lambda work: None
    scheduler = await world.start()
    first_ms = world.next_minute_ms()
    new = world.job(cron="* * * * *", first_ms=first_ms, overlap=Overlap.BUFFER_ONE)
    (job_id,) = await world.add(scheduler, new)
    await world.clock.advance(30 * MINUTE_MS)
    runs = await world.runs(job_id)
    assert [run.state for run in runs].count(RunState.SCHEDULED) == 1
    assert [run.state for run in runs].count(RunState.RUNNING) == 1
    assert {run.skip_reason for run in runs[2:]} == {SkipReason.OVERLAP}
    await scheduler.drain(0)


@pytest.mark.pitfall(23)
async def test_delay_far_longer_than_the_lease_makes_one_run() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=16, handler_slots=16, lease_ms=30_000))
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, world.job(in_ms=10 * MINUTE_MS))
    await world.clock.advance(20 * MINUTE_MS)
    assert len(world.calls) == 1
    assert (await world.run_of(job_id)).attempt == 1
    await scheduler.drain(0)


@pytest.mark.pitfall(32)
async def test_schedule_that_cannot_be_planned_is_told_and_goes_on_once_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    scheduler = await world.start()
    first_ms = world.next_minute_ms()
    broken = world.job(cron="* * * * *", first_ms=first_ms)
    healthy = world.job(in_ms=3 * MINUTE_MS)

    def fail(*args: object) -> None:
        raise TickwheelError("an internal fault")

    with monkeypatch.context() as patched:
        patched.setattr(plans, "plan_occurrence", fail)
        await world.add(scheduler, broken, healthy)
        await world.clock.advance(4 * MINUTE_MS)
        assert len(world.events.of(ScheduleFailing)) >= 2
        assert [call.work.job_id for call in world.calls] == [healthy.job.job_id]
        view = await world.memory.get_job("default", broken.job.job_id)
        assert view is not None
        assert view.live is not None
        assert view.live.due_ms < world.clock.now_ms() - 2 * MINUTE_MS  # shown as overdue
    await world.clock.advance(2 * MINUTE_MS)
    states = {run.state for run in await world.runs(broken.job.job_id)}
    assert states == {RunState.SUCCEEDED}
    await scheduler.drain(0)


@pytest.mark.pitfall(52)
async def test_claims_are_bounded_however_much_is_due_at_once() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=5_000, handler_slots=16))
    sizes: list[int] = []
    original = world.memory.claim

    async def counting(batch: np.ndarray, now_ms: int, lease_ms: int, *, queued: bool = False) -> np.ndarray:
        sizes.append(len(batch))
        return await original(batch, now_ms, lease_ms, queued=queued)

    world.memory.claim = counting  # type: ignore[method-assign]
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=100) for _ in range(3_000)))
    await world.clock.advance(1_000)
    assert len(world.calls) == 3_000
    assert max(sizes) <= claim_preparation.BATCH_TIMERS
    await scheduler.drain(0)


@pytest.mark.pitfall(56)
async def test_jobs_of_an_absent_handler_and_failing_ones_do_not_hold_up_live_ones() -> None:
    world = World()
    world.serves = lambda target: target.name != "absent"
    world.behave = lambda work: FAILED if work.target.name == "failing" else OK
    scheduler = await world.start()
    absent = [world.job(in_ms=100, handler="absent") for _ in range(2_000)]
    failing = [world.job(in_ms=100, handler="failing") for _ in range(200)]
    live = [world.job(in_ms=200, handler="live") for _ in range(200)]
    await world.add(scheduler, *absent, *failing, *live)
    await world.clock.advance(300)
    started = [call for call in world.calls if call.work.target.name == "live"]
    assert len(started) == 200
    assert not len(scheduler.ready)
    await scheduler.drain(0)


@pytest.mark.pitfall(58)
async def test_lateness_does_not_grow_under_a_steady_load() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=64, handler_slots=16))
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=100 + n // 2) for n in range(4_000)))
    await world.clock.advance(2_200)
    due = {call.work.run_id: call.work.scheduled_ms for call in world.calls}
    late = [call.started_ms - due[call.work.run_id] for call in world.calls]
    assert len(late) == 4_000
    assert max(late[-400:]) <= max(late[:400]) + 5
    await scheduler.drain(0)


@pytest.mark.pitfall(92)
async def test_job_cancelled_while_nobody_runs_does_not_run_later() -> None:
    from tickwheel.ports.store import Change, LedgerWrite

    world = World()
    new = world.job(in_ms=1_000)
    await world.add(None, new)
    scheduled_ms = new.job.scheduled_ms
    assert scheduled_ms is not None
    cancel = Change(drop_live=True, runs=(LedgerWrite(scheduled_ms, RunState.CANCELLED),))
    await world.store.change_job("default", new.job.job_id, lambda view, now_ms: cancel)
    await world.clock.advance(60_000)
    scheduler = await world.start()
    await world.clock.advance(60_000)
    assert world.calls == []
    assert (await world.run_of(new.job.job_id)).state is RunState.CANCELLED
    await scheduler.drain(0)
