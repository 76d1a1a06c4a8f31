"""How the objectives stand, over the API: what was counted where, and whose objectives whom concern."""

import dataclasses
from collections.abc import AsyncIterator

import pytest

from tickwheel.domain.slo import LATE_LEAST, parse_objectives
from tickwheel.interfaces.http.app import build_app
from tickwheel.services.authentication import Authentication
from tickwheel.services.punctuality import Punctuality

from ...services.test_punctuality import Heard
from .asgi_client import AsgiClient
from .bound_tokens import BoundTokens, as_tenant
from .world import HttpWorld

OPERATOR = "operator"
OBJECTIVES = ("HIGH=99.9%@1s", "tenant:acme=99%@2s", "LOW/tenant:bolt=95%@1m")


class SloWorld(HttpWorld):
    """Whose node counts starts."""

    async def open(self, *tokens: str) -> "SloWorld":
        self.events = heard = Heard()
        heard.punctuality = Punctuality(parse_objectives(OBJECTIVES), self.clock, "alpha-1")
        await super().open(*tokens)
        authentication = Authentication(self.clock, tokens=tokens, verifier=BoundTokens())
        self.deps = dataclasses.replace(self.deps, punctuality=heard.punctuality, authentication=authentication)
        self.app = build_app(self.deps)
        self.client = AsgiClient(self.app, *tokens[:1])
        return self


@pytest.fixture
async def world() -> AsyncIterator[SloWorld]:
    world = await SloWorld().open(OPERATOR)
    yield world
    await world.close()


async def names(client: AsgiClient, query: str = "") -> list[str]:
    reply = await client.get(f"/v1/slo{query}")
    assert reply.status == 200, reply.body
    return [one["name"] for one in reply.json["objectives"]]


async def test_nothing_started_leaves_the_whole_budget(world: SloWorld) -> None:
    answer = (await world.client.get("/v1/slo")).json
    assert (answer["node"], answer["period_days"]) == ("alpha-1", 30)
    assert answer["counted_since"].endswith("Z")
    assert answer["objectives"][0] == {
        "name": "HIGH",
        "lane": "HIGH",
        "tenant_id": None,
        "target_percent": 99.9,
        "bound_ms": 1_000,
        "starts": 0,
        "late": 0,
        "on_time_percent": None,
        "budget_left_percent": 100.0,
        "burn_rates": {"5m": 0.0, "30m": 0.0, "1h": 0.0, "6h": 0.0, "3d": 0.0},
        "alert": None,
    }


async def test_late_starts_use_the_budget_up(world: SloWorld) -> None:
    for _ in range(3):
        await world.create(schedule_type="INSTANT", priority="HIGH")
    await world.clock.advance(600_000)
    # Noticed when they are looked for.
    await world.add(None, *(world.job(in_ms=-5_000, tenant_id="acme") for _ in range(LATE_LEAST)))
    await world.clock.advance(120_000)
    high, acme, bolt = (await world.client.get("/v1/slo")).json["objectives"]
    assert (high["starts"], high["late"], high["on_time_percent"]) == (3, 0, 100.0)
    assert (acme["starts"], acme["late"], acme["on_time_percent"]) == (10, 10, 0.0)
    assert acme["budget_left_percent"] == -9_900.0
    assert (acme["burn_rates"]["5m"], acme["alert"]) == (100.0, "fast")
    assert acme["burn_rates"]["1h"] == pytest.approx(100 * 12 / 60, abs=0.1)  # calm before the node was there
    assert bolt["starts"] == 0


async def test_a_tenant_sees_its_own_objectives_only(world: SloWorld) -> None:
    assert await names(world.client) == ["HIGH", "tenant:acme", "LOW/tenant:bolt"]
    assert await names(world.client, "?tenant_id=acme") == ["tenant:acme"]
    assert await names(world.client, "?tenant_id=nobody") == []
    bound = as_tenant(world.client, "acme")
    assert await names(bound) == await names(bound, "?tenant_id=acme") == ["tenant:acme"]
    assert (await bound.get("/v1/slo?tenant_id=bolt")).code == "not_found"


async def test_a_wrong_parameter_is_named(world: SloWorld) -> None:
    reply = await world.client.get("/v1/slo?lane=HIGH")
    assert (reply.status, reply.fields) == (422, ["lane"])


async def test_a_node_that_fires_nothing_has_counted_nothing() -> None:
    world = await HttpWorld().open()
    assert (await world.client.get("/v1/slo")).code == "not_ready"
    await world.close()
