"""Editing a job while it waits, is due, runs, is paused or is over."""

from collections.abc import Sequence

import pytest

from tickwheel.domain.errors import Conflict, InvalidRequest, NotFound, VersionMismatch
from tickwheel.domain.outcome import OK
from tickwheel.domain.requests.instants import format_instant, parse_instant
from tickwheel.domain.requests.patch import parse_patch
from tickwheel.ports.events import ChainMended
from tickwheel.ports.executor import Work
from tickwheel.ports.store import WorkDefinition

from .desk import DAY_MS, HOUR_MS, MINUTE_MS, TENANT, Desk
from .world import FAILED


def minute_after(now_ms: int, count: int = 1) -> int:
    return (now_ms // MINUTE_MS + count) * MINUTE_MS


@pytest.mark.pitfall(94)
async def test_an_edited_expression_replaces_the_pending_occurrence() -> None:
    desk = Desk()
    desk.clock.step_ms(parse_instant("2026-10-01T14:02:00Z") - desk.now())
    async with desk.firing():
        job_id = await desk.cron("* * * * *")
        view = await desk.edit(job_id, cron_expression="0 8 * * *")
        assert view.live is not None
        assert (view.live.due_ms, view.live.gen) == (parse_instant("2026-10-02T08:00:00Z"), 2)
        await desk.clock.advance(3 * MINUTE_MS)
        assert desk.calls == []
    assert await desk.live_timers(job_id) == 1


@pytest.mark.pitfall(97)
async def test_an_edited_schedule_does_not_fire_before_its_time() -> None:
    desk = Desk()
    desk.clock.step_ms(parse_instant("2026-10-01T14:02:00Z") - desk.now())
    async with desk.firing():
        job_id = await desk.cron("* * * * *")
        await desk.edit(job_id, cron_expression="0 15 * * *", start_at="2026-10-01T14:00:00Z")
        await desk.clock.advance(57 * MINUTE_MS)
        assert desk.calls == []
        await desk.clock.advance(2 * MINUTE_MS)
    assert await desk.states(job_id) == [(parse_instant("2026-10-01T15:00:00Z"), "SUCCEEDED")]


@pytest.mark.pitfall(98)
async def test_editing_one_job_does_not_move_another() -> None:
    desk = Desk()
    async with desk.firing():
        steady = await desk.cron("*/10 * * * *")
        other = await desk.cron("0 0 * * *")
        for minute in range(31):
            await desk.edit(other, job_name=f"n{minute}")
            await desk.clock.advance(MINUTE_MS)
    instants = [at for at, _ in await desk.states(steady)]
    assert len(instants) == 3
    assert all(at % (10 * MINUTE_MS) == 0 for at in instants)


@pytest.mark.pitfall(98)
async def test_editing_the_job_itself_all_the_time_keeps_its_grid() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.cron("*/10 * * * *")
        for minute in range(31):
            await desk.edit(job_id, payload=minute)
            await desk.clock.advance(MINUTE_MS)
    assert len(await desk.states(job_id)) == 3
    assert await desk.live_timers(job_id) == 1


async def test_an_edit_that_changes_nothing_writes_nothing() -> None:
    desk = Desk()
    job_id = await desk.cron("*/10 * * * *", payload={"a": 1}, tags=["x"])
    before = await desk.view(job_id)
    after = await desk.edit(job_id, cron_expression="*/10 * * * *", tags=["x"], priority="DEFAULT")
    assert after == before
    assert desk.owner.armed[1:] == []


async def test_if_match_refuses_another_version() -> None:
    desk = Desk()
    job_id = await desk.cron("*/10 * * * *")
    patch = parse_patch(b'{"priority":"LOW"}')
    assert (await desk.jobs.edit(TENANT, job_id, patch, 1)).job.version == 2
    with pytest.raises(VersionMismatch):
        await desk.jobs.edit(TENANT, job_id, patch, 1)
    with pytest.raises(VersionMismatch):
        await desk.jobs.pause(TENANT, job_id, 1)
    assert (await desk.jobs.pause(TENANT, job_id, 2)).job.version == 3


async def test_an_occurrence_that_is_due_is_not_lost_by_an_edit() -> None:
    desk = Desk()
    job_id = await desk.cron("*/10 * * * *", payload="old")
    view = await desk.view(job_id)
    assert view.live is not None
    due_ms = view.live.due_ms
    desk.clock.step_ms(due_ms + 3_000 - desk.now())
    await desk.edit(job_id, payload="new")
    async with desk.firing():
        await desk.clock.advance(1_000)
    assert await desk.states(job_id) == [(due_ms, "SUCCEEDED")]
    assert [call.work.payload for call in desk.calls] == [b'"new"']


async def test_a_refused_edit_changes_nothing() -> None:
    desk = Desk()
    job_id = await desk.cron("*/10 * * * *")
    before = await desk.view(job_id)
    for members in (
        {"cron_expression": "0 0 30 2 *"},
        {"execute_at": "2030-01-01T00:00:00Z"},
        {"end_at": "2001-01-01T00:00:00Z"},
    ):
        with pytest.raises(InvalidRequest):
            await desk.edit(job_id, **members)
    assert await desk.view(job_id) == before


async def test_another_tenant_cannot_edit() -> None:
    desk = Desk()
    job_id = await desk.cron("*/10 * * * *")
    with pytest.raises(NotFound):
        await desk.jobs.edit("other", job_id, parse_patch(b'{"priority":"LOW"}'))


async def test_moving_a_one_off_supersedes_the_old_instant() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(5_000, payload="a")
        old_ms = desk.now() + 5_000
        view = await desk.edit(job_id, delay_seconds=8)
        assert view.job.scheduled_ms == old_ms + 3_000
        await desk.clock.advance(6_000)
        assert desk.calls == []
        await desk.clock.advance(3_000)
        assert await desk.states(job_id) == [(old_ms, "SUPERSEDED"), (old_ms + 3_000, "SUCCEEDED")]
    assert await desk.status(job_id) == "SUCCEEDED"


async def test_a_one_off_moved_there_and_back_still_fires() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(60_000)
        first_ms = desk.now() + 60_000
        for ahead_ms in (90_000, 120_000, 60_000, 90_000, 60_000):
            await desk.edit(job_id, execute_at=format_instant(first_ms - 60_000 + ahead_ms))
        assert await desk.status(job_id) == "SCHEDULED"
        await desk.clock.advance(61_000)
        assert len(desk.calls) == 1
        assert desk.calls[0].started_ms - first_ms < 1_000
        await desk.clock.advance(120_000)
    assert len(desk.calls) == 1
    assert await desk.live_timers(job_id) == 0


async def test_moving_a_one_off_into_the_past_runs_it_at_once() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(DAY_MS)
        await desk.edit(job_id, execute_at="2001-01-01T00:00:00Z")
        await desk.clock.advance(100)
    assert len(desk.calls) == 1


async def test_a_one_off_runs_as_it_was_last_edited() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(5_000, payload="one")
        for word in ("two", "three"):
            await desk.edit(job_id, payload=word)
        await desk.clock.advance(6_000)
    assert [call.work.payload for call in desk.calls] == [b'"three"']
    assert await desk.status(job_id) == "SUCCEEDED"
    assert await desk.live_timers(job_id) == 0


async def test_an_edited_one_off_can_still_be_moved() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(5_000, payload="one")
        await desk.edit(job_id, payload="two")
        await desk.edit(job_id, delay_seconds=10)
        await desk.clock.advance(6_000)
        assert desk.calls == []
        await desk.clock.advance(5_000)
    assert [call.work.payload for call in desk.calls] == [b'"two"']


async def test_edits_of_a_running_job_apply_from_the_next_attempt() -> None:
    desk = Desk()
    desk.behave = lambda work: None
    async with desk.firing():
        job_id = await desk.once(0, payload="one", retry_policy={"initial_interval_sec": 2})
        await desk.clock.advance(500)
        with pytest.raises(Conflict, match="running"):
            await desk.edit(job_id, delay_seconds=60)
        await desk.edit(job_id, payload="two")
        desk.finish_all(FAILED)
        await desk.clock.advance(50)
        assert await desk.status(job_id) == "SCHEDULED"
        with pytest.raises(Conflict, match="waiting for a retry"):
            await desk.edit(job_id, delay_seconds=60)
        await desk.clock.advance(3_000)
    assert [call.work.payload for call in desk.calls] == [b'"one"', b'"two"']


@pytest.mark.parametrize("ending", ["run", "cancel"])
async def test_what_is_over_cannot_be_edited(ending: str) -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(1_000)
        if ending == "cancel":
            await desk.jobs.cancel(TENANT, job_id)
        await desk.clock.advance(2_000)
        for members in ({"payload": 1}, {"delay_seconds": 60}):
            with pytest.raises(Conflict):
                await desk.edit(job_id, **members)


async def test_a_cancelled_recurring_job_cannot_be_edited() -> None:
    desk = Desk()
    job_id = await desk.cron("* * * * *")
    await desk.jobs.cancel(TENANT, job_id)
    with pytest.raises(Conflict, match="CANCELLED"):
        await desk.edit(job_id, cron_expression="*/5 * * * *")


async def test_a_finished_schedule_goes_on_when_its_end_is_moved() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.cron("* * * * *", end_at=format_instant(minute_after(desk.now(), 2)))
        await desk.clock.advance(3 * MINUTE_MS)
        assert await desk.status(job_id) == "COMPLETED"
        await desk.edit(job_id, end_at=None)
        assert await desk.status(job_id) == "SCHEDULED"
        await desk.clock.advance(2 * MINUTE_MS)
    assert len(await desk.states(job_id)) == 3


async def test_a_cancelled_occurrence_stays_cancelled_through_edits() -> None:
    desk = Desk()
    job_id = await desk.cron("*/10 * * * *")
    cancelled = []
    for _ in range(3):
        live = (await desk.view(job_id)).live
        assert live is not None
        cancelled.append(live.scheduled_ms)
        await desk.runs_of.cancel(TENANT, job_id, live.scheduled_ms)
    await desk.edit(job_id, cron_expression="*/5 * * * *")
    await desk.edit(job_id, cron_expression="*/10 * * * *")
    view = await desk.view(job_id)
    assert view.live is not None
    assert view.live.scheduled_ms == cancelled[-1] + 10 * MINUTE_MS
    async with desk.firing():
        await desk.clock.advance(50 * MINUTE_MS)
    words = dict(await desk.states(job_id))
    assert [words.pop(at) for at in cancelled] == ["CANCELLED"] * 3
    assert set(words.values()) == {"SUCCEEDED"}
    assert await desk.live_timers(job_id) == 1


async def test_an_edit_tells_the_owner_to_forget_what_it_holds() -> None:
    desk = Desk()
    job_id = await desk.once(5_000)
    await desk.edit(job_id, payload=1)
    assert desk.owner.forgotten == [job_id]


async def test_an_attempt_is_not_started_with_work_fetched_before_the_edit() -> None:
    seen: list[Work] = []
    desk = Desk()
    async with desk.firing():
        ids = [await desk.once(5_000, payload="old") for _ in range(20)]
        await desk.clock.advance(4_990)
        for job_id in ids:
            await desk.edit(job_id, payload="new")
        await desk.clock.advance(1_000)
        seen += [call.work for call in desk.calls]
    assert [work.payload for work in seen] == [b'"new"'] * 20


async def test_another_kind_of_target_is_served_by_its_own_executor() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(5_000)
        await desk.edit(job_id, target={"type": "HANDLER", "name": "x"}, priority="CRITICAL")
        rows = await desk.store.load_timers(0, 2**62, 10)
        flags = [int(flag) for flag in rows["flags"]]
        assert flags == [(await desk.view(job_id)).job.timer_flags]
        await desk.clock.advance(6_000)
    webhooks, handlers = desk.executors
    assert (len(webhooks.calls), len(handlers.calls)) == (0, 1)


async def test_the_kind_of_target_stays_while_a_run_is_open() -> None:
    desk = Desk()
    desk.behave = lambda work: None
    async with desk.firing():
        once, schedule = await desk.once(0), await desk.cron("* * * * *")
        await desk.clock.advance(MINUTE_MS)
        for job_id in (once, schedule):
            with pytest.raises(Conflict, match=r"target\.type"):
                await desk.edit(job_id, target={"type": "HANDLER", "name": "x"})
            await desk.edit(job_id, target={"endpoint": "https://b.example/y"})


async def test_an_occurrence_cancelled_ahead_does_not_end_the_chain_of_an_edited_job() -> None:
    desk = Desk()
    hour_ms = (desk.now() // HOUR_MS + 1) * HOUR_MS
    desk.clock.step_ms(hour_ms - HOUR_MS // 2 - desk.now())
    async with desk.firing():
        job_id = await desk.cron("0 * * * *")
        await desk.runs_of.cancel(TENANT, job_id, hour_ms)
        await desk.edit(job_id, cron_expression="*/15 * * * *")
        await desk.clock.advance(HOUR_MS)
    words = ["SUCCEEDED", "CANCELLED", "SUCCEEDED", "SUCCEEDED"]
    assert desk.events.of(ChainMended) == []
    grid = [hour_ms + (n - 1) * 15 * MINUTE_MS for n in range(4)]
    assert await desk.states(job_id) == list(zip(grid, words, strict=True))


async def test_an_edited_one_off_still_keeps_its_deadline() -> None:
    desk = Desk()
    job_id = await desk.once(MINUTE_MS, deadline_seconds=10)
    await desk.edit(job_id, payload=1)
    desk.clock.step_ms(2 * MINUTE_MS)
    async with desk.firing():
        await desk.clock.advance(100)
    assert desk.calls == []
    assert [word for _, word in await desk.states(job_id)] == ["DEADLINE"]


async def test_a_retry_runs_as_edited_though_its_work_was_read_before_the_edit() -> None:
    desk = Desk()
    desk.behave = lambda work: FAILED if work.attempt == 1 else OK
    load, edits = desk.memory.load_work, list[str]()

    async def edit_after_the_read(job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        works = await load(job_ids)
        if len(desk.calls) == 1 and not edits:
            edits.append("new")
            await desk.edit(job_id, payload="new")
        return works

    desk.memory.load_work = edit_after_the_read  # type: ignore[method-assign]
    async with desk.firing():
        job_id = await desk.once(100, payload="old")
        await desk.clock.advance(MINUTE_MS)
    assert edits == ["new"]
    assert [call.work.payload for call in desk.calls] == [b'"old"', b'"new"']
