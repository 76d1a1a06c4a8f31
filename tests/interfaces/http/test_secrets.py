"""Signing secrets over HTTP: values are told once, names always; everything is the tenant's own."""

from collections.abc import AsyncIterator

import pytest

from tickwheel.domain.signing_key import SCHEME, secret_text

from .bound_tokens import as_tenant
from .pull_world import PullWorld

OWN = secret_text(b"a value that somebody has already")


@pytest.fixture
async def world() -> AsyncIterator[PullWorld]:
    world = await PullWorld().open()
    yield world
    await world.close()


async def test_a_secret_is_told_once_and_kept_by_no_cache(world: PullWorld) -> None:
    made = await world.client.post("/v1/secrets", {"name": "billing"})
    assert (made.status, made.headers["cache-control"]) == (201, "no-store")
    value = made.json["value"]
    assert value.startswith(SCHEME)
    listed = await world.client.get("/v1/secrets")
    [secret] = listed.json["secrets"]
    assert (secret["name"], secret["tenant_id"], secret["keys"][0]["until"]) == ("billing", "default", None)
    assert value.removeprefix(SCHEME).encode() not in listed.body
    again = await world.client.post("/v1/secrets", {"name": "billing"})
    assert (again.status, again.json["code"]) == (409, "conflict")


async def test_rotation_tells_the_new_value_and_until_when_the_old_one_signs(world: PullWorld) -> None:
    await world.client.post("/v1/secrets", {"name": "billing"})
    rotated = await world.client.post("/v1/secrets/billing/rotate", {"overlap_seconds": 60, "value": OWN})
    assert (rotated.status, rotated.headers["cache-control"], rotated.json["value"]) == (200, "no-store", OWN)
    assert [key["until"] is None for key in rotated.json["keys"]] == [True, False]
    bare = await world.client.post("/v1/secrets/billing/rotate")
    assert (bare.status, len(bare.json["keys"])) == (200, 2)
    at_once = await world.client.post("/v1/secrets/billing/rotate", {"overlap_seconds": 0})
    assert len(at_once.json["keys"]) == 1


async def test_a_deleted_secret_is_gone(world: PullWorld) -> None:
    await world.client.post("/v1/secrets", {"name": "billing"})
    assert (await world.client.request("DELETE", "/v1/secrets/billing")).status == 204
    assert (await world.client.request("DELETE", "/v1/secrets/billing")).status == 404
    assert (await world.client.post("/v1/secrets/billing/rotate")).status == 404
    assert (await world.client.get("/v1/secrets")).json == {"secrets": []}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "a/b"}, "name"),
        ({"name": ""}, "name"),
        ({}, "name"),
        ({"name": "x", "value": "whsec_c2hvcnQ="}, "value"),
        ({"name": "x", "value": "p4ssw0rd!"}, "value"),
        ({"name": "x", "extra": 1}, "extra"),
    ],
)
async def test_what_is_wrong_is_named_and_no_value_is_quoted(
    world: PullWorld, body: dict[str, object], field: str
) -> None:
    reply = await world.client.post("/v1/secrets", body)
    assert (reply.status, [one["field"] for one in reply.json["errors"]]) == (422, [field])
    assert b"c2hvcnQ" not in reply.body
    assert b"p4ssw0rd" not in reply.body


async def test_a_job_names_a_secret_that_there_is(world: PullWorld) -> None:
    target = {"endpoint": "https://example.com/x", "signing_secret": "billing"}
    job = {"schedule_type": "INSTANT", "target": target}
    refused = await world.client.post("/v1/jobs", job)
    assert (refused.status, [one["field"] for one in refused.json["errors"]]) == (422, ["target.signing_secret"])
    # `jobs` is that of the other node, which hears of the new one within a second.
    await world.other.post("/v1/secrets", {"name": "billing"})
    created = await world.other.post("/v1/jobs", job)
    assert created.status == 201, created.body
    shown = (await world.client.get(f"/v1/jobs/{created.json['job_id']}")).json
    assert shown["target"]["signing_secret"] == "billing"


@pytest.mark.pitfall(103)
async def test_running_a_job_now_takes_no_target_of_its_own(world: PullWorld) -> None:
    target = {"endpoint": "https://example.com/x", "headers": {"Authorization": "Bearer s3cret"}}
    created = await world.client.post(
        "/v1/jobs", {"schedule_type": "DELAYED", "delay_seconds": 60, "target": target}
    )
    path = f"/v1/jobs/{created.json['job_id']}/trigger"
    for body in ({"target": {"endpoint": "https://evil.example"}}, {"endpoint": "https://evil.example"}):
        refused = await world.client.post(path, body)
        assert (refused.status, refused.json["errors"][0]["field"]) == (422, "body")
    for name, value in (("endpoint", "https://evil.example"), ("target", "x")):
        assert (await world.client.post(f"{path}?{name}={value}")).status == 422
    assert (await world.client.post(path)).status == 201
    jobs = (await world.client.get("/v1/jobs")).json["jobs"]
    assert {job["target"]["endpoint"] for job in jobs} == {"https://example.com/x"}


@pytest.mark.pitfall(103)
async def test_an_edit_that_takes_a_secret_elsewhere_is_forbidden_with_a_code(world: PullWorld) -> None:
    target = {"endpoint": "https://example.com/x", "headers": {"Authorization": "Bearer s3cret"}}
    created = await world.client.post(
        "/v1/jobs", {"schedule_type": "DELAYED", "delay_seconds": 60, "target": target}
    )
    path = f"/v1/jobs/{created.json['job_id']}"
    refused = await world.client.request("PATCH", path, {"target": {"endpoint": "https://evil.example"}})
    assert (refused.status, refused.json["code"]) == (403, "secret_stays")
    assert "Authorization" in refused.json["detail"]
    assert b"s3cret" not in refused.body
    named = {"schedule_type": "CRON", "cron_expression": "0 0 * * *", "target": target}
    assert (await world.client.request("PUT", "/v1/jobs/by-name/sync", named)).status == 201
    evil = {"endpoint": "https://evil.example", "headers": {"Authorization": "[redacted]"}}
    moved = await world.client.request("PUT", "/v1/jobs/by-name/sync", named | {"target": evil})
    assert (moved.status, moved.json["code"]) == (403, "secret_stays")


async def test_a_tenant_sees_and_changes_its_own_only() -> None:
    world = await PullWorld().open("the-token-of-the-installation")
    mine, theirs = as_tenant(world.client, "mine"), as_tenant(world.client, "theirs")
    assert (await mine.post("/v1/secrets", {"name": "billing"})).json["tenant_id"] == "mine"
    assert (await theirs.get("/v1/secrets")).json == {"secrets": []}
    assert (await theirs.post("/v1/secrets/billing/rotate")).status == 404
    assert (await theirs.request("DELETE", "/v1/secrets/billing")).status == 404
    for method, path in (("GET", "/v1/secrets"), ("DELETE", "/v1/secrets/billing")):
        assert (await theirs.request(method, f"{path}?tenant_id=mine")).status == 404
    installation = await world.client.get("/v1/secrets?tenant_id=mine")
    assert [secret["name"] for secret in installation.json["secrets"]] == ["billing"]
    await world.close()
