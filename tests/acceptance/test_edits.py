"""Definitions that change while their occurrence is pending, due or running; and those that are only put again."""

from typing import Any

import pytest

from .conftest import MakeNode
from .node import ENDPOINT, MINUTE_MS, SECOND_MS, Node

TARGET = {"endpoint": ENDPOINT}


async def put(world: Node, expression: str, **fields: Any) -> dict[str, Any]:
    """PUT the job named `it`, as a deploy script does."""
    body = {"schedule_type": "CRON", "cron_expression": expression, "target": TARGET, **fields}
    reply = await world.client.request("PUT", "/v1/jobs/by-name/it", body)
    assert reply.status in (200, 201), reply.body
    answer: dict[str, Any] = reply.json
    return answer


async def change(world: Node, how: str, job_id: str, expression: str, **fields: Any) -> None:
    """The same edit by each way that there is."""
    if how == "put":
        await put(world, expression, **fields)
    else:
        reply = await world.client.request("PATCH", f"/v1/jobs/{job_id}", {"cron_expression": expression} | fields)
        assert reply.status == 200, reply.body


@pytest.mark.pitfall(16)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    "fields",
    [
        {"catch_up": {"policy": "skip"}, "overlap": "skip"},
        {"catch_up": {"policy": "fire_all", "max": 7}, "overlap": "buffer_one", "deadline_seconds": 90.5},
        {"timezone": "Europe/Berlin", "start_at": "2026-10-01T00:00:00Z", "end_at": "2030-10-01T00:00:00.250Z"},
        {"payload": {"n": 1.10, "s": "\u0000é"}, "tags": ["b", "a"], "retry_policy": {"max_retries": 0}},
        {"target": {"endpoint": ENDPOINT, "headers": {"Authorization": "secret"}, "method": "PUT"}},
    ],
)
async def test_reading_and_sending_back_changes_nothing_also_after_a_restart(
    node: MakeNode, method: str, fields: dict[str, Any]
) -> None:
    async with node(at="2026-10-01T14:02:00Z") as world:
        job_id = (await put(world, "*/5 * * * *", **fields))["job_id"]
        before = await world.get(job_id)
        for _ in range(2):
            path = "/v1/jobs/by-name/it" if method == "PUT" else f"/v1/jobs/{job_id}"
            again = await world.client.request(method, path, raw=before.body)
            assert (again.status, again.body) == (200, before.body)
            await world.down_until(world.now() + SECOND_MS, killed=True)
            assert (await world.get(job_id)).body == before.body
        await world.leap("2026-10-01T14:05:00Z")
        assert len(world.calls) == 1


@pytest.mark.pitfall(16)
@pytest.mark.parametrize("policy", [("skip", 0), ("fire_once", 1), ("fire_all", 12)])
async def test_the_catch_up_policy_still_holds_after_the_definition_was_sent_back(
    node: MakeNode, policy: tuple[str, int]
) -> None:
    async with node(at="2026-10-01T14:02:00Z") as world:
        job_id = (await put(world, "*/5 * * * *", catch_up={"policy": policy[0]}))["job_id"]
        body = (await world.get(job_id)).body
        await world.client.request("PUT", "/v1/jobs/by-name/it", raw=body)
        await world.down_until("2026-10-01T15:02:00Z")
        await world.clock.advance(10 * SECOND_MS)
        assert len(world.calls) == policy[1]


@pytest.mark.pitfall(28)
@pytest.mark.parametrize("killed", [False, True])
async def test_putting_on_every_boot_adds_no_occurrence_and_loses_none(node: MakeNode, killed: bool) -> None:
    async with node(at="2026-10-01T14:00:30Z") as world:
        for _ in range(10):
            job = await put(world, "* * * * *", payload={"v": 1})
            await world.clock.advance(10 * SECOND_MS)
            await world.down_until(world.now() + 20 * SECOND_MS, killed=killed)
        assert (await world.sqlite.counts()).waiting == 1
        assert len((await world.client.get("/v1/jobs")).json["jobs"]) == 1
        assert (job["version"], await world.due(job["job_id"])) == (1, "2026-10-01T14:06:00.000Z")
        await world.clock.settle()
        assert [at[14:16] for at, _ in await world.states(job["job_id"])] == ["01", "02", "03", "04", "05"]
        assert len(world.calls) == 5


@pytest.mark.pitfall(28)
async def test_putting_while_a_run_is_under_way_adds_none(node: MakeNode) -> None:
    async with node(at="2026-10-01T14:00:59Z") as world:
        world.work_ms = lambda work: 20 * SECOND_MS
        job = await put(world, "* * * * *")
        for _ in range(5):
            await world.clock.advance(2 * SECOND_MS)
            await put(world, "* * * * *")
        assert [word for _, word in await world.states(job["job_id"])] == ["RUNNING"]
        assert len(world.calls) == (await world.sqlite.counts()).waiting - 1 == 1


@pytest.mark.pitfall(28)
async def test_a_one_off_put_on_every_boot_runs_once(node: MakeNode) -> None:
    async with node(at="2026-10-01T14:00:00Z") as world:
        body = {"schedule_type": "ONE_OFF", "execute_at": "2026-10-01T14:00:30Z", "target": TARGET}
        for _ in range(6):
            await world.client.request("PUT", "/v1/jobs/by-name/once", body)
            await world.down_until(world.now() + 10 * SECOND_MS)
            await world.clock.advance(SECOND_MS)
        assert len(world.calls) == 1


@pytest.mark.pitfall(94)
@pytest.mark.parametrize("how", ["put", "patch"])
@pytest.mark.parametrize("before", ["pending", "restarted", "due", "running"])
async def test_the_pending_run_follows_the_new_pattern(node: MakeNode, how: str, before: str) -> None:
    async with node(at="2026-10-01T14:00:30Z") as world:
        world.work_ms = lambda work: 5 * SECOND_MS
        job_id = (await put(world, "* * * * *"))["job_id"]
        if before == "restarted":
            await world.down_until("2026-10-01T14:00:50Z", killed=True)
        if before == "due":
            world.clock.step_ms(30 * SECOND_MS + 1)
        if before == "running":
            await world.until("2026-10-01T14:01:02Z")
        # What is due or running already keeps its instant, under the definition that holds now.
        await change(world, how, job_id, "0 8 * * *")
        done = 1 if before in ("due", "running") else 0
        await world.until("2026-10-01T14:03:30Z")
        assert await world.due(job_id) == "2026-10-02T08:00:00.000Z"
        assert [word for _, word in await world.states(job_id)] == ["SUCCEEDED"] * done
        assert (await world.sqlite.counts()).waiting == 1, "the old one is gone"
        await world.leap("2026-10-02T08:00:00Z")
        assert len(world.calls) == done + 1


@pytest.mark.pitfall(95)
@pytest.mark.parametrize("ended_by", ["DELETE", "cancel"])
@pytest.mark.parametrize("restart", [False, True])
async def test_what_was_ended_and_put_again_at_once_fires(node: MakeNode, ended_by: str, restart: bool) -> None:
    async with node(at="2026-10-01T14:01:00Z") as world:
        for _ in range(3):
            job_id = (await put(world, "*/3 * * * *"))["job_id"]
            if ended_by == "DELETE":
                await world.client.request("DELETE", f"/v1/jobs/{job_id}")
            else:
                await world.client.post(f"/v1/jobs/{job_id}/cancel")
            await world.clock.advance(99)
        job_id = (await put(world, "*/3 * * * *"))["job_id"]
        if restart:
            await world.down_until("2026-10-01T14:02:00Z", killed=True)
        await world.leap("2026-10-01T14:03:00Z")
        await world.leap("2026-10-01T14:06:00Z")
        assert [word for _, word in await world.states(job_id)] == ["SUCCEEDED"] * 2
        assert len(world.calls) == 2


@pytest.mark.pitfall(97)
@pytest.mark.parametrize("how", ["created", "put", "patch", "resumed", "moved"])
async def test_a_new_or_changed_schedule_waits_for_its_time(node: MakeNode, how: str) -> None:
    async with node(at="2026-10-01T13:02:00Z") as world:
        fields: dict[str, Any] = {"start_at": "2026-10-01T14:00:00Z"}
        expression = "0 15 * * *"
        if how != "created":
            old = {"resumed": expression, "moved": "0 13 * * *"}.get(how, "0 0 1 1 *")
            job_id = (await put(world, old, **(fields if how == "resumed" else {})))["job_id"]
        if how == "resumed":
            await world.client.post(f"/v1/jobs/{job_id}/pause")
        world.clock.step_ms(60 * MINUTE_MS)
        if how == "created":
            job_id = (await put(world, expression, **fields))["job_id"]
        elif how == "resumed":
            await world.client.post(f"/v1/jobs/{job_id}/resume")
        elif how == "moved":
            reply = await world.client.request("PATCH", f"/v1/jobs/{job_id}", {"timezone": "Etc/GMT+2"})
            assert reply.status == 200
        else:
            await change(world, how, job_id, expression, **fields)
        assert await world.due(job_id) == "2026-10-01T15:00:00.000Z"
        await world.leap("2026-10-01T14:10:00Z")
        assert world.calls == []
        await world.leap("2026-10-01T15:00:00Z")
        assert await world.states(job_id) == [("2026-10-01T15:00:00.000Z", "SUCCEEDED")]


@pytest.mark.pitfall(98)
@pytest.mark.parametrize("edited", ["another", "itself"])
@pytest.mark.parametrize("how", ["put", "patch"])
async def test_edits_every_minute_keep_the_ten_minutes_of_the_grid(node: MakeNode, edited: str, how: str) -> None:
    async with node(at="2026-10-01T14:00:30Z") as world:
        steady = (await world.cron("*/10 * * * *"))["job_id"]
        job_id = (await put(world, "*/10 * * * *" if edited == "itself" else "0 0 1 1 *"))["job_id"]
        watched = job_id if edited == "itself" else steady
        for minute in range(1, 32):
            expression = "*/10 * * * *" if edited == "itself" else f"{minute} 0 1 1 *"
            await change(world, how, job_id, expression, payload=minute)
            await world.leap(f"2026-10-01T14:{minute:02d}:00Z")
        assert [at[14:16] for at, _ in await world.states(watched)] == ["10", "20", "30"]
        assert await world.due(watched) == "2026-10-01T14:40:00.000Z"
