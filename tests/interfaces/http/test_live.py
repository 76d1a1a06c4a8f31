"""What is told of the installation as it is now: once, as a stream, by node, and ahead."""

import asyncio
import json
from dataclasses import replace

import pytest

from tickwheel.domain.access import Role
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.interfaces.http.app import build_app
from tickwheel.interfaces.http.wire import iso_text
from tickwheel.ports.registry import Act
from tickwheel.ports.shards import ShardState
from tickwheel.services.live.forecasting import Forecasting
from tickwheel.services.live.overview import Lookout
from tickwheel.services.live.pulse import Pulse
from tickwheel.services.live.recent import Recent

from .asgi_client import AsgiClient
from .world import HttpWorld


class LiveWorld(HttpWorld):
    """A server that is alone on its store, and looks at itself."""

    lookout: Lookout

    async def open(self, *tokens: str) -> "LiveWorld":
        await super().open(*tokens)
        recent = Recent(self.clock)
        emit = self.scheduler._events.emit

        def also(event: object) -> None:
            emit(event)  # type: ignore[arg-type]
            recent.emit(event)  # type: ignore[arg-type]

        self.scheduler._events.emit = also  # type: ignore[method-assign]
        pulse = Pulse(
            recent,
            self.scheduler,
            ownership=lambda: None,
            is_leader=lambda: True,
            name="here",
            version="1.0",
            roles=("api", "scheduler"),
        )
        self.lookout = Lookout(pulse, self.store, self.clock)
        self.deps = replace(self.deps, lookout=self.lookout, forecasting=Forecasting(self.store, self.clock))
        self.app = build_app(self.deps)
        self.client = AsgiClient(self.app)
        return self


async def test_an_empty_server_has_nothing_to_do() -> None:
    world = await LiveWorld().open()
    seen = (await world.client.get("/v1/overview")).json
    assert (seen["standing"], seen["started"], seen["jobs"], seen["nodes"]) == ("idle", 0, 0, 1)
    assert [lane["lane"] for lane in seen["lanes"]] == ["CRITICAL", "HIGH", "DEFAULT", "LOW"]
    assert len(seen["starts_by_second"]) == len(seen["failures_by_second"]) == 60
    await world.close()


async def test_runs_of_the_last_minute_are_told_and_then_forgotten() -> None:
    world = await LiveWorld().open()
    await world.create(priority="HIGH", delay_seconds=5)
    await world.clock.advance(10_000)
    seen = (await world.client.get("/v1/overview")).json
    assert (seen["standing"], seen["started"], seen["succeeded"]) == ("on_time", 1, 1)
    assert [lane["started"] for lane in seen["lanes"]] == [0, 1, 0, 0]
    assert sum(seen["starts_by_second"]) == 1
    await world.clock.advance(70_000)
    assert (await world.client.get("/v1/overview")).json["standing"] == "idle"
    await world.close()


async def test_a_store_that_does_not_answer_is_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> None:
        raise StoreUnavailable("the disk is full")

    world = await LiveWorld().open()
    monkeypatch.setattr(world.store, "counts", broken)
    seen = (await world.client.get("/v1/overview")).json
    assert (seen["standing"], seen["jobs"]) == ("store_unavailable", None)
    assert "the disk is full" in seen["says"]
    await world.close()


async def test_the_stream_tells_every_second_and_ends_after_a_minute() -> None:
    world = await LiveWorld().open()
    asked = asyncio.create_task(world.client.get("/v1/live"))
    await world.clock.advance(65_000)
    reply = await asked
    assert reply.headers["content-type"] == "text/event-stream"
    assert "content-length" not in reply.headers
    blocks = reply.body.decode().split("\n\n")
    assert blocks[0] == "retry: 1000"
    told = [json.loads(block.removeprefix("event: overview\ndata: ")) for block in blocks[1:-1]]
    assert len(told) == 60
    assert told[-1]["now"] > told[0]["now"]
    await world.close()


async def test_the_stream_ends_when_the_server_stops_or_the_client_is_gone() -> None:
    world = await LiveWorld().open()
    for stop in (world.client.hang_up, world.lookout.close):
        asked = asyncio.create_task(world.client.request("GET", "/v1/live", hangs=True))
        await world.clock.advance(2_500)
        assert not asked.done()
        stop()
        await world.clock.advance(1_000)
        assert (await asked).status == 200
    await world.close()


async def test_the_stream_ends_within_a_second_of_the_end_of_its_key() -> None:
    world = await LiveWorld().open("static-token-0123456789")
    made = await world.keys.create(role=Role.OPERATOR, tenant_id="", act=Act("test", "token.create"))
    ends_ms = world.clock.now_ms() + 10_000
    brief = await world.keys.create(role=Role.OPERATOR, tenant_id="", expires_ms=ends_ms, act=Act("test", "x"))
    asked, asked_brief, asked_static = (
        asyncio.create_task(world.client.with_token(token).get("/v1/live"))
        for token in (made.text, brief.text, "static-token-0123456789")
    )
    await world.clock.advance(2_500)
    assert not asked.done()
    await world.keys.revoke(None, made.view.key_id, Act("test", "token.revoke"))
    await world.clock.advance(1_000)
    assert asked.done()
    assert (await asked).body.count(b"event: overview") == 3
    await world.clock.advance(6_000)
    assert not asked_brief.done()
    await world.clock.advance(1_500)
    assert asked_brief.done()
    assert not asked_static.done()
    asked_static.cancel()
    await world.close()


async def test_a_server_that_is_alone_is_one_node_without_shards() -> None:
    world = await LiveWorld().open()
    seen = (await world.client.get("/v1/nodes")).json
    [node] = seen["nodes"]
    assert (node["name"], node["standing"], node["is_this"], node["is_leader"]) == ("here", "alive", True, True)
    assert (seen["shard_count"], seen["free_shards"]) == (0, [])
    await world.close()


async def test_shards_that_nobody_known_holds_are_free() -> None:
    class Shards:
        async def list_shards(self) -> list[ShardState]:
            return [ShardState(0, 1, ""), ShardState(1, 4, "gone.0"), ShardState(2, 1, None)]

    world = await LiveWorld().open()
    client = AsgiClient(build_app(replace(world.deps, shards=Shards())))  # type: ignore[arg-type]
    seen = (await client.get("/v1/nodes")).json
    assert (seen["nodes"][0]["shards"], seen["shard_count"], seen["free_shards"]) == ([0], 3, [1, 2])
    await world.close()


async def test_the_forecast_counts_timers_once_and_recurring_jobs_each_time() -> None:
    world = await LiveWorld().open()
    await world.create(delay_seconds=90)
    for _ in range(25):
        await world.cron("* * * * *", priority="LOW")
    seen = (await world.client.get("/v1/forecast?minutes=5")).json
    assert seen["is_whole"]
    assert sum(seen["due"]) in (25 * 4 + 1, 25 * 5 + 1)
    assert sum(seen["due_by_lane"]["DEFAULT"]) == 1
    assert len(seen["due"]) == 5
    await world.close()


async def test_a_crowded_minute_is_told_with_its_cause() -> None:
    world = await LiveWorld().open()
    for _ in range(30):
        await world.cron("17 * * * *")
    [peak, *_] = (await world.client.get("/v1/forecast?minutes=60")).json["peaks"]
    assert peak["at"][14:16] == "17"
    assert (peak["due"], peak["usual"]) == (30, 0)
    assert peak["causes"] == [
        {"cron_expression": "17 * * * *", "timezone": "UTC", "priority": "DEFAULT", "jobs": 30}
    ]
    assert len(peak["quiet"]) == 5
    await world.close()


async def test_no_crowd_is_told_of_beyond_the_minutes_asked_for_nor_left_out_within() -> None:
    """The most crowded minutes of the day are far away; the one that is near is told all the same."""
    world = await LiveWorld().open()
    for _ in range(20):
        await world.create(delay_seconds=600)
    for hour in range(3, 13):
        for _ in range(30):
            await world.create(delay_seconds=hour * 3_600)
    seen = (await world.client.get("/v1/forecast?minutes=120")).json
    assert [seen["due"][place] for place in seen["crowded"]] == [20] == [peak["due"] for peak in seen["peaks"]]
    whole = (await world.client.get("/v1/forecast?minutes=1440")).json
    assert (len(whole["crowded"]), len(whole["peaks"])) == (11, 8)
    assert (whole["peak_least"], whole["peak_times"]) == (20, 3)
    await world.close()


async def test_the_jobs_of_a_minute_are_those_that_fire_in_it_whenever_their_next_run_is() -> None:
    world = await LiveWorld().open()
    await world.cron("*/20 * * * * *", job_name="thrice")
    await world.cron("0 0 1 1 *", job_name="new-year")
    await world.create(delay_seconds=600, job_name="once")
    paused = (await world.cron("* * * * *", job_name="paused"))["job_id"]
    seen = (await world.client.get("/v1/forecast?minutes=60")).json
    assert (await world.client.post(f"/v1/jobs/{paused}/pause")).status == 200
    place = next(place for place, due in enumerate(seen["due"]) if due == 5)
    at = world.clock.now_ms() // 60_000 * 60_000 + place * 60_000
    due = (await world.client.get(f"/v1/forecast/due?at={iso_text(at + 12_345).replace('+', '%2B')}")).json
    assert due["at"] == iso_text(at)
    assert sorted((one["job_name"], one["runs"], one["recurring"]) for one in due["jobs"]) == [
        ("once", 1, False),
        ("thrice", 3, True),
    ]
    assert due["is_whole"]
    few = (await world.client.get(f"/v1/forecast/due?at={iso_text(at)}&limit=1")).json
    assert (len(few["jobs"]), few["is_whole"]) == (1, False)
    assert (await world.client.get("/v1/forecast/due?at=2099-01-01T00:00:00Z")).json["jobs"] == []
    assert (await world.client.get("/v1/forecast/due")).code == "invalid_request"
    await world.close()


async def test_the_forecast_is_made_anew_after_a_while_only() -> None:
    world = await LiveWorld().open()
    assert sum((await world.client.get("/v1/forecast")).json["due"]) == 0
    await world.create(delay_seconds=600)
    assert sum((await world.client.get("/v1/forecast")).json["due"]) == 0
    await world.clock.advance(31_000)
    assert sum((await world.client.get("/v1/forecast")).json["due"]) == 1
    await world.close()


@pytest.mark.parametrize("path", ["/v1/overview", "/v1/live", "/v1/nodes", "/v1/forecast", "/v1/forecast/due"])
async def test_they_are_about_the_whole_installation(path: str) -> None:
    world = await LiveWorld().open("t0ken")
    issued = await world.keys.create(role=Role.ADMIN, tenant_id="acme", act=Act("test", "token.create"))
    reply = await AsgiClient(world.app, issued.text).get(path)
    assert (reply.status, reply.code) == (403, "forbidden")
    reply = await world.client.get(path)
    assert reply.status == 401
    await world.close()


@pytest.mark.parametrize("path", ["/v1/overview", "/v1/live", "/v1/nodes", "/v1/forecast", "/v1/forecast/due"])
async def test_a_node_that_does_not_look_says_so(world: HttpWorld, path: str) -> None:
    reply = await world.client.get(path)
    assert (reply.status, reply.code) == (503, "not_ready")


async def test_minutes_out_of_bounds_are_refused() -> None:
    world = await LiveWorld().open()
    for wrong in ("0", "1441", "x"):
        assert (await world.client.get(f"/v1/forecast?minutes={wrong}")).fields == ["minutes"]
    await world.close()
