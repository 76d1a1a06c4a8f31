"""Tenants whose names would mislead get nothing new, and what stored ones have can still be seen and removed."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

import pytest

from tickwheel.domain.access import Role
from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.quotas import TenantSettings
from tickwheel.ports.registry import API_KEY, TENANT, Act, Record

from .asgi_client import AsgiClient
from .whole_world import WholeWorld

ACT = Act("test", "x")
JOB = {"schedule_type": "DELAYED", "delay_seconds": 60, "target": {"endpoint": "https://x.example"}}
CRON = {"schedule_type": "CRON", "cron_expression": "0 0 * * *", "target": {"endpoint": "https://x.example"}}
COMPACT = {"trigger_type": "CRON", "cron_expression": "0 0 * * *", "target_endpoint": "https://x.example"}
RULE = {"events": ["run.dead_lettered"], "to": {"email": ["ops@example.com"]}}
ODD = pytest.mark.parametrize("quoted", ["%2E%2E", "*", "%20", "a%E2%80%AEb", "acme%20"])


@pytest.fixture
async def whole() -> AsyncIterator[WholeWorld]:
    world = await WholeWorld().open()
    yield world
    await world.close()


@ODD
async def test_nothing_new_is_made_for_it(whole: WholeWorld, quoted: str) -> None:
    name = unquote(quoted)
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/v1/jobs", {**JOB, "tenant_id": name}),
        ("POST", "/v1/jobs", {**CRON, "tenant_id": name}),
        ("POST", "/v1/jobs/schedule", {**COMPACT, "tenant_id": name}),
        ("PUT", f"/v1/jobs/by-name/n?tenant_id={quoted}", CRON),
        ("POST", "/v1/tokens", {"role": "reader", "tenant_id": name}),
        ("POST", f"/v1/secrets?tenant_id={quoted}", {"name": "default"}),
        ("PUT", f"/v1/notifications/ops?tenant_id={quoted}", RULE),
        ("PUT", f"/v1/tenants/{quoted}", {"limits": {"max_jobs": 1}}),
    ]
    for method, path, body in requests:
        reply = await whole.client.request(method, path, body)
        assert (reply.status, reply.fields) == (422, ["tenant_id"]), (method, path, reply.body)
    [many] = (await whole.client.post("/v1/jobs/batch", [{**JOB, "tenant_id": name}])).json["results"]
    assert [problem["field"] for problem in many["errors"]] == ["tenant_id"]


async def test_what_is_stored_under_such_a_name_can_be_read_changed_and_removed(whole: WholeWorld) -> None:
    await whole.store.put_record(Record(TENANT, "..", "..", "{}"), ACT, expected_version=0, shown="{}")
    await whole.tenants.refresh()
    assert "limits" in (await whole.client.get("/v1/tenants/%2E%2E")).json
    assert [one["tenant_id"] for one in (await whole.client.get("/v1/tenants")).json["tenants"]] == [".."]
    put = await whole.client.request("PUT", "/v1/tenants/%2E%2E", {"disabled": True})
    assert put.status == 200, put.body
    assert (await whole.client.request("DELETE", "/v1/tenants/%2E%2E")).status == 204
    for path in ("/v1/jobs", "/v1/dlq", "/v1/tokens", "/v1/audit-log"):
        assert (await whole.client.get(f"{path}?tenant_id=..")).status == 200


async def test_a_key_of_such_a_tenant_still_opens_what_it_has_and_its_jobs_can_be_edited(
    whole: WholeWorld,
) -> None:
    odd, key = " old ", await whole.keys.create(tenant_id="acme", role=Role.ADMIN, act=ACT)
    [record] = [one for one in await whole.store.records(API_KEY) if one.name == key.view.key_id]
    await whole.store.delete_record(API_KEY, "acme", record.name, ACT)
    moved = Record(API_KEY, odd, record.name, record.body)
    await whole.store.put_record(moved, ACT, expected_version=0, shown="{}")
    await whole.clock.advance(2_000)
    await whole.keys.refresh()
    client = AsgiClient(whole.app, key.text)
    job_id = (await client.post("/v1/jobs", JOB)).json["job_id"]
    edited = await client.request("PATCH", f"/v1/jobs/{job_id}", {"payload": 7})
    assert (edited.status, edited.json["tenant_id"]) == (200, odd)
    assert (await client.request("DELETE", f"/v1/jobs/{job_id}")).status == 204


async def test_a_record_that_is_written_past_the_api_is_held_to_it_too(whole: WholeWorld) -> None:
    with pytest.raises(InvalidRequest):
        await whole.tenants.put("*", TenantSettings(), ACT)
