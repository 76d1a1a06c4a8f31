"""Cancel and delete, of jobs and of single runs."""

import pytest

from tickwheel.domain.errors import Conflict, NotFound
from tickwheel.domain.outcome import OK
from tickwheel.services.job_status import compact_status, next_run_ms

from .desk import DAY_MS, MINUTE_MS, TENANT, Desk
from .world import FAILED


async def test_a_cancelled_one_off_does_not_run() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(1_000)
        await desk.jobs.cancel(TENANT, job_id)
        await desk.clock.advance(5_000)
    assert desk.calls == []
    assert await desk.status(job_id) == "CANCELLED"
    assert [word for _, word in await desk.states(job_id)] == ["CANCELLED"]


async def test_nothing_succeeds_after_a_cancel() -> None:
    desk = Desk()
    desk.behave = lambda work: None
    async with desk.firing():
        once, schedule = await desk.once(0), await desk.cron("* * * * *")
        await desk.clock.advance(MINUTE_MS)
        for executor in desk.executors:
            executor.obeys_cancel = False
        for job_id in (once, schedule):
            await desk.jobs.cancel(TENANT, job_id)
        desk.finish_all(OK)
        await desk.clock.advance(5 * MINUTE_MS)
    for job_id in (once, schedule):
        assert [word for _, word in await desk.states(job_id)] == ["CANCELLED"]
        assert await desk.status(job_id) == "CANCELLED"
    assert {job_id for job_id, _ in desk.owner.aborted} == {once, schedule}


async def test_a_retry_does_not_survive_a_cancel() -> None:
    desk = Desk()
    desk.behave = lambda work: FAILED
    async with desk.firing():
        job_id = await desk.once(0)
        await desk.clock.advance(50)
        await desk.jobs.cancel(TENANT, job_id)
        await desk.clock.advance(DAY_MS // 24)
    assert len(desk.calls) == 1
    assert await desk.live_timers(job_id) == 0


async def test_cancelling_is_repeatable() -> None:
    desk = Desk()
    for job_id in (await desk.once(DAY_MS), await desk.cron("* * * * *")):
        first = await desk.jobs.cancel(TENANT, job_id)
        assert await desk.jobs.cancel(TENANT, job_id) == first
        assert compact_status(first) == "CANCELLED"
        assert next_run_ms(first) is None


async def test_what_ended_otherwise_cannot_be_cancelled() -> None:
    desk = Desk()
    desk.behave = lambda work: OK if work.payload else FAILED
    async with desk.firing():
        done = await desk.once(0, payload=1)
        failed = await desk.once(0, retry_policy={"max_retries": 0})
        await desk.clock.advance(100)
        assert [await desk.status(job_id) for job_id in (done, failed)] == ["SUCCEEDED", "FAILED"]
        for job_id in (done, failed):
            with pytest.raises(Conflict):
                await desk.jobs.cancel(TENANT, job_id)
            (run,) = await desk.runs(job_id)
            with pytest.raises(Conflict):
                await desk.runs_of.cancel(TENANT, job_id, run.scheduled_ms)


async def test_a_paused_one_off_can_be_cancelled() -> None:
    desk = Desk()
    job_id = await desk.once(5_000)
    await desk.jobs.pause(TENANT, job_id)
    await desk.jobs.cancel(TENANT, job_id)
    assert [word for _, word in await desk.states(job_id)] == ["CANCELLED"]


@pytest.mark.pitfall(95)
async def test_deleting_frees_name_and_key() -> None:
    desk = Desk()
    async with desk.firing():
        first = (await desk.put("sync", schedule_type="CRON", cron_expression="*/3 * * * *")).view.job.job_id
        await desk.jobs.delete(TENANT, first)
        await desk.clock.advance(100)
        put = await desk.put("sync", schedule_type="CRON", cron_expression="*/3 * * * *")
        assert put.outcome == "created"
        await desk.clock.advance(4 * MINUTE_MS)
        assert [word for _, word in await desk.states(put.view.job.job_id)] == ["SUCCEEDED"]

        keyed = await desk.create(schedule_type="INSTANT", idempotency_key="k")
        await desk.jobs.delete(TENANT, keyed.job_id)
        again = await desk.create(schedule_type="INSTANT", idempotency_key="k")
        assert again.job_id != keyed.job_id


async def test_a_deleted_job_is_gone_and_runs_no_more() -> None:
    desk = Desk()
    async with desk.firing():
        once, schedule = await desk.once(1_000), await desk.cron("* * * * *")
        for job_id in (once, schedule):
            await desk.jobs.delete(TENANT, job_id)
            with pytest.raises(NotFound):
                await desk.view(job_id)
            with pytest.raises(NotFound):
                await desk.jobs.delete(TENANT, job_id)
        await desk.clock.advance(5 * MINUTE_MS)
    assert desk.calls == []


async def test_a_running_job_can_be_deleted() -> None:
    desk = Desk()
    desk.behave = lambda work: None
    async with desk.firing():
        job_id = await desk.once(0)
        await desk.clock.advance(100)
        await desk.jobs.delete(TENANT, job_id)
        await desk.clock.advance(100)
    assert len(desk.owner.aborted) == 1
    assert [word for _, word in await desk.states(job_id)] == ["CANCELLED"]


async def test_cancelling_the_next_occurrence_goes_on_with_the_one_after() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.cron("* * * * *")
        live = (await desk.view(job_id)).live
        assert live is not None
        run = await desk.runs_of.cancel(TENANT, job_id, live.scheduled_ms)
        assert run.state.name == "CANCELLED"
        assert await desk.runs_of.cancel(TENANT, job_id, live.scheduled_ms) == run
        await desk.clock.advance(live.due_ms + MINUTE_MS + 100 - desk.now())
    assert [word for _, word in await desk.states(job_id)] == ["CANCELLED", "SUCCEEDED"]
    assert await desk.live_timers(job_id) == 1


async def test_only_the_next_occurrence_can_be_cancelled_ahead() -> None:
    desk = Desk()
    job_id = await desk.cron("* * * * *")
    live = (await desk.view(job_id)).live
    assert live is not None
    with pytest.raises(Conflict):
        await desk.runs_of.cancel(TENANT, job_id, live.scheduled_ms + MINUTE_MS)
    with pytest.raises(NotFound):
        await desk.runs_of.cancel(TENANT, job_id, live.scheduled_ms - MINUTE_MS)
    with pytest.raises(NotFound):
        await desk.runs_of.cancel("other", job_id, live.scheduled_ms)


async def test_cancelling_the_last_occurrence_completes_the_job() -> None:
    desk = Desk()
    job_id = await desk.cron("0 0 1 1 *", end_at="2027-01-02T00:00:00Z")
    live = (await desk.view(job_id)).live
    assert live is not None
    await desk.runs_of.cancel(TENANT, job_id, live.scheduled_ms)
    assert await desk.status(job_id) == "COMPLETED"
    with pytest.raises(Conflict):
        await desk.jobs.cancel(TENANT, job_id)


async def test_cancelling_one_running_occurrence_leaves_the_schedule_alone() -> None:
    desk = Desk()
    desk.behave = lambda work: None
    async with desk.firing():
        job_id = await desk.cron("* * * * *")
        await desk.clock.advance(MINUTE_MS)
        (run,) = await desk.runs(job_id)
        await desk.runs_of.cancel(TENANT, job_id, run.scheduled_ms)
        assert desk.owner.aborted == [(job_id, run.scheduled_ms)]
        desk.behave = lambda work: OK
        await desk.clock.advance(MINUTE_MS)
    assert [word for _, word in await desk.states(job_id)] == ["CANCELLED", "SUCCEEDED"]


async def test_cancelling_the_run_of_a_one_off_cancels_the_job() -> None:
    desk = Desk()
    job_id = await desk.once(5_000)
    await desk.runs_of.cancel(TENANT, job_id, desk.now() + 5_000)
    assert (await desk.view(job_id)).job.state.name == "CANCELLED"
