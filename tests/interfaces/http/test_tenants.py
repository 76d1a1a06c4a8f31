"""Tenants over HTTP: records, usage, refusals beyond limits, and who may see and change them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tickwheel.domain.access import Role

from .asgi_client import AsgiClient, Reply
from .world import HttpWorld, one_off

STATIC = "static-token-0123456789"


@pytest.fixture
async def world() -> AsyncIterator[HttpWorld]:
    """An API that asks for a token; `client` has the one for everything."""
    opened = await HttpWorld().open(STATIC)
    opened.client = AsgiClient(opened.app, STATIC)
    yield opened
    await opened.close()


async def bound(world: HttpWorld, tenant_id: str, role: Role = Role.SCHEDULER) -> AsgiClient:
    reply = await world.client.post("/v1/tokens", {"role": role.value, "tenant_id": tenant_id})
    return AsgiClient(world.app, reply.json["token"])


async def put(world: HttpWorld, tenant_id: str = "acme", **record: Any) -> Reply:
    reply = await world.client.request("PUT", f"/v1/tenants/{tenant_id}", record)
    assert reply.status == 200, reply.body
    return reply


async def limit(world: HttpWorld, tenant_id: str = "acme", **limits: Any) -> Reply:
    return await put(world, tenant_id, limits=limits)


def refusal(reply: Reply) -> tuple[int, str, str | None]:
    return reply.status, reply.json["code"], reply.json.get("limit")


async def test_the_life_of_a_record(world: HttpWorld) -> None:
    none = await world.client.get("/v1/tenants/acme")
    assert (none.status, none.json["version"], none.json["effective"]["disabled"]) == (200, None, False)
    made = await put(world, limits={"max_jobs": 5}, egress={"allow": ["a.example"]}, note="small")
    assert (made.json["limits"]["max_jobs"], made.json["version"], made.headers["etag"]) == (5, 1, '"1"')
    assert made.json["egress"] == {"allow": ["a.example"], "allow_private": None, "proxy": None}
    assert (await world.client.get("/v1/tenants/acme")).json == made.json
    again = await put(world, disabled=True)
    assert again.json["limits"]["max_jobs"] is None  # a put replaces
    assert (again.json["disabled"], again.json["note"], again.json["version"]) == (True, "", 2)
    assert (await world.client.request("DELETE", "/v1/tenants/acme")).status == 204
    assert (await world.client.request("DELETE", "/v1/tenants/acme")).status == 404
    assert (await world.client.get("/v1/tenants/acme")).json["version"] is None


async def test_defaults_hold_where_a_record_says_nothing(world: HttpWorld) -> None:
    reply = await world.client.request("PUT", "/v1/tenant-defaults", {"limits": {"max_jobs": 9, "concurrency": 3}})
    assert (reply.status, reply.json["limits"]["max_jobs"]) == (200, 9)
    made = await limit(world, max_jobs=5)
    assert made.json["limits"]["concurrency"] is None
    effective = made.json["effective"]["limits"]
    assert (effective["max_jobs"], effective["concurrency"]) == (5, 3)
    other = (await world.client.get("/v1/tenants/other")).json
    assert other["effective"]["limits"]["max_jobs"] == 9
    listed = (await world.client.get("/v1/tenants")).json
    assert [one["tenant_id"] for one in listed["tenants"]] == ["acme"]
    assert listed["defaults"] == (await world.client.get("/v1/tenant-defaults")).json
    assert (await world.client.request("DELETE", "/v1/tenant-defaults")).status == 204
    assert (await world.client.get("/v1/tenants")).json["defaults"]["version"] is None


async def test_a_change_goes_only_over_what_was_read(world: HttpWorld) -> None:
    await limit(world, max_jobs=5)
    path, body = "/v1/tenants/acme", {"limits": {"max_jobs": 6}}
    stale = await world.client.request("PUT", path, body, headers={"If-Match": '"7"'})
    assert (stale.status, stale.code) == (412, "version_mismatch")
    fresh = await world.client.request("PUT", path, body, headers={"If-Match": '"1"'})
    assert (fresh.status, fresh.headers["etag"]) == (200, '"2"')


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"limits": {"max_jobs": -1, "concurrency": 0}}, ["limits.max_jobs", "limits.concurrency"]),
        ({"limits": {"weight": 0}}, ["limits.weight"]),
        ({"limits": {"jobs": 1}}, ["limits.jobs"]),
        ({"limits": 3}, ["limits"]),
        ({"egress": {"allow": ["http://x"]}}, ["egress.allow[0]"]),
        ({"disabled": "yes", "color": 1}, ["disabled", "color"]),
        ({"note": "x" * 1_001}, ["note"]),
    ],
)
async def test_what_is_wrong_is_named(world: HttpWorld, body: dict[str, Any], fields: list[str]) -> None:
    reply = await world.client.request("PUT", "/v1/tenants/acme", body)
    assert (reply.status, reply.code, reply.fields) == (422, "invalid_request", fields)
    assert (await world.client.get("/v1/tenants/acme")).json["version"] is None


async def test_bodies_that_are_no_object(world: HttpWorld) -> None:
    for raw, status in ((b"[]", 400), (b"{", 400), (b'{"note": "a", "note": "b"}', 422)):
        reply = await world.client.request("PUT", "/v1/tenants/acme", raw=raw)
        assert reply.status == status, reply.body


async def test_names_with_slashes_and_blanks(world: HttpWorld) -> None:
    await limit(world, "a%2Fb%20c", max_jobs=2)
    assert world.tenants.of("a/b c").limits.max_jobs == 2
    assert (await world.client.get("/v1/tenants/a%2Fb%20c/usage")).json["tenant_id"] == "a/b c"
    assert (await world.client.request("PUT", "/v1/tenants/a%00b", {})).status == 422


async def test_a_token_of_one_tenant_sees_that_one_only(world: HttpWorld) -> None:
    for tenant_id in ("acme", "other"):
        await limit(world, tenant_id, max_jobs=5)
    client = await bound(world, "acme", Role.READER)
    assert (await client.get("/v1/tenants/acme")).json["limits"]["max_jobs"] == 5
    assert (await client.get("/v1/tenants/acme/usage")).status == 200
    listed = (await client.get("/v1/tenants")).json
    assert [one["tenant_id"] for one in listed["tenants"]] == ["acme"]
    assert listed["defaults"] is None
    answers = [
        await client.get(f"/v1/tenants/{name}{tail}") for name in ("other", "nobody") for tail in ("", "/usage")
    ]
    assert {(reply.status, reply.json["detail"]) for reply in answers} == {
        (404, "This token's tenant has no such thing.")
    }


async def test_only_whoever_may_act_for_all_changes_limits(world: HttpWorld) -> None:
    await limit(world, max_jobs=5)
    admin = await bound(world, "acme", Role.ADMIN)
    for path in ("/v1/tenants/acme", "/v1/tenants/other", "/v1/tenant-defaults"):
        for method, body in (("PUT", {"limits": {}}), ("DELETE", None)):
            reply = await admin.request(method, path, body)
            assert (reply.status, reply.code) == (403, "forbidden")
    assert (await admin.get("/v1/tenant-defaults")).status == 403
    assert (await world.client.get("/v1/tenants/acme")).json["limits"]["max_jobs"] == 5


async def test_changes_are_in_the_audit_log(world: HttpWorld) -> None:
    await limit(world, max_jobs=5)
    await limit(world, max_jobs=6)
    await world.client.request("DELETE", "/v1/tenants/acme")
    entries = (await world.client.get("/v1/audit-log?tenant_id=acme")).json["entries"]
    assert [one["action"] for one in entries] == ["tenant.delete", "tenant.put", "tenant.put"]
    assert (entries[1]["before"], entries[1]["after"]) == (
        {"limits": {"max_jobs": 5}},
        {"limits": {"max_jobs": 6}},
    )


async def test_usage_has_every_limit(world: HttpWorld) -> None:
    await limit(world, max_jobs=3, requests_per_second=100, due_per_second=50, concurrency=4)
    client = await bound(world, "acme")
    for _ in range(3):
        assert (await client.post("/v1/jobs", one_off())).status == 201
    assert refusal(await client.post("/v1/jobs", one_off())) == (429, "quota_exceeded", "max_jobs")
    usage = (await client.get("/v1/tenants/acme/usage")).json
    assert {one["limit"]: (one["allowed"], one["used"]) for one in usage["limits"]} == {
        "max_jobs": (3, 3),
        "max_payload_bytes": (None, None),
        "payload_bytes_per_second": (None, 0),
        "requests_per_second": (100, 5),
        "due_per_second": (50, 0),
        "concurrency": (4, 0),
    }
    assert usage["refused"] == {"max_jobs": 1}
    await world.clock.advance(1_000)
    assert (await client.get("/v1/tenants/other/usage")).status == 404


@pytest.mark.parametrize("is_bound", [True, False])
async def test_requests_beyond_the_rate_are_refused(world: HttpWorld, is_bound: bool) -> None:
    await limit(world, requests_per_second=2)
    client = await bound(world, "acme") if is_bound else world.client
    query = "" if is_bound else "?tenant_id=acme"
    replies = [await client.get(f"/v1/jobs{query}") for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 429]
    assert refusal(replies[2]) == (429, "quota_exceeded", "requests_per_second")
    assert int(replies[2].headers["retry-after"]) >= 1
    made = await client.post("/v1/jobs", one_off() if is_bound else one_off(tenant_id="acme"))
    assert refusal(made) == (429, "quota_exceeded", "requests_per_second")
    named = await client.request(
        "PUT",
        "/v1/jobs/by-name/n",
        {"schedule_type": "CRON", "cron_expression": "* * * * *", "target": {"endpoint": "https://x.example"}}
        | ({} if is_bound else {"tenant_id": "acme"}),
    )
    assert named.status == 429
    assert (await world.client.get("/v1/jobs?tenant_id=other")).status == 200
    await world.clock.advance(1_000)
    assert (await client.get(f"/v1/jobs{query}")).status == 200


async def test_an_operator_looks_after_a_disabled_tenant(world: HttpWorld) -> None:
    created = await world.create()
    await put(world, "default", disabled=True)
    assert refusal(await world.client.post("/v1/jobs", one_off())) == (403, "tenant_disabled", None)
    assert refusal(await world.client.post(f"/v1/jobs/{created['job_id']}/trigger")) == (
        403,
        "tenant_disabled",
        None,
    )
    for path in ("/v1/jobs", "/v1/tokens", "/v1/audit-log"):
        assert (await world.client.get(path)).status == 200
    assert (await world.client.post(f"/v1/jobs/{created['job_id']}/cancel")).status == 200
    await put(world, "default", disabled=False)
    assert (await world.client.post("/v1/jobs", one_off())).status == 201


async def test_an_operator_mends_what_shuts_everybody_out(world: HttpWorld) -> None:
    await world.client.request(
        "PUT", "/v1/tenant-defaults", {"disabled": True, "limits": {"requests_per_second": 1}}
    )
    client = await bound(world, "acme", Role.ADMIN)
    assert refusal(await client.get("/v1/jobs")) == (403, "tenant_disabled", None)
    await put(world, "acme")
    replies = [await client.get("/v1/jobs") for _ in range(2)]
    assert [reply.status for reply in replies] == [200, 429]
    for _ in range(5):
        assert (await world.client.get("/v1/tenants")).status == 200
    assert (await world.client.request("DELETE", "/v1/tenant-defaults")).status == 204
    assert (await client.get("/v1/jobs")).status == 200


async def test_a_disabled_tenant_is_refused_and_its_runs_wait(world: HttpWorld) -> None:
    client = await bound(world, "acme")
    job_id = (await client.post("/v1/jobs", one_off(delay_seconds=5))).json["job_id"]
    other_id = (await world.create(delay_seconds=5))["job_id"]
    await put(world, disabled=True)
    for reply in (await client.get("/v1/jobs"), await client.post("/v1/jobs", one_off())):
        assert refusal(reply) == (403, "tenant_disabled", None)
    batch = await world.client.post("/v1/jobs/batch", [one_off(tenant_id="acme"), one_off()])
    assert (batch.json["created_count"], batch.json["results"][0]["code"]) == (1, "tenant_disabled")
    await world.clock.advance(8_000)
    assert [call.work.tenant_id for call in world.calls] == ["default"]
    assert (await world.get(other_id)).json["status"] == "SUCCEEDED"
    await put(world)
    shown = (await client.get(f"/v1/jobs/{job_id}")).json
    assert shown["status"] == "SCHEDULED"
    await world.clock.advance(2_000)
    assert (await client.get(f"/v1/jobs/{job_id}")).json["status"] == "SUCCEEDED"
    assert [call.work.tenant_id for call in world.calls] == ["default", "acme"]


async def test_what_waits_says_for_what(world: HttpWorld) -> None:
    world.behave = lambda work: None
    await limit(world, concurrency=1)
    made = [(await world.create(tenant_id="acme", delay_seconds=1))["job_id"] for _ in range(2)]
    await world.clock.advance(3_000)
    shown = [(await world.get(job_id, "?tenant_id=acme")).json for job_id in made]
    assert sorted(str(one["waits_for"]) for one in shown) == ["None", "concurrency"]
    assert [one["waits_for"] for one in shown if one["status"] == "SCHEDULED"] == ["concurrency"]
