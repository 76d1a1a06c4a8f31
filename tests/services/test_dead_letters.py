"""Redriving and deleting dead letters."""

import pytest

from tickwheel.domain.errors import NotFound
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass

from .desk import MINUTE_MS, TENANT, Desk
from .world import REFUSED

TOO_EARLY = Outcome(outcome_class=OutcomeClass.RETRYABLE, http_status=425, error="answered 425")
"""From a host that lives: one that answers nothing would be left alone."""


async def failed_jobs(desk: Desk, count: int) -> list[tuple[bytes, int]]:
    ids = [await desk.once(0, retry_policy={"max_retries": 1, "initial_interval_sec": 1}) for _ in range(count)]
    desk.behave = lambda work: TOO_EARLY
    await desk.clock.advance(5_000)
    return [(job_id, (await desk.run_of(job_id)).scheduled_ms) for job_id in ids]


async def test_a_redriven_run_has_all_its_attempts_again() -> None:
    desk = Desk()
    async with desk.firing():
        ((job_id, scheduled_ms),) = await failed_jobs(desk, 1)
        assert len((await desk.dead_letters.list(TENANT, 10)).items) == 1
        done = await desk.dead_letters.redrive(TENANT, [(job_id, scheduled_ms)])
        assert (done.redriven, done.refused) == (((job_id, scheduled_ms),), ())
        await desk.clock.advance(5_000)
        assert await desk.status(job_id) == "FAILED"
        assert [call.work.attempt for call in desk.calls] == [1, 2, 1, 2]
        desk.behave = lambda work: OK
        await desk.dead_letters.redrive(TENANT, [(job_id, scheduled_ms)])
        await desk.clock.advance(1_000)
    assert await desk.status(job_id) == "SUCCEEDED"
    assert (await desk.dead_letters.list(TENANT, 10)).items == ()
    run = await desk.runs_of.get(TENANT, job_id, scheduled_ms)
    assert len(run.attempts) == 5


async def test_all_can_be_redriven_and_those_that_fail_again_stay() -> None:
    desk = Desk()
    async with desk.firing():
        keys = await failed_jobs(desk, 450)
        desk.behave = lambda work: REFUSED if work.job_id == keys[0][0] else OK
        done = await desk.dead_letters.redrive_all(TENANT)
        assert sorted(done.redriven) == sorted(keys)
        await desk.clock.advance(30_000)
        assert await desk.status(keys[0][0]) == "FAILED"
        assert {await desk.status(job_id) for job_id, _ in keys[1:]} == {"SUCCEEDED"}
    assert len((await desk.dead_letters.list(TENANT, 10)).items) == 1


async def test_a_run_that_did_not_fail_is_refused_and_the_others_go_on() -> None:
    desk = Desk()
    async with desk.firing():
        (dead,) = await failed_jobs(desk, 1)
        waiting = await desk.once(MINUTE_MS)
        odd = [(waiting, desk.now() + MINUTE_MS), (waiting, 5), (b"\0" * 16, 5)]
        done = await desk.dead_letters.redrive(TENANT, [*odd, dead])
    assert done.redriven == (dead,)
    assert [refusal.code for refusal in done.refused] == ["conflict", "not_found", "not_found"]


async def test_runs_of_a_cancelled_job_are_not_redriven() -> None:
    desk = Desk()
    desk.behave = lambda work: REFUSED
    async with desk.firing():
        job_id = await desk.cron("* * * * *")
        await desk.clock.advance(MINUTE_MS)
        (run,) = await desk.runs(job_id)
        assert run.state.name == "FAILED"
        await desk.jobs.cancel(TENANT, job_id)
        done = await desk.dead_letters.redrive(TENANT, [(job_id, run.scheduled_ms)])
    assert [refusal.code for refusal in done.refused] == ["conflict"]


async def test_another_tenant_sees_and_moves_nothing() -> None:
    desk = Desk()
    async with desk.firing():
        (dead,) = await failed_jobs(desk, 1)
        assert (await desk.dead_letters.list("other", 10)).items == ()
        assert [r.code for r in (await desk.dead_letters.redrive("other", [dead])).refused] == ["not_found"]
        with pytest.raises(NotFound):
            await desk.dead_letters.delete("other", *dead)


async def test_a_deleted_dead_letter_leaves_its_run_failed() -> None:
    desk = Desk()
    async with desk.firing():
        (dead,) = await failed_jobs(desk, 1)
        await desk.dead_letters.delete(TENANT, *dead)
        assert await desk.status(dead[0]) == "FAILED"
        with pytest.raises(NotFound):
            await desk.dead_letters.delete(TENANT, *dead)


async def test_the_runs_of_an_unknown_job_are_not_found() -> None:
    desk = Desk()
    with pytest.raises(NotFound):
        await desk.runs_of.list(TENANT, b"\0" * 16, 10)
    with pytest.raises(NotFound):
        await desk.runs_of.get(TENANT, b"\0" * 16, 5)
