"""A tenant's egress policy holds for webhooks that workers over HTTP execute, as far as their URLs tell."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tickwheel.config import Settings
from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.run import RunState
from tickwheel.wiring.executors import policy_guard

from .pull_world import PullWorld

GOOD, EVIL = "https://api.example.com/x", "https://evil.example/x"


class Policed(PullWorld):
    """`policies` can be changed at any time; nobody looks at targets when jobs are made."""

    def __init__(self) -> None:
        super().__init__()
        self.policies: dict[str, EgressPolicy] = {}

    async def make(self, endpoint: str) -> None:
        target = {"endpoint": endpoint, "headers": {"Authorization": "Bearer planted"}}
        reply = await self.client.post("/v1/jobs", {"schedule_type": "INSTANT", "target": target})
        assert reply.status == 201, reply.body
        await self.clock.advance(100)

    async def take_webhooks(self, **fields: Any) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = (await self.take(webhooks=True, handlers=[], **fields))["runs"]
        return runs

    async def ended(self) -> dict[str, dict[str, Any]]:
        """Endpoint -> the run of its job."""
        await self.clock.advance(100)
        found = {}
        for job in (await self.client.get("/v1/jobs")).json["jobs"]:
            shown = (await self.client.get(f"/v1/jobs/{job['job_id']}")).json
            [run] = (await self.client.get(f"/v1/jobs/{job['job_id']}/runs")).json["runs"]
            found[shown["target"]["endpoint"]] = await self.run(run["run_id"])
        return found


@pytest.fixture
async def world() -> AsyncIterator[Policed]:
    world = Policed()
    await world.open()
    for desk in world.desks:
        desk.refuse_by(policy_guard(Settings(), world.policies.get))
    yield world
    await world.close()


@pytest.mark.pitfall(103)
async def test_a_target_that_was_taken_off_the_list_is_given_to_no_worker(world: Policed) -> None:
    await world.make(GOOD)
    await world.make(EVIL)
    world.policies["default"] = EgressPolicy(allow=("api.example.com",))
    [run] = await world.take_webhooks()
    assert run["target"]["endpoint"] == GOOD
    runs = await world.ended()
    assert runs[GOOD]["status"] == RunState.RUNNING.name
    assert runs[EVIL]["status"] == RunState.FAILED.name
    assert "evil.example:443 is not on the allow-list of the tenant's egress policy" in str(runs[EVIL])
    assert "planted" not in str(runs[EVIL])
    assert await world.take_webhooks() == []


async def test_without_a_policy_the_workers_own_settings_decide(world: Policed) -> None:
    """It may stand in another network, where these addresses are the ones that it is there for."""
    for endpoint in ("http://10.0.0.1:6379/", "http://127.0.0.1/", "http://192.168.0.7/"):
        await world.make(endpoint)
    assert len(await world.take_webhooks(slots={"total": 5, "free": 5})) == 3


async def test_what_nobody_may_call_is_given_to_no_worker(world: Policed) -> None:
    await world.make("http://metadata.google.internal/computeMetadata/v1/")
    assert await world.take_webhooks() == []
    [run] = (await world.ended()).values()
    assert run["status"] == RunState.FAILED.name


async def test_handlers_have_no_address(world: Policed) -> None:
    world.policies["default"] = EgressPolicy(allow=())
    await world.create("work")
    await world.clock.advance(100)
    [run] = (await world.take())["runs"]
    assert run["handler"] == "work"
