"""Every operation that changes something leaves one entry in the audit log: who, from where, before and after.

The table below has an example for each of them. An operation that is in neither table fails a test, so a new one
can't be forgotten.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple

import pytest

from tickwheel.domain.access import Role
from tickwheel.domain.signing_key import secret_text
from tickwheel.interfaces.http.operations import OPERATIONS
from tickwheel.ports.registry import AuditEntry, AuditLogQuery

from .asgi_client import AsgiClient, Reply
from .whole_world import WholeWorld
from .world import one_off

TENANT: Final = "acme"
SECRET: Final = "planted-secret"
OWN_VALUE: Final = secret_text(b"planted secret of 32 bytes or so")
TARGET: Final = {
    "endpoint": f"https://a.example/x?token={SECRET}",
    "headers": {"Authorization": f"Bearer {SECRET}"},
}

NOTHING_TO_NOTE: Final = {
    "preview_schedule": "it reads",
    "poll": "attempts are in the ledger",
    "heartbeat": "attempts are in the ledger",
    "complete": "attempts are in the ledger",
    "fail": "attempts are in the ledger",
    "leave": "attempts are in the ledger",
}

Ask = Callable[[WholeWorld, AsgiClient], Awaitable[Reply]]


class Example(NamedTuple):
    """How to ask, and what the entry says then. `tells`: which of before and after there are."""

    action: str
    subject: str  # a pattern
    tells: str
    ask: Ask
    tenant_id: str = TENANT  # the entry's; for what is about the installation a token of all tenants asks


async def job(world: WholeWorld, *, path: str = "/x", **fields: Any) -> str:
    """The id of a job that somebody else has made."""
    target = {**TARGET, "endpoint": f"https://a.example{path}?token={SECRET}"}
    body = one_off(tenant_id=TENANT, target=target, payload={"planted": SECRET}, **fields)
    reply = await world.client.post("/v1/jobs", body)
    assert reply.status == 201, reply.body
    await world.clock.advance(1_000)
    job_id: str = reply.json["job_id"]
    return job_id


async def run(world: WholeWorld, path: str) -> str:
    """The id of a run that goes on (`/slow`) or is a dead letter (`/never`)."""
    job_id = await job(world, path=path, schedule_type="INSTANT")
    [found] = (await world.client.get(f"/v1/jobs/{job_id}/runs?tenant_id={TENANT}")).json["runs"]
    assert found["status"] == ("RUNNING" if path == "/slow" else "FAILED")
    run_id: str = found["run_id"]
    return run_id


async def token(world: WholeWorld) -> str:
    made = await world.client.post("/v1/tokens", {"role": "reader", "tenant_id": TENANT})
    token_id: str = made.json["token_id"]
    return token_id


async def secret(world: WholeWorld) -> str:
    made = await world.client.post(f"/v1/secrets?tenant_id={TENANT}", {"name": "billing", "value": OWN_VALUE})
    assert made.status == 201
    return "billing"


def on_job(verb: str, method: str = "POST", body: Any = None, *, paused: bool = False) -> Ask:
    async def ask(world: WholeWorld, client: AsgiClient) -> Reply:
        job_id = await job(world)
        if paused:
            await world.client.post(f"/v1/jobs/{job_id}/pause?tenant_id={TENANT}")
        return await client.request(method, f"/v1/jobs/{job_id}{verb}", body)

    return ask


def at(path: str, body: Any, method: str = "POST") -> Ask:
    return lambda world, client: client.request(method, path, body)


async def redrive(world: WholeWorld, client: AsgiClient) -> Reply:
    return await client.post("/v1/dlq/redrive", {"run_ids": [await run(world, "/never")]})


async def delete_dead_letter(world: WholeWorld, client: AsgiClient) -> Reply:
    return await client.request("DELETE", f"/v1/dlq/{await run(world, '/never')}")


async def cancel_run(world: WholeWorld, client: AsgiClient) -> Reply:
    return await client.post(f"/v1/runs/{await run(world, '/slow')}/cancel")


async def rotate_token(world: WholeWorld, client: AsgiClient) -> Reply:
    return await client.post(f"/v1/tokens/{await token(world)}/rotate")


async def revoke_token(world: WholeWorld, client: AsgiClient) -> Reply:
    return await client.request("DELETE", f"/v1/tokens/{await token(world)}")


async def rotate_secret(world: WholeWorld, client: AsgiClient) -> Reply:
    return await client.post(f"/v1/secrets/{await secret(world)}/rotate")


async def delete_secret(world: WholeWorld, client: AsgiClient) -> Reply:
    return await client.request("DELETE", f"/v1/secrets/{await secret(world)}")


async def rule(world: WholeWorld, client: AsgiClient, method: str, rest: str = "") -> Reply:
    path = "/v1/notifications/ops"
    made = await world.client.request("PUT", f"{path}?tenant_id={TENANT}", RULE)
    assert made.status == 200, made.body
    return await client.request(method, path + rest)


async def delete_rule(world: WholeWorld, client: AsgiClient) -> Reply:
    return await rule(world, client, "DELETE")


async def try_rule(world: WholeWorld, client: AsgiClient) -> Reply:
    return await rule(world, client, "POST", "/test")


async def delete_tenant(world: WholeWorld, client: AsgiClient) -> Reply:
    assert (await world.client.request("PUT", "/v1/tenants/acme", LIMITED)).status == 200
    return await client.request("DELETE", "/v1/tenants/acme")


async def delete_defaults(world: WholeWorld, client: AsgiClient) -> Reply:
    assert (await world.client.request("PUT", "/v1/tenant-defaults", LIMITED)).status == 200
    return await client.request("DELETE", "/v1/tenant-defaults")


JOB, RUN = "job_[0-9A-Z]{26}", "run_[0-9A-Z]+"
NEW_JOB: Final = one_off(target=TARGET, payload={"planted": SECRET}, job_name="n")
COMPACT: Final = {
    "trigger_type": "DELAYED",
    "target_endpoint": TARGET["endpoint"],
    "execute_at": "2030-01-01T00:00:00Z",
}
RULE: Final = {"events": ["job.failing"], "to": {"webhook": {"endpoint": TARGET["endpoint"]}}}
LIMITED: Final = {"limits": {"max_jobs": 1_000}}
DAILY: Final = {"schedule_type": "CRON", "cron_expression": "0 3 * * *", "target": TARGET}

EXAMPLES: Final = {
    "create_job": Example("job.create", JOB, "after", at("/v1/jobs", NEW_JOB)),
    "create_jobs": Example("job.create", "2 jobs", "after", at("/v1/jobs/batch", [NEW_JOB, NEW_JOB])),
    "schedule_job": Example("job.create", JOB, "after", at("/v1/jobs/schedule", COMPACT)),
    "put_job": Example("job.put", JOB, "after", at("/v1/jobs/by-name/n", DAILY, "PUT")),
    "edit_job": Example("job.edit", JOB, "both", on_job("", "PATCH", {"priority": "HIGH"})),
    "delete_job": Example("job.delete", JOB, "before", on_job("", "DELETE")),
    "cancel_job": Example("job.cancel", JOB, "both", on_job("/cancel")),
    "pause_job": Example("job.pause", JOB, "both", on_job("/pause")),
    "resume_job": Example("job.resume", JOB, "both", on_job("/resume", paused=True)),
    "trigger_job": Example("job.trigger", JOB, "after", on_job("/trigger")),
    "cancel_run": Example("run.cancel", RUN, "both", cancel_run),
    "redrive_dead_letters": Example("run.redrive", RUN, "both", redrive),
    "delete_dead_letter": Example("dead_letter.delete", RUN, "both", delete_dead_letter),
    "create_token": Example("token.create", "api_key:[0-9a-z]+", "after", at("/v1/tokens", {"role": "reader"})),
    "rotate_token": Example("token.rotate", "api_key:[0-9a-z]+", "both", rotate_token),
    "revoke_token": Example("token.revoke", "api_key:[0-9a-z]+", "before", revoke_token),
    "create_secret": Example(
        "secret.create", "signing_secret:x", "after", at("/v1/secrets", {"name": "x", "value": OWN_VALUE})
    ),
    "put_notification": Example(
        "notification.put", "notification:ops", "after", at("/v1/notifications/ops", RULE, "PUT")
    ),
    "delete_notification": Example("notification.delete", "notification:ops", "before", delete_rule),
    "test_notification": Example("notification.test", "notification:ops", "after", try_rule),
    "put_tenant": Example("tenant.put", "tenant:acme", "after", at("/v1/tenants/acme", LIMITED, "PUT")),
    "delete_tenant": Example("tenant.delete", "tenant:acme", "before", delete_tenant),
    "put_tenant_defaults": Example(
        "tenant.put", "tenant:", "after", at("/v1/tenant-defaults", LIMITED, "PUT"), ""
    ),
    "delete_tenant_defaults": Example("tenant.delete", "tenant:", "before", delete_defaults, ""),
    "rotate_secret": Example("secret.rotate", "signing_secret:billing", "both", rotate_secret),
    "delete_secret": Example("secret.delete", "signing_secret:billing", "before", delete_secret),
}


@pytest.fixture
async def world() -> AsyncIterator[WholeWorld]:
    world = await WholeWorld().open()
    yield world
    await world.close()


async def entries(world: WholeWorld, **filters: Any) -> list[AuditEntry]:
    return list((await world.store.audit_log(AuditLogQuery(None, 500, **filters))).items)


async def asker(world: WholeWorld, name: str) -> AsgiClient:
    """Somebody who may do this, with no more than that takes."""
    [operation] = [one for one in OPERATIONS if one.name == name]
    return await world.member(None if operation.for_installation else TENANT)


async def name_of(client: AsgiClient) -> str:
    name: str = (await client.get("/v1/whoami")).json["principal"]
    return name


def test_each_operation_that_may_change_something_has_an_example() -> None:
    changing = {one.name for one in OPERATIONS if one.method != "GET"}
    assert changing == EXAMPLES.keys() | NOTHING_TO_NOTE.keys()


@pytest.mark.parametrize("name", EXAMPLES)
async def test_it_leaves_one_entry(world: WholeWorld, name: str) -> None:
    example, client = EXAMPLES[name], await asker(world, name)
    actor = await name_of(client)
    reply = await example.ask(world, client)
    assert reply.status in (200, 201, 204), reply.body
    [entry] = await entries(world, actor=actor)
    assert (entry.action, entry.tenant_id, entry.source) == (example.action, example.tenant_id, "127.0.0.1")
    assert entry.at_ms == world.clock.now_ms()
    assert re.fullmatch(example.subject, entry.subject), entry.subject
    sides = {"before": entry.before, "after": entry.after}
    assert [side for side in sides if sides[side] is not None] == {
        "before": ["before"],
        "after": ["after"],
        "both": ["before", "after"],
    }[example.tells]
    assert sides["before"] != sides["after"]


@pytest.mark.parametrize("name", EXAMPLES)
async def test_no_entry_holds_a_secret(world: WholeWorld, name: str) -> None:
    reply = await EXAMPLES[name].ask(world, await asker(world, name))
    secrets = [SECRET, OWN_VALUE.partition("_")[2]]
    if reply.body:
        answer = reply.json
        told_once = [answer[member] for member in ("token", "value") if member in answer]
        secrets += [re.split("_", text)[-1] for text in told_once]
    kept = [repr(entry) for entry in await entries(world)]
    assert kept
    for text in secrets:
        assert not [entry for entry in kept if text in entry]
    shown = await world.client.get("/v1/audit-log?limit=500")
    assert len(shown.json["entries"]) == len(kept)
    assert not [text for text in secrets if text.encode() in shown.body]


@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_refused_request_leaves_none(world: WholeWorld, name: str) -> None:
    reader = await world.member(TENANT, Role.READER)
    actor = await name_of(reader)
    reply = await EXAMPLES[name].ask(world, reader)
    assert (reply.status, reply.code) == (403, "forbidden")
    assert await entries(world, actor=actor) == []


async def test_what_changes_nothing_leaves_none(world: WholeWorld) -> None:
    client = await world.member(TENANT)
    keyed = {**NEW_JOB, "idempotency_key": "k"}
    job_id = (await client.post("/v1/jobs", keyed)).json["job_id"]
    for method, path, body in (
        ("PUT", "/v1/jobs/by-name/n", DAILY),
        ("POST", f"/v1/jobs/{job_id}/pause", None),
        ("POST", f"/v1/jobs/{job_id}/cancel", None),
    ):
        assert (await client.request(method, path, body)).status in (200, 201), path
        before = await entries(world)
        assert (await client.request(method, path, body)).status == 200, path
        assert await entries(world) == before, path
    calls: list[tuple[str, str, Any, int]] = [
        ("POST", "/v1/jobs", keyed, 201),
        ("POST", "/v1/jobs", {**NEW_JOB, "delay_seconds": -1}, 422),
        ("POST", "/v1/jobs/batch", [keyed], 200),
        ("POST", "/v1/dlq/redrive", {"all": True}, 200),
        ("POST", f"/v1/jobs/{job_id}/resume", None, 409),
        ("DELETE", "/v1/tokens/nobody", None, 404),
        ("POST", "/v1/secrets/none/rotate", None, 404),
    ]
    for method, path, body, status in calls:
        assert (await client.request(method, path, body)).status == status, path
    assert await entries(world) == before


async def test_a_batch_of_several_tenants_has_an_entry_for_each(world: WholeWorld) -> None:
    batch = [{**NEW_JOB, "tenant_id": tenant} for tenant in ("a", "b", "a")]
    assert (await world.client.post("/v1/jobs/batch", batch)).status == 200
    found = {entry.tenant_id: entry.subject for entry in await entries(world, action="job.create")}
    assert found.keys() == {"a", "b"}
    assert found["a"] == "2 jobs"
    assert re.fullmatch(JOB, found["b"])
