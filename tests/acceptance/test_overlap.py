"""Occurrences that come faster than they are worked off: never two at once unless allowed, never a heap."""

import pytest

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.outcome import Outcome, OutcomeClass

from .conftest import MakeNode
from .node import HOUR_MS, SECOND_MS, Node

OPEN = ("SCHEDULED", "CLAIMED", "DISPATCHED", "RUNNING")


@pytest.mark.pitfall(19)
async def test_two_occurrences_a_second_apart_never_run_together_and_the_refused_one_is_recorded(
    node: MakeNode,
) -> None:
    async with node(at="2026-10-01T10:00:30Z") as world:
        shown = await world.preview("0/59 * * * * *", "UTC", "2026-10-01T10:00:30Z", 4)
        assert [instant[14:19] for instant in shown] == ["00:59", "01:00", "01:59", "02:00"]
        world.work_ms = lambda work: 5 * SECOND_MS
        job_id = (await world.cron("0/59 * * * * *", overlap="skip"))["job_id"]
        await world.until("2026-10-01T10:02:10Z")
        assert await world.states(job_id) == list(zip(shown, ["SUCCEEDED", "overlap"] * 2, strict=True))
        assert max(executor.most_open for executor in world.executors) == 1


@pytest.mark.pitfall(19)
@pytest.mark.parametrize("policy", ["fire_once", "fire_all", "skip"])
@pytest.mark.parametrize("overlap", ["skip", "buffer_one"])
async def test_catching_up_starts_no_second_instance_beside_the_first(
    node: MakeNode, policy: str, overlap: str
) -> None:
    async with node(at="2026-10-01T10:00:05Z") as world:
        world.work_ms = lambda work: 25 * SECOND_MS
        await world.cron("*/10 * * * * *", overlap=overlap, catch_up={"policy": policy})
        await world.until("2026-10-01T10:00:45Z")
        await world.down_until("2026-10-01T10:05:05Z", killed=True)
        await world.until("2026-10-01T10:07:00Z")
        assert len(world.calls) > 4
        assert max(executor.most_open for executor in world.executors) == 1


@pytest.mark.pitfall(19)
async def test_a_retry_that_waits_counts_as_running(node: MakeNode) -> None:
    async with node(at="2026-10-01T10:00:30Z") as world:
        failing = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="busy", retry_after_ms=90 * SECOND_MS)
        succeed = world.outcome
        world.outcome = lambda work: failing if work.attempt == 1 else succeed(work)
        job_id = (await world.cron("* * * * *", overlap="skip"))["job_id"]
        await world.until("2026-10-01T10:03:30Z")
        assert [word for _, word in await world.states(job_id)] == ["SUCCEEDED", "overlap", "SCHEDULED"]


@pytest.mark.pitfall(20)
@pytest.mark.parametrize("overlap", ["allow", "skip", "buffer_one"])
@pytest.mark.parametrize("away", ["slots taken", "handler absent", "stopped", "store failing"])
async def test_half_an_hour_without_a_worker_leaves_at_most_one_occurrence_waiting(
    node: MakeNode, overlap: str, away: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(at="2026-10-01T10:00:30Z", slots=1, lease_ms=2 * HOUR_MS) as world:
        target = {"type": "HANDLER", "name": "it"}
        job_id = (await world.cron("* * * * *", overlap=overlap, target=target, job_name="each"))["job_id"]
        if away == "slots taken":
            world.work_ms = lambda work: HOUR_MS if work.job_name == "blocker" else 0
            await world.create(schedule_type="INSTANT", target=target, job_name="blocker")
        world.serves = lambda target: away != "handler absent"
        if away == "stopped":
            await world.down_until("2026-10-01T10:30:30Z")
        else:
            if away == "store failing":
                monkeypatch.setattr(world.sqlite, "claim", refused)
            for minute in range(1, 31):
                await world.leap(f"2026-10-01T10:{minute:02d}:00Z")
            assert len(await open_runs(world, job_id)) + (await live(world, job_id)) <= 1
            assert (await world.sqlite.counts()).waiting <= 2
        monkeypatch.undo()
        world.serves = lambda target: True
        world.work_ms = lambda work: 0
        for executor in world.executors:
            for slot in list(executor.open):
                executor.finish(slot)
        await world.clock.advance(10 * SECOND_MS)
        assert len([call for call in world.calls if call.work.job_name == "each"]) == 1, "one makes up for all"
        await world.leap("2026-10-01T10:31:00Z")
        assert len([call for call in world.calls if call.work.job_name == "each"]) == 2


@pytest.mark.pitfall(20)
async def test_work_slower_than_its_period_keeps_one_waiting_and_records_the_rest(node: MakeNode) -> None:
    async with node(at="2026-10-01T10:00:05Z") as world:
        world.work_ms = lambda work: 25 * SECOND_MS
        job_id = (await world.cron("*/10 * * * * *", overlap="buffer_one"))["job_id"]
        for _ in range(20):
            await world.clock.advance(10 * SECOND_MS)
            assert len(await open_runs(world, job_id)) <= 2
        words = [word for _, word in await world.states(job_id)]
        assert max(executor.most_open for executor in world.executors) == 1
        assert words.count("SUCCEEDED") in (7, 8)
        assert set(words) <= {"SUCCEEDED", "RUNNING", "SCHEDULED", "overlap"}
        assert len(words) == 20, "every occurrence has its row"


async def open_runs(world: Node, job_id: str) -> list[str]:
    return [word for _, word in await world.states(job_id) if word in OPEN]


async def live(world: Node, job_id: str) -> int:
    """1 if an occurrence is due that has no run yet."""
    due_ms = (await world.get(job_id)).json["next_run_time_epoch_ms"]
    return int(due_ms is not None and due_ms <= world.now())


def refused(*args: object) -> None:
    raise StoreUnavailable("down")
