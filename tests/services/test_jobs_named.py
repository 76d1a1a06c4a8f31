"""Putting jobs by name."""

import asyncio

import pytest

from tickwheel.domain.errors import Conflict, InvalidRequest
from tickwheel.domain.requests.definition import REDACTED
from tickwheel.domain.requests.instants import format_instant
from tickwheel.services.jobs import PutOutcome

from .desk import MINUTE_MS, TENANT, WEBHOOK, Desk

MINUTELY = {"schedule_type": "CRON", "cron_expression": "* * * * *"}


@pytest.mark.pitfall(28)
async def test_putting_on_every_start_leaves_one_next_occurrence() -> None:
    desk = Desk()
    for start in range(10):
        async with desk.firing():
            put = await desk.put("sync", **MINUTELY)
            assert put.outcome is (PutOutcome.UNCHANGED if start else PutOutcome.CREATED)
            await desk.clock.advance(20_000)
    job_id = put.view.job.job_id
    assert put.view.job.version == 1
    assert await desk.live_timers(job_id) == 1
    assert (await desk.store.counts()).jobs == 1
    assert [word for _, word in await desk.states(job_id)] == ["SUCCEEDED"] * 3


@pytest.mark.pitfall(28)
async def test_putting_at_once_makes_one_job() -> None:
    desk = Desk()
    puts = await asyncio.gather(*(desk.put("sync", **MINUTELY) for _ in range(10)))
    assert len({put.view.job.job_id for put in puts}) == 1
    assert [put.outcome for put in puts].count(PutOutcome.CREATED) == 1


@pytest.mark.pitfall(94)
async def test_another_definition_replaces_the_stored_one() -> None:
    desk = Desk()
    async with desk.firing():
        first = await desk.put("sync", **MINUTELY, payload=1)
        second = await desk.put("sync", schedule_type="CRON", cron_expression="0 0 1 1 *", payload=2)
        assert (second.outcome, second.view.job.version) == (PutOutcome.CHANGED, 2)
        assert second.view.job.job_id == first.view.job.job_id
        await desk.clock.advance(3 * MINUTE_MS)
    assert desk.calls == []
    assert await desk.live_timers(first.view.job.job_id) == 1


@pytest.mark.pitfall(16)
async def test_a_hidden_header_value_keeps_the_stored_one() -> None:
    desk = Desk()
    target = WEBHOOK | {"headers": {"Authorization": "Bearer s3cret"}}
    await desk.put("sync", **MINUTELY, target=target)
    put = await desk.put("sync", **MINUTELY, target=WEBHOOK | {"headers": {"Authorization": REDACTED}})
    assert put.outcome is PutOutcome.UNCHANGED
    assert put.view.job.spec.target.headers == (("Authorization", "Bearer s3cret"),)
    with pytest.raises(InvalidRequest, match=r"target\.headers\.X-Other"):
        await desk.put("sync", **MINUTELY, target=WEBHOOK | {"headers": {"X-Other": REDACTED}})


@pytest.mark.pitfall(95)
async def test_a_cancelled_schedule_begins_anew() -> None:
    desk = Desk()
    async with desk.firing():
        job_id = (await desk.put("sync", **MINUTELY)).view.job.job_id
        await desk.jobs.cancel(TENANT, job_id)
        put = await desk.put("sync", **MINUTELY)
        assert put.outcome is PutOutcome.CHANGED
        assert await desk.status(job_id) == "SCHEDULED"
        await desk.clock.advance(2 * MINUTE_MS)
    assert [word for _, word in await desk.states(job_id)] == ["SUCCEEDED"] * 2
    assert await desk.live_timers(job_id) == 1


async def test_a_paused_schedule_stays_paused() -> None:
    desk = Desk()
    job_id = (await desk.put("sync", **MINUTELY)).view.job.job_id
    await desk.jobs.pause(TENANT, job_id)
    assert (await desk.put("sync", **MINUTELY)).outcome is PutOutcome.UNCHANGED
    assert (await desk.put("sync", **MINUTELY, payload=1)).outcome is PutOutcome.CHANGED
    assert await desk.status(job_id) == "PAUSED"


async def test_a_one_off_by_name_runs_once_for_each_instant() -> None:
    desk = Desk()
    first, second = (format_instant(desk.now() + ahead) for ahead in (5_000, 60_000))
    async with desk.firing():
        for _ in range(3):
            put = await desk.put("launch", schedule_type="ONE_OFF", execute_at=first)
            await desk.clock.advance(4_000)
        assert put.outcome is PutOutcome.UNCHANGED
        changed = await desk.put("launch", schedule_type="ONE_OFF", execute_at=first, payload=1)
        assert changed.outcome is PutOutcome.CHANGED
        await desk.clock.advance(4_000)
        assert len(desk.calls) == 1
        moved = await desk.put("launch", schedule_type="ONE_OFF", execute_at=second)
        assert moved.outcome is PutOutcome.CHANGED
        assert await desk.status(moved.view.job.job_id) == "SCHEDULED"
        await desk.clock.advance(60_000)
    assert len(desk.calls) == 2
    assert await desk.status(put.view.job.job_id) == "SUCCEEDED"


@pytest.mark.parametrize("deadline", [{}, {"deadline_seconds": 100_000_000}])
async def test_a_past_instant_by_name_runs_once_ever(deadline: dict[str, int]) -> None:
    desk = Desk()
    outcomes = []
    async with desk.firing():
        for _ in range(3):
            put = await desk.put("init", schedule_type="ONE_OFF", execute_at="2025-01-01T00:00:00Z", **deadline)
            outcomes.append(put.outcome)
            await desk.clock.advance(10_000)
    assert len(desk.calls) == 1
    assert outcomes == [PutOutcome.CREATED, PutOutcome.UNCHANGED, PutOutcome.UNCHANGED]


async def test_an_instant_job_by_name_runs_once_ever() -> None:
    desk = Desk()
    async with desk.firing():
        for _ in range(3):
            await desk.put("init", schedule_type="INSTANT")
            await desk.clock.advance(1_000)
    assert len(desk.calls) == 1


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"schedule_type": "DELAYED", "delay_seconds": 5}, "delay_seconds"),
        (MINUTELY | {"job_name": "other"}, "job_name"),
        (MINUTELY | {"idempotency_key": "k"}, "idempotency_key"),
    ],
)
async def test_what_makes_no_sense_by_name_is_refused(members: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest, match=field):
        await Desk().put("sync", **members)


async def test_another_kind_of_schedule_needs_a_delete_first() -> None:
    desk = Desk()
    await desk.put("sync", **MINUTELY)
    with pytest.raises(Conflict, match="delete it"):
        await desk.put("sync", schedule_type="INSTANT")


async def test_the_name_cannot_be_edited_away() -> None:
    desk = Desk()
    job_id = (await desk.put("sync", **MINUTELY)).view.job.job_id
    with pytest.raises(InvalidRequest, match="job_name"):
        await desk.edit(job_id, job_name="other")
    assert (await desk.edit(job_id, payload=1)).job.name == "sync"


async def test_names_belong_to_their_tenant() -> None:
    desk = Desk()
    first = await desk.put("sync", **MINUTELY, tenant_id="a")
    second = await desk.put("sync", **MINUTELY, tenant_id="b")
    assert first.view.job.job_id != second.view.job.job_id
