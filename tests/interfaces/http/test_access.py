"""Who may do what: tokens, roles, scopes; every endpoint by the list of operations itself."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tickwheel.domain.access import ROLE_SCOPES, Role
from tickwheel.interfaces.http.operations import OPERATIONS, Operation

from .asgi_client import AsgiClient, Reply
from .world import HttpWorld

STATIC = "static-token-0123456789"
PUBLIC = ("/", "/assets/{name}", "/docs", "/healthz", "/openapi.json", "/readyz")
A_JOB = {"schedule_type": "INSTANT", "target": {"endpoint": "https://acme-secret-host.example"}}
ASKED = [one for one in OPERATIONS if not one.public]
NAMED = pytest.mark.parametrize("operation", ASKED, ids=lambda one: one.name)


@pytest.fixture
async def locked() -> AsyncIterator[HttpWorld]:
    """An API that asks for a token."""
    world = await HttpWorld().open(STATIC)
    yield world
    await world.close()


def with_token(world: HttpWorld, token: str) -> AsgiClient:
    return AsgiClient(world.app, token)


async def a_token(world: HttpWorld, role: Role, **fields: Any) -> str:
    reply = await with_token(world, STATIC).post("/v1/tokens", {"role": role.value, **fields})
    assert reply.status == 201, reply.body
    token: str = reply.json["token"]
    return token


async def ask(client: AsgiClient, operation: Operation) -> Reply:
    """With made-up ids; the body is the documented example."""
    path = re.sub(r"\{\w+\}", "x", operation.path)
    body = None if operation.body is None else operation.body.example
    return await client.request(operation.method, path, body)


@pytest.mark.pitfall(101)
@NAMED
async def test_without_a_token_nothing_but_health_is_answered(locked: HttpWorld, operation: Operation) -> None:
    for client in (AsgiClient(locked.app), with_token(locked, "not-the-token"), with_token(locked, "tw_a_b")):
        reply = await ask(client, operation)
        assert (reply.status, reply.code) == (401, "unauthorized")


async def test_only_health_and_what_holds_no_data_is_public() -> None:
    assert sorted(one.path for one in OPERATIONS if one.public) == sorted(PUBLIC)


async def test_the_reference_is_open_and_tells_nothing_of_the_installation(locked: HttpWorld) -> None:
    other = await HttpWorld().open()
    await with_token(locked, await a_token(locked, Role.SCHEDULER, tenant_id="acme")).post("/v1/jobs", A_JOB)
    for path in ("/docs", "/openapi.json"):
        reply = await AsgiClient(locked.app).get(path)
        assert reply.status == 200
        assert reply.body == (await other.client.get(path)).body
        assert b"acme-secret-host" not in reply.body
    await other.close()


@pytest.mark.pitfall(101)
@pytest.mark.parametrize("role", list(Role))
@NAMED
async def test_a_role_opens_what_its_scopes_cover(locked: HttpWorld, operation: Operation, role: Role) -> None:
    reply = await ask(with_token(locked, await a_token(locked, role)), operation)
    if operation.scope in (None, *ROLE_SCOPES[role]) and not operation.for_installation:
        assert reply.status not in (401, 403)
    else:
        assert (reply.status, reply.code) == (403, "forbidden")


@NAMED
async def test_every_operation_says_which_scope_it_needs(operation: Operation) -> None:
    harmless = {"whoami", "asset"}
    assert (operation.scope is None) == (operation.name in harmless)


@pytest.mark.parametrize("path", ["/metrics", "/v1/scaling"])
async def test_what_is_about_all_tenants_needs_a_token_for_all(locked: HttpWorld, path: str) -> None:
    bound = await with_token(locked, await a_token(locked, Role.ADMIN, tenant_id="acme")).get(path)
    assert (bound.status, bound.code) == (403, "forbidden")
    free = await with_token(locked, await a_token(locked, Role.OPERATOR, all_tenants=True)).get(path)
    assert free.status != 403


async def test_a_token_acts_for_its_tenant_without_naming_it(locked: HttpWorld) -> None:
    client = with_token(locked, await a_token(locked, Role.SCHEDULER, tenant_id="acme"))
    created = await client.post(
        "/v1/jobs", {"schedule_type": "INSTANT", "target": {"endpoint": "https://x.example"}}
    )
    assert created.json["tenant_id"] == "acme"
    batch = await client.post(
        "/v1/jobs/batch", [{"schedule_type": "INSTANT", "target": {"endpoint": "https://x.example"}}]
    )
    assert batch.status == 200
    listed = await client.get("/v1/jobs")
    assert {job["tenant_id"] for job in listed.json["jobs"]} == {"acme"}
    assert len(listed.json["jobs"]) == 2


@pytest.mark.parametrize("other", ["default", "other", "no-such-tenant"])
async def test_another_tenant_in_a_body_is_refused_by_name(locked: HttpWorld, other: str) -> None:
    client = with_token(locked, await a_token(locked, Role.ADMIN, tenant_id="acme"))
    job = {"schedule_type": "INSTANT", "target": {"endpoint": "https://x.example"}, "tenant_id": other}
    for path in ("/v1/jobs", "/v1/jobs/batch"):
        reply = await client.post(path, [job] if path.endswith("batch") else job)
        errors = reply.json["results"][0]["errors"] if path.endswith("batch") else reply.json["errors"]
        assert [(one["field"], one["code"]) for one in errors] == [("tenant_id", "conflict")]
    named = await client.request(
        "PUT", "/v1/jobs/by-name/n", {**job, "schedule_type": "CRON", "cron_expression": "* * * * *"}
    )
    assert named.status == 422
    compact = {
        "trigger_type": "DELAYED",
        "target_endpoint": "https://x.example",
        "execute_at": "2030-01-01T00:00:00Z",
    }
    assert (await client.post("/v1/jobs/schedule", {**compact, "tenant_id": other})).status == 422
    assert (await client.get("/v1/jobs")).json["jobs"] == []


@pytest.mark.parametrize("other", ["default", "other", "no-such-tenant"])
async def test_another_tenant_in_the_query_is_not_found(locked: HttpWorld, other: str) -> None:
    client = with_token(locked, await a_token(locked, Role.ADMIN, tenant_id="acme"))
    for path in ("/v1/jobs", "/v1/dlq", "/v1/tokens", "/v1/audit-log", "/v1/jobs/job_x"):
        assert (await client.get(f"{path}?tenant_id={other}")).status == 404
        assert (await client.get(f"{path}?tenant_id=acme")).status == (404 if path.endswith("x") else 200)


async def test_a_token_gives_only_what_it_has_itself(locked: HttpWorld) -> None:
    admin = with_token(locked, await a_token(locked, Role.ADMIN, tenant_id="acme"))
    for body, status in (
        ({"role": "reader"}, 201),
        ({"role": "reader", "tenant_id": "acme"}, 201),
        ({"role": "reader", "tenant_id": "other"}, 422),
        ({"role": "reader", "all_tenants": True}, 403),
        ({"role": "admin"}, 201),
    ):
        assert (await admin.post("/v1/tokens", body)).status == status, body
    narrow = with_token(locked, await a_token(locked, Role.ADMIN, scopes=["tokens:write", "jobs:read"]))
    assert (await narrow.post("/v1/tokens", {"role": "reader"})).status == 403
    assert (await narrow.post("/v1/tokens", {"role": "reader", "scopes": ["jobs:read"]})).status == 201


async def test_a_new_secret_is_only_for_whoever_may_do_as_much(locked: HttpWorld) -> None:
    strong = await a_token(locked, Role.ADMIN)
    narrow = with_token(locked, await a_token(locked, Role.ADMIN, scopes=["tokens:write"]))
    reply = await narrow.post(f"/v1/tokens/{strong.split('_')[1]}/rotate", {})
    assert (reply.status, reply.code) == (403, "forbidden")


async def test_the_life_of_a_token(locked: HttpWorld) -> None:
    client = with_token(locked, STATIC)
    made = await client.post("/v1/tokens", {"role": "reader", "label": "dashboards", "expires_in_seconds": 3600})
    token_id, first = made.json["token_id"], made.json["token"]
    me = await with_token(locked, first).get("/v1/whoami")
    assert (me.json["principal"], me.json["tenant_id"]) == (f"key:{token_id}", "default")
    shown = await client.get(f"/v1/tokens/{token_id}")
    assert "token" not in shown.json
    assert shown.json["last_used_at"] is not None
    assert shown.json["expires_at"] == made.json["expires_at"]
    second = (await client.post(f"/v1/tokens/{token_id}/rotate", {"grace_seconds": 60})).json["token"]
    for token in (first, second):
        assert (await with_token(locked, token).get("/v1/jobs")).status == 200
    await locked.clock.advance(60_000)
    assert (await with_token(locked, first).get("/v1/jobs")).status == 401
    assert (await client.request("DELETE", f"/v1/tokens/{token_id}")).status == 204
    assert (await with_token(locked, second).get("/v1/jobs")).status == 401
    assert (await client.get(f"/v1/tokens/{token_id}")).status == 404
    log = (await client.get("/v1/audit-log?action=token.")).json["entries"]
    assert [entry["action"] for entry in log] == ["token.revoke", "token.rotate", "token.create"]
    assert {entry["actor"] for entry in log} == {"token"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "role"),
        ({"role": "king"}, "role"),
        ({"role": "reader", "scopes": ["jobs:write"]}, "scopes"),
        ({"role": "reader", "scopes": ["fly"]}, "scopes[0]"),
        ({"role": "reader", "tenant_id": "a", "all_tenants": True}, "tenant_id"),
        ({"role": "reader", "tenant_id": "a\x00b"}, "tenant_id"),
        ({"role": "reader", "label": "a\x00b"}, "label"),
        ({"role": "reader", "expires_in_seconds": 5}, "expires_in_seconds"),
        ({"role": "reader", "expires": 5}, "expires"),
    ],
)
async def test_a_wrong_request_is_told_by_field(locked: HttpWorld, body: dict[str, Any], field: str) -> None:
    reply = await with_token(locked, STATIC).post("/v1/tokens", body)
    assert reply.status == 422
    assert [one["field"] for one in reply.json["errors"]] == [field]


async def test_an_open_server_knows_the_tokens_that_it_is_sent(world: HttpWorld) -> None:
    """So that a worker or a client with a token is kept to its tenant on a developer's machine too."""
    made = await world.client.post("/v1/tokens", {"role": "reader", "tenant_id": "acme"})
    reader = with_token(world, made.json["token"])
    assert (await reader.get("/v1/whoami")).json["tenant_id"] == "acme"
    assert (await reader.post("/v1/jobs", {})).status == 403
    assert (await with_token(world, "stranger").get("/v1/whoami")).json["principal"] == "anonymous"


async def test_the_audit_log_tells_what_keys_are_called_revoked_ones_too(locked: HttpWorld) -> None:
    static = with_token(locked, STATIC)
    shop = await a_token(locked, Role.SCHEDULER, tenant_id="acme", label="orders service")
    ops = await a_token(locked, Role.OPERATOR, all_tenants=True, label="the night shift")
    bare = await a_token(locked, Role.SCHEDULER, tenant_id="acme")
    for token in (shop, ops, bare):
        made = await with_token(locked, token).post("/v1/jobs", A_JOB | {"tenant_id": "acme"})
        assert made.status == 201

    async def labels(client: AsgiClient) -> list[str | None]:
        entries = (await client.get("/v1/audit-log?action=job")).json["entries"]
        return [entry["actor_label"] for entry in entries]

    assert await labels(static) == [None, "the night shift", "orders service"]
    for token in (shop, ops):
        assert (await static.request("DELETE", f"/v1/tokens/{token.split('_')[1]}")).status == 204
    for _ in range(2):
        assert await labels(static) == [None, "the night shift", "orders service"]
    assert await labels(with_token(locked, await a_token(locked, Role.ADMIN, tenant_id="acme"))) == [
        None,
        None,
        "orders service",
    ]


async def test_changes_are_in_the_audit_log_with_who_and_from_where(locked: HttpWorld) -> None:
    client = with_token(locked, await a_token(locked, Role.ADMIN, tenant_id="acme", label="ops"))
    made = await client.post(
        "/v1/jobs",
        {
            "schedule_type": "CRON",
            "cron_expression": "*/5 * * * *",
            "target": {"endpoint": "https://x.example/a", "headers": {"Authorization": "Bearer planted"}},
            "payload": {"planted": "payload"},
        },
    )
    job = f"/v1/jobs/{made.json['job_id']}"
    assert (await client.request("PATCH", job, {"cron_expression": "*/7 * * * *"})).status == 200
    for verb in ("pause", "resume", "trigger", "cancel"):
        assert (await client.post(f"{job}/{verb}", {})).status in (200, 201), verb
    assert (await client.request("DELETE", job)).status == 204
    page = await client.get("/v1/audit-log?action=job.")
    actions = [entry["action"] for entry in page.json["entries"]]
    assert actions == [f"job.{v}" for v in ("delete", "cancel", "trigger", "resume", "pause", "edit", "create")]
    edited = page.json["entries"][-2]
    assert (edited["before"]["cron_expression"], edited["after"]["cron_expression"]) == (
        "*/5 * * * *",
        "*/7 * * * *",
    )
    assert edited["subject"] == made.json["job_id"]
    assert edited["tenant_id"] == "acme"
    assert edited["actor"].startswith("key:")
    assert b"planted" not in page.body
    mine = await with_token(locked, await a_token(locked, Role.ADMIN, tenant_id="other")).get("/v1/audit-log")
    assert {entry["tenant_id"] for entry in mine.json["entries"]} == {"other"}
