"""Pause and resume."""

import pytest

from tickwheel.domain.errors import Conflict
from tickwheel.domain.run import IN_FLIGHT

from .desk import DAY_MS, MINUTE_MS, SECOND_MS, TENANT, Desk
from .world import FAILED


async def test_a_paused_recurring_job_starts_nothing() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.cron("* * * * *")
        view = await desk.jobs.pause(TENANT, job_id)
        assert view.live is None
        await desk.clock.advance(5 * MINUTE_MS)
    assert desk.calls == []
    assert await desk.status(job_id) == "PAUSED"
    assert await desk.live_timers(job_id) == 0


async def test_pause_lasts_over_a_restart() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.cron("* * * * *")
        await desk.jobs.pause(TENANT, job_id)
    async with desk.firing():
        await desk.clock.advance(5 * MINUTE_MS)
    assert desk.calls == []


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("fire_once", ["SUCCEEDED", "PAUSED", "PAUSED", "SUCCEEDED"]),
        ("fire_all", ["SUCCEEDED"] * 4),
        ("skip", ["PAUSED", "PAUSED", "SUCCEEDED", "SUCCEEDED"]),
    ],
)
async def test_resuming_settles_what_came_due_in_the_pause(policy: str, words: list[str]) -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.cron("*/10 * * * *", catch_up={"policy": policy})
        await desk.jobs.pause(TENANT, job_id)
        paused_ms = desk.now()
        third_ms = (paused_ms // (10 * MINUTE_MS) + 3) * 10 * MINUTE_MS
        await desk.clock.advance(third_ms + 30 * SECOND_MS - paused_ms)
        assert await desk.states(job_id) == []
        await desk.jobs.resume(TENANT, job_id)
        await desk.clock.advance(10 * MINUTE_MS)
    states = await desk.states(job_id)
    assert [word for _, word in states] == words
    assert [at for at, _ in states] == [third_ms + i * 10 * MINUTE_MS for i in range(-2, 2)]
    assert await desk.live_timers(job_id) == 1


async def test_a_pause_without_any_occurrence_leaves_no_trace() -> None:
    desk = Desk()
    job_id = await desk.cron("0 0 1 1 *")
    before = (await desk.view(job_id)).live
    await desk.jobs.pause(TENANT, job_id)
    view = await desk.jobs.resume(TENANT, job_id)
    assert view.live is not None
    assert before is not None
    assert (view.live.due_ms, view.live.gen) == (before.due_ms, 3)
    assert await desk.states(job_id) == []


async def test_what_is_due_at_the_pause_is_settled_first() -> None:
    desk = Desk()
    job_id = await desk.cron("*/10 * * * *")
    live = (await desk.view(job_id)).live
    assert live is not None
    desk.clock.step_ms(live.due_ms + 3_000 - desk.now())
    await desk.jobs.pause(TENANT, job_id)
    async with desk.firing():
        await desk.clock.advance(15 * MINUTE_MS)
    assert await desk.states(job_id) == [(live.due_ms, "SUCCEEDED")]


async def test_editing_a_paused_job_keeps_it_paused_and_runs_nothing_of_the_past() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.cron("*/10 * * * *")
        await desk.jobs.pause(TENANT, job_id)
        await desk.clock.advance(25 * MINUTE_MS)
        await desk.edit(job_id, cron_expression="*/7 * * * *")
        assert await desk.status(job_id) == "PAUSED"
        edited_ms = desk.now()
        await desk.clock.advance(SECOND_MS)
        await desk.jobs.resume(TENANT, job_id)
        await desk.clock.advance(8 * MINUTE_MS)
    states = await desk.states(job_id)
    assert [word for at, word in states if at <= edited_ms] == ["PAUSED"] * 2
    assert all(word == "SUCCEEDED" and at % (7 * MINUTE_MS) is not None for at, word in states if at > edited_ms)
    assert any(at > edited_ms for at, _ in states)


async def test_an_occurrence_cancelled_before_the_pause_stays_cancelled() -> None:
    desk = Desk()
    job_id = await desk.cron("*/10 * * * *", catch_up={"policy": "fire_all"})
    live = (await desk.view(job_id)).live
    assert live is not None
    await desk.runs_of.cancel(TENANT, job_id, live.scheduled_ms)
    await desk.jobs.pause(TENANT, job_id)
    async with desk.firing():
        await desk.clock.advance(live.due_ms + 10 * MINUTE_MS - desk.now() + SECOND_MS)
        await desk.jobs.resume(TENANT, job_id)
        await desk.clock.advance(SECOND_MS)
    assert [word for _, word in await desk.states(job_id)] == ["CANCELLED", "SUCCEEDED"]


async def test_both_are_repeatable() -> None:
    desk = Desk()
    for job_id in (await desk.cron("* * * * *"), await desk.once(DAY_MS)):
        paused = await desk.jobs.pause(TENANT, job_id)
        assert await desk.jobs.pause(TENANT, job_id) == paused
        resumed = await desk.jobs.resume(TENANT, job_id)
        assert await desk.jobs.resume(TENANT, job_id) == resumed
        assert resumed.job.version == 3


async def test_a_paused_one_off_runs_when_it_is_resumed() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(5_000)
        await desk.jobs.pause(TENANT, job_id)
        await desk.clock.advance(60_000)
        assert desk.calls == []
        assert await desk.status(job_id) == "PAUSED"
        await desk.jobs.resume(TENANT, job_id)
        await desk.clock.advance(100)
    assert await desk.status(job_id) == "SUCCEEDED"


async def test_a_one_off_resumed_in_time_runs_at_its_time() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(60_000)
        due_ms = desk.now() + 60_000
        for _ in range(3):
            await desk.jobs.pause(TENANT, job_id)
            await desk.jobs.resume(TENANT, job_id)
        await desk.clock.advance(61_000)
    assert len(desk.calls) == 1
    assert 0 <= desk.calls[0].started_ms - due_ms < 1_000


async def test_a_one_off_resumed_after_its_deadline_is_skipped() -> None:
    desk = Desk()
    job_id = await desk.once(5_000, deadline_seconds=10)
    await desk.jobs.pause(TENANT, job_id)
    desk.clock.step_ms(15_001)
    await desk.jobs.resume(TENANT, job_id)
    assert [word for _, word in await desk.states(job_id)] == ["DEADLINE"]


async def test_a_paused_one_off_can_be_moved() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(5_000)
        await desk.jobs.pause(TENANT, job_id)
        await desk.edit(job_id, delay_seconds=20)
        await desk.clock.advance(10_000)
        await desk.jobs.resume(TENANT, job_id)
        await desk.clock.advance(9_000)
        assert desk.calls == []
        await desk.clock.advance(2_000)
    assert [word for _, word in await desk.states(job_id)] == ["SUPERSEDED", "SUCCEEDED"]


async def test_a_one_off_that_waits_for_a_retry_can_be_paused() -> None:
    desk = Desk()
    desk.behave = lambda work: FAILED
    async with desk.firing():
        job_id = await desk.once(0, retry_policy={"initial_interval_sec": 60})
        await desk.clock.advance(50)
        await desk.jobs.pause(TENANT, job_id)
        await desk.clock.advance(2 * MINUTE_MS)
        assert len(desk.calls) == 1
        await desk.jobs.resume(TENANT, job_id)
        await desk.clock.advance(50)
        assert [call.work.attempt for call in desk.calls] == [1, 2]


async def test_a_running_one_off_cannot_be_paused() -> None:
    desk = Desk()
    desk.behave = lambda work: None
    async with desk.firing():
        job_id = await desk.once(0)
        await desk.clock.advance(500)
        assert (await desk.run_of(job_id)).state in IN_FLIGHT
        with pytest.raises(Conflict, match="running"):
            await desk.jobs.pause(TENANT, job_id)


@pytest.mark.parametrize("how", ["pause", "resume"])
async def test_what_is_over_can_be_neither(how: str) -> None:
    desk = Desk()
    async with desk.firing():
        done, cancelled, schedule = await desk.once(0), await desk.once(DAY_MS), await desk.cron("* * * * *")
        for job_id in (cancelled, schedule):
            await desk.jobs.cancel(TENANT, job_id)
        await desk.clock.advance(100)
        for job_id in (done, cancelled, schedule):
            with pytest.raises(Conflict):
                await getattr(desk.jobs, how)(TENANT, job_id)


async def test_runs_under_way_go_on_through_a_pause() -> None:
    desk = Desk()
    desk.behave = lambda work: None
    async with desk.firing():
        job_id = await desk.cron("* * * * *")
        await desk.clock.advance(MINUTE_MS)
        await desk.jobs.pause(TENANT, job_id)
        assert desk.owner.aborted == []
        desk.finish_all()
        await desk.clock.advance(100)
    assert [word for _, word in await desk.states(job_id)] == ["SUCCEEDED"]


async def test_a_pause_does_not_bring_back_what_was_coalesced_before_it() -> None:
    desk = Desk()
    job_id = await desk.cron("* * * * *")
    desk.clock.step_ms(10 * MINUTE_MS)
    async with desk.firing():
        await desk.clock.advance(100)
        ran = await desk.states(job_id)
        await desk.jobs.pause(TENANT, job_id)
        await desk.clock.advance(100)
        await desk.jobs.resume(TENANT, job_id)
        await desk.clock.advance(100)
    assert len(ran) == 1
    assert await desk.states(job_id) == ran


async def test_catching_up_after_a_pause_does_not_overlap_the_run_under_way() -> None:
    desk = Desk()
    desk.behave = lambda work: None
    async with desk.firing():
        job_id = await desk.cron("* * * * *", overlap="skip")
        await desk.clock.advance(MINUTE_MS)
        await desk.jobs.pause(TENANT, job_id)
        await desk.clock.advance(5 * MINUTE_MS)
        await desk.jobs.resume(TENANT, job_id)
        await desk.clock.advance(SECOND_MS)
    assert [word for _, word in await desk.states(job_id)][:2] == ["RUNNING", "OVERLAP"]
    assert len(desk.calls) == 1
