"""Runs that workers take over HTTP, from the timer to the end, with the owner that fires them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tickwheel.domain.outcome import LOST_LIMIT_COUNT

from .hiring_world import HiringWorld
from .pull_world import question

QUICK: dict[str, Any] = {"retry_policy": {"max_retries": 5, "initial_interval_sec": 1, "max_interval_sec": 1}}


@pytest.fixture
async def world() -> AsyncIterator[HiringWorld]:
    world = await HiringWorld().open()
    yield world
    await world.close()


async def test_a_run_goes_to_a_worker_and_ends_there(world: HiringWorld) -> None:
    worker_id = await world.hire()
    job_id = await world.work_job(payload={"n": 1})
    [run] = await world.poll(worker_id)
    assert (run["payload"], run["attempt"]) == ({"n": 1}, 1)
    assert (await world.report("complete", worker_id, run, result=[1]))["accepted"]
    shown = await world.run_of_job(job_id)
    assert (shown["status"], shown["worker_id"], shown["attempt"]) == ("SUCCEEDED", worker_id, 1)
    assert not world.calls
    await world.close()


async def test_retries_come_to_workers_too(world: HiringWorld) -> None:
    worker_id = await world.hire()
    job_id = await world.work_job(**QUICK)
    for attempt in (1, 2, 3):
        [run] = await world.poll(worker_id)
        assert run["attempt"] == attempt
        assert (await world.report("fail", worker_id, run, error="no luck"))["accepted"]
    assert (await world.run_of_job(job_id))["status"] == "SCHEDULED"
    await world.close()


async def test_what_waited_for_a_worker_begins_when_one_comes(world: HiringWorld) -> None:
    job_id = await world.work_job()
    await world.clock.advance(60_000)
    assert (await world.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"] == []
    worker_id = await world.hire()
    [run] = await world.poll(worker_id, within_ms=15_000)
    assert run["attempt"] == 1
    await world.close()


@pytest.mark.pitfall(25)
async def test_a_run_of_three_leases_with_heartbeats_is_one_attempt() -> None:
    world = await HiringWorld(lease_ms=60_000).open()
    worker_id = await world.hire()
    job_id = await world.work_job(**QUICK)
    [run] = await world.poll(worker_id)
    keeps = asyncio.create_task(keep_polling(world, worker_id, run["run_id"]))
    for _ in range(9):
        await world.clock.advance(20_000)
        assert (await world.report("heartbeat", worker_id, run))["status"] == "held"
    assert (await world.report("complete", worker_id, run))["accepted"]
    keeps.cancel()
    await asyncio.gather(keeps, return_exceptions=True)
    shown = await world.run_of_job(job_id)
    assert (shown["status"], shown["attempt"], shown["lost_count"]) == ("SUCCEEDED", 1, 0)
    assert [attempt["attempt"] for attempt in shown["attempts"]] == [1]
    await world.close()


async def keep_polling(world: HiringWorld, worker_id: str, run_id: str) -> None:
    """As the protocol asks for: a poll is pending at all times, also with no slot free."""
    while True:
        asked = question(me=worker_id, free=0, wait=30, holding=[run_id])
        answer = (await world.client.post("/v1/workers/poll", asked)).json
        assert (answer["worker_id"], answer["runs"]) == (worker_id, [])
        assert not answer["lost"]
        assert not answer["cancelled"]


@pytest.mark.pitfall(68)
async def test_a_redriven_run_starts_with_no_lost_worker_to_its_name_and_really_runs(world: HiringWorld) -> None:
    worker_id = await world.hire()
    job_id = await world.work_job(**QUICK)
    for attempt in range(1, LOST_LIMIT_COUNT + 1):
        [run] = await world.poll(worker_id)
        assert run["attempt"] == attempt
        await world.store.end_worker(worker_id)  # it is killed by the run
        await world.clock.advance(1_000)
        worker_id = await world.hire()
    dead = await world.run_of_job(job_id)
    assert (dead["status"], dead["lost_count"]) == ("FAILED", LOST_LIMIT_COUNT)
    reply = await world.client.post("/v1/dlq/redrive", {"run_ids": [dead["run_id"]]})
    assert reply.json["redriven"] == [dead["run_id"]]
    await world.clock.advance(100)
    waiting = await world.run_of_job(job_id)
    assert (waiting["status"] in ("SCHEDULED", "CLAIMED"), waiting["lost_count"]) == (True, 0)
    [again] = await world.poll(worker_id)
    assert (again["run_id"], again["attempt"]) == (dead["run_id"], 1)
    assert again["fencing_token"] > run["fencing_token"]
    assert (await world.report("fail", worker_id, again, error="once more"))["accepted"]
    [second] = await world.poll(worker_id)
    assert second["attempt"] == 2, "its counters begin anew, and a failure is followed by a retry"
    assert (await world.report("complete", worker_id, second))["accepted"]
    assert (await world.run_of_job(job_id))["status"] == "SUCCEEDED"
    await world.close()


async def test_a_cancelled_run_reaches_neither_queue_nor_worker(world: HiringWorld) -> None:
    worker_id = await world.hire()
    job_id = await world.work_job()
    assert (await world.client.post(f"/v1/jobs/{job_id}/cancel")).status == 200
    assert await world.poll(worker_id, within_ms=2_000) == []
    await world.close()
