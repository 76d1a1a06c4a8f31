"""What comes due while nothing runs: neither lost, nor repeated, nor dropped, but as the catch-up policy says."""

from typing import Any

import pytest

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.outcome import Outcome, OutcomeClass

from .conftest import MakeNode
from .node import HOUR_MS, MINUTE_MS, SECOND_MS, Node

NOW = "2026-10-01T10:00:00Z"


def in_ms(world: Node, length_ms: int) -> int:
    return world.now() + length_ms


@pytest.mark.pitfall(13)
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("phase_ms", [1, 7_000, 14_999])
async def test_skip_replays_nothing_after_a_stop_and_records_what_was_missed(
    node: MakeNode, killed: bool, phase_ms: int
) -> None:
    async with node(at="2026-10-01T09:59:50Z") as world:
        job_id = (await world.cron("*/15 * * * * *", catch_up={"policy": "skip"}))["job_id"]
        await world.until(f"2026-10-01T10:00:{phase_ms / 1000:06.3f}Z")
        assert len(world.calls) == 1
        await world.down_until(in_ms(world, 60 * SECOND_MS), killed=killed)
        await world.clock.settle()
        assert len(world.calls) == 1, "nothing is replayed"
        missed = [(f"2026-10-01T10:00:{second}.000Z", "catch_up") for second in (15, 30, 45)]
        states = await world.states(job_id)
        assert states == [
            ("2026-10-01T10:00:00.000Z", "SUCCEEDED"),
            *missed,
            ("2026-10-01T10:01:00.000Z", "catch_up"),
        ]
        assert await world.due(job_id) == "2026-10-01T10:01:15.000Z", "the next one is on the grid"
        await world.until("2026-10-01T10:01:31Z")
        assert [call.started_ms - call.work.scheduled_ms for call in world.calls[1:]] == [0, 0]


@pytest.mark.pitfall(13)
@pytest.mark.parametrize(
    ("policy", "calls", "skipped"),
    [({"policy": "fire_once"}, 1, 0), ({"policy": "fire_all", "max": 3}, 3, 237), ({"policy": "skip"}, 0, 240)],
)
async def test_an_hour_of_misses_ends_as_its_policy_says(
    node: MakeNode, policy: dict[str, Any], calls: int, skipped: int
) -> None:
    async with node(at="2026-10-01T10:00:01Z") as world:
        job_id = (await world.cron("*/15 * * * * *", catch_up=policy))["job_id"]
        await world.down_until(in_ms(world, HOUR_MS))
        await world.clock.advance(10 * SECOND_MS)
        assert len(world.calls) == calls
        assert len(await world.states(job_id)) == calls + skipped
        assert await world.due(job_id) == "2026-10-01T11:00:15.000Z"


@pytest.mark.pitfall(14)
@pytest.mark.parametrize("frozen_by", ["store", "process", "slots"])
@pytest.mark.parametrize("policy", ["fire_once", "fire_all", "skip"])
async def test_late_work_runs_and_shows_how_late_it_was(
    node: MakeNode, frozen_by: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(at=NOW, slots=1) as world:
        once = (await world.create(delay_seconds=5))["job_id"]
        recurring = (await world.cron("5 0 10 * * *", catch_up={"policy": policy}))["job_id"]
        await freeze(world, frozen_by, 13 * SECOND_MS, monkeypatch)
        await world.clock.advance(20 * SECOND_MS)
        for job_id in (once, recurring):
            (run,) = (await world.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"]
            assert run["status"] == "SUCCEEDED"
            assert 8 * SECOND_MS <= run["timeline"]["lateness_ms"] < 14 * SECOND_MS


@pytest.mark.pitfall(14)
@pytest.mark.parametrize("frozen_by", ["store", "process", "slots"])
async def test_late_work_is_dropped_only_by_its_own_deadline(
    node: MakeNode, frozen_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(at=NOW, slots=1) as world:
        strict = (await world.create(delay_seconds=5, deadline_seconds=3))["job_id"]
        patient = (await world.create(delay_seconds=5, deadline_seconds=30))["job_id"]
        await freeze(world, frozen_by, 13 * SECOND_MS, monkeypatch)
        await world.clock.advance(20 * SECOND_MS)
        assert [word for _, word in await world.states(strict)] == ["deadline"]
        assert [word for _, word in await world.states(patient)] == ["SUCCEEDED"]


async def freeze(world: Node, what: str, length_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is dispatched meanwhile: the store fails, the process stands still, or the only slot is taken."""
    if what == "process":
        world.clock.step_ms(length_ms)
        return
    if what == "slots":
        world.work_ms = lambda work: length_ms if work.job_name == "blocker" else 0
        await world.create(schedule_type="INSTANT", job_name="blocker")
        await world.clock.advance(length_ms)
        return

    def refuse(*args: Any) -> None:
        raise StoreUnavailable("frozen")

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "claim", refuse, raising=False)
        await world.clock.advance(length_ms)


@pytest.mark.pitfall(17)
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("policy", [None, {"policy": "fire_once"}, {"policy": "fire_all"}])
async def test_an_outage_over_the_daily_minute_gives_one_late_run_that_day(
    node: MakeNode, killed: bool, policy: dict[str, Any] | None
) -> None:
    async with node(at="2026-10-01T11:30:00Z") as world:
        fields = {} if policy is None else {"catch_up": policy}
        job_id = (await world.cron("30 12 * * *", **fields))["job_id"]
        await world.down_until("2026-10-01T13:30:00Z", killed=killed)
        await world.clock.advance(SECOND_MS)
        assert await world.states(job_id) == [("2026-10-01T12:30:00.000Z", "SUCCEEDED")]
        assert HOUR_MS <= world.calls[0].started_ms - world.calls[0].work.scheduled_ms <= HOUR_MS + SECOND_MS
        assert await world.due(job_id) == "2026-10-02T12:30:00.000Z"
        await world.leap("2026-10-02T12:30:00Z")
        assert len(world.calls) == 2


@pytest.mark.pitfall(17)
async def test_two_outages_over_the_same_minute_do_not_repeat_the_late_run(node: MakeNode) -> None:
    async with node(at="2026-10-01T11:30:00Z") as world:
        job_id = (await world.cron("30 12 * * *"))["job_id"]
        await world.down_until("2026-10-01T13:30:00Z")
        await world.clock.advance(SECOND_MS)
        await world.down_until("2026-10-01T14:30:00Z", killed=True)
        await world.clock.advance(10 * SECOND_MS)
        assert await world.states(job_id) == [("2026-10-01T12:30:00.000Z", "SUCCEEDED")]


@pytest.mark.pitfall(23)
@pytest.mark.parametrize("restart", [False, True])
async def test_what_waits_longer_than_a_lease_is_not_delivered_again(node: MakeNode, restart: bool) -> None:
    async with node(at=NOW, lease_ms=30 * SECOND_MS) as world:
        waiting = (await world.create(delay_seconds=600))["job_id"]
        retrying = (await world.create(schedule_type="INSTANT", job_name="again"))["job_id"]
        told_to_wait = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="busy", retry_after_ms=10 * MINUTE_MS)
        succeed = world.outcome
        world.outcome = lambda work: (
            told_to_wait if (work.job_name, work.attempt) == ("again", 1) else succeed(work)
        )
        await world.clock.advance(2 * MINUTE_MS)
        if restart:
            await world.down_until(in_ms(world, MINUTE_MS))
        await world.clock.advance(15 * MINUTE_MS)
        attempts = {job_id: (await world.get(job_id)).json["current_attempt"] for job_id in (waiting, retrying)}
        assert attempts == {waiting: 1, retrying: 2}
        assert len(world.calls) == 3


@pytest.mark.pitfall(23)
async def test_work_longer_than_its_lease_runs_once(node: MakeNode) -> None:
    async with node(at=NOW, lease_ms=30 * SECOND_MS) as world:
        world.work_ms = lambda work: 3 * MINUTE_MS
        job_id = (await world.create(schedule_type="INSTANT"))["job_id"]
        await world.clock.advance(5 * MINUTE_MS)
        job = (await world.get(job_id)).json
        assert (job["status"], job["current_attempt"], len(world.calls)) == ("SUCCEEDED", 1, 1)


@pytest.mark.pitfall(29)
@pytest.mark.parametrize("killed", [False, True])
async def test_a_stop_loses_none_of_what_is_running_waiting_or_to_be_tried_again(
    node: MakeNode, killed: bool
) -> None:
    async with node(at=NOW) as world:
        world.work_ms = lambda work: HOUR_MS if (work.job_name, work.attempt) == ("long", 1) else 0
        failing = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="not yet")
        succeed = world.outcome
        world.outcome = lambda work: failing if (work.job_name, work.attempt) == ("flaky", 1) else succeed(work)
        policy = {"initial_interval_sec": 60}
        jobs = [{"delay_seconds": 20 + n // 5, "job_name": "later"} for n in range(100)]
        jobs += [{"schedule_type": "INSTANT", "job_name": "flaky", "retry_policy": policy} for _ in range(10)]
        jobs += [{"schedule_type": "INSTANT", "job_name": "long", "retry_policy": policy} for _ in range(10)]
        ids = [(await world.create(**job))["job_id"] for job in jobs]
        await world.clock.advance(30 * SECOND_MS)
        world.work_ms = lambda work: 0
        await world.down_until(in_ms(world, SECOND_MS), killed=killed)
        await world.clock.advance(2 * MINUTE_MS)
        assert {(await world.get(job_id)).json["status"] for job_id in ids} == {"SUCCEEDED"}
        runs = [call.work.run_id for call in world.calls if call.work.job_name == "later"]
        assert len(runs) == len(set(runs)) == 100


@pytest.mark.pitfall(92)
@pytest.mark.parametrize("ended_by", ["cancel", "delete", "run", "pause", "edit"])
@pytest.mark.parametrize("away", ["stopped", "killed", "handler absent", "slots taken"])
async def test_what_was_ended_while_no_worker_was_there_does_not_run_later(
    node: MakeNode, ended_by: str, away: str
) -> None:
    async with node(at=NOW, slots=1) as world:
        target = {"type": "HANDLER", "name": "it"}
        world.serves = lambda target: away != "handler absent"
        world.work_ms = lambda work: HOUR_MS
        if away == "slots taken":
            await world.create(schedule_type="INSTANT", target=target)
        job_id = (await world.create(delay_seconds=10, target=target, job_name="ended"))["job_id"]
        await world.clock.advance((20 if away in ("handler absent", "slots taken") else 5) * SECOND_MS)
        await end(world, job_id, ended_by)
        world.serves = lambda target: True
        world.work_ms = lambda work: 0
        if away in ("stopped", "killed"):
            await world.down_until(in_ms(world, MINUTE_MS), killed=away == "killed")
        for executor in world.executors:
            for slot in list(executor.open):
                executor.finish(slot)
        await world.clock.advance(30 * SECOND_MS)
        assert [call for call in world.calls if call.work.job_name == "ended"] == []


async def end(world: Node, job_id: str, how: str) -> None:
    path = f"/v1/jobs/{job_id}"
    if how == "delete":
        reply = await world.client.request("DELETE", path)
    elif how == "run":
        (run,) = (await world.client.get(f"{path}/runs")).json["runs"] or [{"run_id": ""}]
        reply = await world.client.post(f"/v1/runs/{run['run_id'] or await live_run(world, job_id)}/cancel")
    elif how == "edit":
        reply = await world.client.request("PATCH", path, {"execute_at": "2026-12-24T18:00:00Z"})
    else:
        reply = await world.client.post(f"{path}/{how}")
    assert reply.status in (200, 204), reply.body


async def live_run(world: Node, job_id: str) -> str:
    """The run that is to come has no row yet; its id is the job's with the instant."""
    from tickwheel.domain.ids import parse_job_id, run_id_text

    job = (await world.get(job_id)).json
    return run_id_text(parse_job_id(job_id), job["next_run_time_epoch_ms"])
