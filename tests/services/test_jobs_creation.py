"""Making jobs: instants, keys, batches, triggers."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tickwheel.domain.columns import Rows
from tickwheel.domain.errors import IdempotencyConflict, InvalidRequest, NotFound, StoreUnavailable
from tickwheel.domain.ids import SHARD_COUNT, shard_of
from tickwheel.domain.limits import HORIZON_MS, PAST_CLAMP_MS
from tickwheel.domain.requests.instants import format_instant
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Inserted, NewJob
from tickwheel.services.ingest import Created, IdempotencyKeyMismatch
from tickwheel.services.jobs import Jobs
from tickwheel.testing.seeded_randomness import SeededRandomness

from .desk import DAY_MS, HOUR_MS, MINUTE_MS, TENANT, WEBHOOK, Desk


def item(**members: Any) -> bytes:
    return json.dumps({"schedule_type": "INSTANT", "target": WEBHOOK} | members).encode()


async def test_a_created_job_says_when_it_runs_and_is_armed() -> None:
    desk = Desk()
    created = await desk.create(schedule_type="DELAYED", delay_seconds=5)
    assert created.next_ms == desk.now() + 5_000
    assert not created.replayed
    assert desk.owner.armed == [(created.next_ms, 1)]
    assert await desk.status(created.job_id) == "SCHEDULED"


@pytest.mark.pitfall(65)
async def test_the_answer_shows_the_effective_retry_policy() -> None:
    created = await Desk().create(schedule_type="INSTANT", retry_policy={"backoff_multiplier": 4})
    assert (created.spec.retry.max_retries, created.spec.retry.multiplier) == (3, 4.0)


@pytest.mark.pitfall(74)
@pytest.mark.parametrize("text", ["1970-01-02T00:00:00Z", "2001-01-01T00:00:00Z"])
async def test_an_instant_long_past_runs_at_once(text: str) -> None:
    desk = Desk()
    async with desk.firing():
        created = await desk.create(schedule_type="ONE_OFF", execute_at=text)
        assert created.next_ms == desk.now() - PAST_CLAMP_MS
        await desk.clock.advance(100)
    assert await desk.status(created.job_id) == "SUCCEEDED"


async def test_a_past_instant_keeps_its_own_scheduled_time() -> None:
    desk = Desk()
    created = await desk.create(schedule_type="ONE_OFF", execute_at=format_instant(desk.now() - MINUTE_MS))
    assert (await desk.view(created.job_id)).job.scheduled_ms == desk.now() - MINUTE_MS


@pytest.mark.parametrize(("deadline_s", "state"), [(7_100, "DEADLINE"), (7_300, "SUCCEEDED")])
async def test_moving_up_a_past_instant_does_not_move_its_deadline(deadline_s: int, state: str) -> None:
    desk = Desk()
    at = format_instant(desk.now() - 2 * HOUR_MS)
    async with desk.firing():
        created = await desk.create(schedule_type="ONE_OFF", execute_at=at, deadline_seconds=deadline_s)
        await desk.clock.advance(100)
    assert [word for _, word in await desk.states(created.job_id)] == [state]


@pytest.mark.pitfall(76)
@pytest.mark.parametrize("delay_ms", [2**31 - 1, 2**31, 2**32 + 5_000])
async def test_a_long_delay_does_not_fire_early(delay_ms: int) -> None:
    desk = Desk()
    async with desk.firing():
        job_id = await desk.once(delay_ms)
        desk.clock.step_ms(delay_ms - 1)
        await desk.clock.advance(0)
        assert desk.calls == []
        await desk.clock.advance(2_000)
    assert await desk.status(job_id) == "SUCCEEDED"
    assert desk.calls[0].started_ms >= (await desk.view(job_id)).job.created_ms + delay_ms


@pytest.mark.parametrize("field", ["execute_at", "start_at"])
async def test_ten_years_is_as_far_as_it_goes(field: str) -> None:
    desk = Desk()

    async def create(ahead_ms: int) -> Created:
        at = format_instant(desk.now() + ahead_ms)
        if field == "execute_at":
            return await desk.create(schedule_type="ONE_OFF", execute_at=at)
        return await desk.create(schedule_type="CRON", cron_expression="0 0 * * *", start_at=at)

    await create(HORIZON_MS)
    with pytest.raises(InvalidRequest, match=f"{field}: is over 3653 days"):
        await create(HORIZON_MS + 1)


async def test_a_recurring_job_without_any_occurrence_is_refused() -> None:
    desk = Desk()
    with pytest.raises(InvalidRequest, match="end_at: leaves no occurrence"):
        await desk.cron("* * * * *", end_at=format_instant(desk.now()))


@pytest.mark.pitfall(86)
async def test_two_requests_at_once_under_one_key_make_one_job() -> None:
    desk = Desk()
    request = parse_job_request(item(schedule_type="DELAYED", delay_seconds=60, idempotency_key="k"))
    answers = await asyncio.gather(*(desk.jobs.create(request) for _ in range(20)))
    assert len({answer.job_id for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert len({(answer.next_ms, answer.created_ms) for answer in answers}) == 1
    assert (await desk.store.counts()).jobs == 1
    assert len(desk.owner.armed) == 1


class BreaksOnce:
    """A store whose first insert fails before it writes anything."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self.broken = desk, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._desk.store, name)

    async def insert_jobs(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        if not self.broken:
            self.broken = True
            raise StoreUnavailable("cut off")
        return await self._desk.store.insert_jobs(jobs, act)


@pytest.mark.pitfall(86)
async def test_a_failed_request_does_not_hold_its_key() -> None:
    desk = Desk()
    jobs = Jobs(BreaksOnce(desk), desk.owner, desk.clock, SeededRandomness(1))
    request = parse_job_request(item(idempotency_key="k"))
    first, second = await asyncio.gather(jobs.create(request), jobs.create(request), return_exceptions=True)
    assert isinstance(first, StoreUnavailable)
    assert isinstance(second, Created)
    assert not second.replayed
    assert (await desk.view(second.job_id)).job.idempotency_key == "k"


async def test_a_key_with_another_request_is_refused_and_nothing_written() -> None:
    desk = Desk()
    await desk.create(schedule_type="INSTANT", idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await desk.create(schedule_type="INSTANT", idempotency_key="k", payload=1)
    assert (await desk.store.counts()).jobs == 1


async def test_a_resent_delay_is_a_replay_with_the_first_instant() -> None:
    desk = Desk()
    first = await desk.create(schedule_type="DELAYED", delay_seconds=60, idempotency_key="k")
    desk.clock.step_ms(10_000)
    again = await desk.create(schedule_type="DELAYED", delay_seconds=60, idempotency_key="k")
    assert again.replayed
    assert (again.job_id, again.next_ms, again.created_ms) == (first.job_id, first.next_ms, first.created_ms)


async def test_a_key_belongs_to_its_tenant() -> None:
    desk = Desk()
    first = await desk.create(schedule_type="INSTANT", idempotency_key="k", tenant_id="a")
    second = await desk.create(schedule_type="INSTANT", idempotency_key="k", tenant_id="b")
    assert first.job_id != second.job_id
    with pytest.raises(NotFound):
        await desk.jobs.get("a", second.job_id)


async def test_the_key_may_come_as_a_header() -> None:
    desk = Desk()
    bare = parse_job_request(item())
    keyed = parse_job_request(item(idempotency_key="k"))
    first = await desk.jobs.create(bare, "k")
    assert (await desk.jobs.create(keyed)).job_id == first.job_id
    assert (await desk.jobs.create(keyed, "k")).replayed
    with pytest.raises(IdempotencyKeyMismatch):
        await desk.jobs.create(keyed, "other")
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        await desk.jobs.create(bare, "schlüssel")


async def test_one_bad_item_does_not_fail_the_others() -> None:
    desk = Desk()
    far = format_instant(desk.now() + 2 * HORIZON_MS)
    answers = await desk.jobs.create_many(
        [
            item(job_name="a"),
            b"nope",
            item(target={}),
            item(idempotency_key="k"),
            item(idempotency_key="k", job_name="other"),
            item(idempotency_key="k"),
            item(schedule_type="ONE_OFF", execute_at=far),
            item(target=WEBHOOK | {"headers": {"X-A": "[redacted]"}}),
            item(job_name="z"),
        ]
    )
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == [
        "Created",
        "InvalidRequest",
        "InvalidRequest",
        "Created",
        "IdempotencyConflict",
        "Created",
        "InvalidRequest",
        "InvalidRequest",
        "Created",
    ]
    assert (await desk.store.counts()).jobs == 3
    assert len(desk.owner.armed) == 3


async def test_an_empty_batch_is_fine() -> None:
    assert await Desk().jobs.create_many([]) == []


async def test_a_batch_spreads_over_the_shards() -> None:
    desk = Desk()
    answers = await desk.jobs.create_many([item()] * (2 * SHARD_COUNT))
    shards = [shard_of(answer.job_id) for answer in answers if isinstance(answer, Created)]
    assert sorted(shards) == sorted([*range(SHARD_COUNT)] * 2)
    assert len({answer.job_id for answer in answers if isinstance(answer, Created)}) == 2 * SHARD_COUNT


async def test_triggering_makes_a_job_of_its_own() -> None:
    desk = Desk()
    job_id = await desk.cron("0 0 * * *", job_name="nightly", payload={"a": 1}, tags=["x"], priority="HIGH")
    before = await desk.view(job_id)
    async with desk.firing():
        triggered = await desk.jobs.trigger(TENANT, job_id)
        await desk.clock.advance(100)
    run_now = (await desk.view(triggered.job_id)).job
    assert await desk.status(triggered.job_id) == "SUCCEEDED"
    assert (run_now.name, run_now.payload, run_now.lane) == ("nightly", '{"a": 1}', before.job.lane)
    assert run_now.tags[0] == "x"
    assert run_now.tags[1].startswith("triggered-by:job_")
    assert await desk.view(job_id) == before


async def test_what_is_over_can_be_triggered_and_what_is_gone_cannot() -> None:
    desk = Desk()
    job_id = await desk.once(DAY_MS)
    await desk.jobs.cancel(TENANT, job_id)
    assert await desk.jobs.trigger(TENANT, job_id)
    await desk.jobs.delete(TENANT, job_id)
    with pytest.raises(NotFound):
        await desk.jobs.trigger(TENANT, job_id)


async def test_triggering_twice_under_one_key_runs_once() -> None:
    desk = Desk()
    job_id = await desk.cron("0 0 * * *")
    first, second = [await desk.jobs.trigger(TENANT, job_id, "k") for _ in range(2)]
    assert (second.job_id, second.replayed) == (first.job_id, True)


def test_a_preview_names_the_wrong_field() -> None:
    jobs = Desk().jobs
    assert len(jobs.preview("*/5 * * * *", "Europe/Berlin", count=3).next_ms) == 3
    for arguments, field in (
        (("0 0 30 2 *", "UTC"), "cron_expression"),
        (("* * * * *", "Nowhere"), "timezone"),
        (("* * * * *", "UTC", 0, 0), "count"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            jobs.preview(*arguments)
        assert [problem.field for problem in caught.value.problems] == [field]


async def test_jobs_that_are_stored_together_are_armed_together() -> None:
    desk = Desk()
    armings: list[int] = []
    arm = desk.owner.arm

    def note(timers: Rows) -> None:
        armings.append(len(timers))
        arm(timers)

    desk.owner.arm = note  # type: ignore[method-assign]  # watched
    stored, together = asyncio.Event(), desk.store.insert_jobs

    async def insert_jobs(jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        await stored.wait()
        return await together(jobs, act)

    desk.store.insert_jobs = insert_jobs  # type: ignore[method-assign]  # held back
    creating = [asyncio.ensure_future(desk.create(schedule_type="INSTANT")) for _ in range(20)]
    await asyncio.sleep(0)
    assert not armings
    stored.set()
    await asyncio.gather(*creating)
    assert sum(armings) == len(desk.owner.armed) == 20
    assert len(armings) <= 2
    await desk.create(schedule_type="INSTANT")
    assert len(desk.owner.armed) == 21, "alone, it is armed before the answer"


async def test_a_failed_insert_keeps_no_other_job_from_being_armed() -> None:
    desk = Desk()
    insert_jobs, failed = desk.store.insert_jobs, asyncio.Event()

    async def broken(jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        if jobs[0].job.name == "broken":
            await failed.wait()
            raise StoreUnavailable("gone")
        return await insert_jobs(jobs, act)

    desk.store.insert_jobs = broken  # type: ignore[method-assign]  # breaks
    bad = asyncio.ensure_future(desk.create(schedule_type="INSTANT", job_name="broken"))
    await desk.create(schedule_type="INSTANT")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(desk.owner.armed) == 1, "while the other one is under way still"
    failed.set()
    with pytest.raises(StoreUnavailable):
        await bad
    await desk.create(schedule_type="INSTANT")
    assert len(desk.owner.armed) == 2
