"""Limits of concurrency through the API of a whole server on SQLite, on virtual time."""

import pytest

from .conftest import MakeNode
from .node import SECOND_MS

TARGET = {"endpoint": "http://127.0.0.1:9/"}


@pytest.mark.pitfall(88)
async def test_a_key_that_is_asked_for_five_times_while_it_runs_runs_once_more(node: MakeNode) -> None:
    async with node(at="2026-10-01T10:00:00Z") as world:
        world.work_ms = lambda work: 60 * SECOND_MS
        limits = [{"key": "k", "limit": 1, "max_waiting": 1}]
        body = {"schedule_type": "INSTANT", "target": TARGET, "concurrency": limits}
        ids = []
        for _ in range(6):
            reply = await world.client.post("/v1/jobs", body)
            assert reply.status == 201
            ids.append(reply.json["job_id"])
            await world.until(world.now() + 2 * SECOND_MS)
        words = [word for job_id in ids for _, word in await world.states(job_id)]
        assert words.count("SCHEDULED") == 1
        assert words.count("limit") == 4
        await world.until(world.now() + 200 * SECOND_MS)
        words = [word for job_id in ids for _, word in await world.states(job_id)]
        assert sorted(words) == ["SUCCEEDED"] * 2 + ["limit"] * 4
        assert max(executor.most_open for executor in world.executors) == 1
        assert (await world.get(ids[0])).json["concurrency"] == [{"scope": "key", **limits[0]}]


async def test_an_edit_lifts_a_limit(node: MakeNode) -> None:
    async with node(at="2026-10-01T10:00:00Z") as world:
        world.work_ms = lambda work: 600 * SECOND_MS
        body = {"schedule_type": "INSTANT", "target": TARGET, "concurrency": [{"key": "k", "limit": 1}]}
        [first, second] = [(await world.client.post("/v1/jobs", body)).json["job_id"] for _ in range(2)]
        await world.until(world.now() + 5 * SECOND_MS)
        assert len(world.calls) == 1
        limits = [{"key": "k", "limit": 2}]
        waiting = second if (await world.get(first)).json["last_run"] else first
        reply = await world.client.request("PATCH", f"/v1/jobs/{waiting}", {"concurrency": limits})
        assert reply.status == 200
        await world.until(world.now() + 3 * SECOND_MS)
        assert len(world.calls) == 2
