"""A chain of timers that broke, whatever broke it, is found and mended."""

from tickwheel.ports.events import ChainMended
from tickwheel.ports.store import Change, FirstTimer, JobView
from tickwheel.services import chain_check
from tickwheel.services.changes.mend import mend
from tickwheel.services.changes.taken import Taken

from .desk import HOUR_MS, MINUTE_MS, TENANT, Desk

LAP_MS = 2 * chain_check.REST_MS


async def drop_timer(desk: Desk, job_id: bytes) -> None:
    await desk.store.change_job(TENANT, job_id, lambda view, now_ms: Change(drop_live=True))


async def test_a_job_that_lost_its_timer_goes_on_where_it_stopped() -> None:
    desk = Desk()
    hour_ms = (desk.now() // HOUR_MS + 1) * HOUR_MS
    job_id = await desk.cron("0 * * * *")
    await drop_timer(desk, job_id)
    desk.clock.step_ms(hour_ms - desk.now() + MINUTE_MS)
    async with desk.firing():
        await desk.clock.advance(LAP_MS)
        assert desk.events.of(ChainMended) == [ChainMended(job_id=job_id, live_count=0)]
        await desk.clock.advance(HOUR_MS)
    assert await desk.states(job_id) == [(hour_ms, "SUCCEEDED"), (hour_ms + HOUR_MS, "SUCCEEDED")]


async def test_of_two_timers_one_is_left_and_no_copy_of_the_other_fires() -> None:
    desk = Desk()
    async with desk.firing() as scheduler:
        hour_ms = (desk.now() // HOUR_MS + 1) * HOUR_MS
        job_id = await desk.cron("0 * * * *")

        def double(view: JobView, now_ms: int) -> Change:
            return Change(timer=FirstTimer(hour_ms + MINUTE_MS, hour_ms + MINUTE_MS, 1))

        await desk.store.change_job(TENANT, job_id, double)
        scheduler.arm(await desk.store.load_timers(0, 2**62, 10))
        await desk.clock.advance(LAP_MS)
        assert desk.events.of(ChainMended) == [ChainMended(job_id=job_id, live_count=2)]
        await desk.clock.advance(2 * HOUR_MS)
    assert [at_ms % HOUR_MS for at_ms, _ in await desk.states(job_id)] == [0, 0]


async def test_jobs_in_order_are_left_alone() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.cron("*/10 * * * *")
        held = await desk.cron("* * * * *")
        await desk.jobs.pause(TENANT, held)
        await desk.once(HOUR_MS)
        await desk.clock.advance(HOUR_MS)
    assert desk.events.of(ChainMended) == []
    assert (await desk.view(job_id)).job.version == 1


async def test_what_was_mended_meanwhile_is_not_changed_again() -> None:
    desk = Desk()
    job_id = await desk.cron("0 * * * *")
    assert mend(await desk.view(job_id), 0, desk.now(), Taken()) == Change()
    await desk.jobs.pause(TENANT, job_id)
    assert mend(await desk.view(job_id), 2, desk.now(), Taken()) == Change()
