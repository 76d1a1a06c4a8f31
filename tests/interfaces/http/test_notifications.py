"""Rules of notification over HTTP: who may, whose they are, what is refused and why, and trying them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tickwheel.domain.access import Role
from tickwheel.domain.notifications.rule import NotificationRule

from .whole_world import WholeWorld

PATH = "/v1/notifications/ops"
HOOK: dict[str, Any] = {"webhook": {"endpoint": "https://ops.example/hook"}}
RULE: dict[str, Any] = {"events": ["run.dead_lettered"], "to": HOOK}


@pytest.fixture
async def world() -> AsyncIterator[WholeWorld]:
    world = await WholeWorld().open()
    yield world
    await world.close()


async def test_a_rule_is_set_shown_replaced_and_deleted(world: WholeWorld) -> None:
    client = await world.member("acme", Role.OPERATOR)
    made = await client.request("PUT", PATH, RULE | {"tag": "money", "failures": 5})
    assert (made.status, made.headers["etag"]) == (200, '"1"')
    assert made.json == {
        "name": "ops",
        "tenant_id": "acme",
        "events": ["run.dead_lettered"],
        "to": {"webhook": {"endpoint": "https://ops.example/hook", "signing_secret": None}, "email": None},
        "job_name_prefix": None,
        "tag": "money",
        "failures": 5,
        "quiet_seconds": 900,
        "version": 1,
        "updated_at": made.json["updated_at"],
        "warnings": [],
    }
    assert (await client.get(PATH)).json == made.json
    assert (await client.get("/v1/notifications")).json == {"notifications": [made.json]}
    again = await client.request("PUT", PATH, RULE | {"to": {"email": ["a@b.example", "a@b.example"]}})
    assert (again.json["tag"], again.json["version"]) == (None, 2)
    assert again.json["to"] == {"webhook": None, "email": ["a@b.example"]}
    assert (await client.request("DELETE", PATH)).status == 204
    for method, path in (("GET", PATH), ("DELETE", PATH), ("POST", f"{PATH}/test")):
        assert (await client.request(method, path)).status == 404


async def test_a_rule_is_replaced_only_as_it_was_read(world: WholeWorld) -> None:
    client = await world.member("acme")
    await client.request("PUT", PATH, RULE)
    stale = await client.request("PUT", PATH, RULE, headers={"If-Match": '"7"'})
    assert (stale.status, stale.code) == (412, "version_mismatch")
    assert (await client.request("PUT", PATH, RULE, headers={"If-Match": '"1"'})).status == 200


@pytest.mark.parametrize("role", [Role.READER, Role.SCHEDULER, Role.WORKER])
async def test_rules_need_their_scope(world: WholeWorld, role: Role) -> None:
    client = await world.member("acme", role)
    for method, path in (("GET", "/v1/notifications"), ("GET", PATH), ("PUT", PATH), ("POST", f"{PATH}/test")):
        reply = await client.request(method, path, RULE if method == "PUT" else None)
        assert (reply.status, reply.code) == (403, "forbidden")


async def test_rules_of_tenants_are_apart(world: WholeWorld) -> None:
    acme, other = await world.member("acme"), await world.member("other")
    await acme.request("PUT", PATH, RULE)
    assert (await other.get("/v1/notifications")).json == {"notifications": []}
    for method, path in (("GET", PATH), ("DELETE", PATH), ("POST", f"{PATH}/test")):
        assert (await other.request(method, path)).status == 404
        assert (await other.request(method, f"{path}?tenant_id=acme")).status == 404
    assert (await other.request("PUT", f"{PATH}?tenant_id=acme", RULE)).status == 404
    assert (await world.client.get(f"{PATH}?tenant_id=acme")).json["tenant_id"] == "acme"
    assert world.courier.tried == []


async def test_rules_of_the_installation_are_for_tokens_of_all_tenants(world: WholeWorld) -> None:
    wide = f"{PATH}?installation=true"
    made = await world.client.request("PUT", wide, RULE)
    assert (made.status, made.json["tenant_id"]) == (200, None)
    assert (await world.client.get(PATH)).status == 404, "the default tenant has none of that name"
    member = await world.member("acme")
    for method, path in (
        ("GET", wide),
        ("PUT", wide),
        ("DELETE", wide),
        ("POST", f"{PATH}/test?installation=true"),
    ):
        reply = await member.request(method, path, RULE if method == "PUT" else None)
        assert (reply.status, reply.code) == (403, "forbidden")
    both = await world.client.get(f"{wide}&tenant_id=acme")
    assert (both.status, both.json["errors"][0]["field"]) == (422, "installation")
    assert (await world.client.get(f"{PATH}?installation=yes")).status == 422
    assert (await world.client.request("DELETE", wide)).status == 204


@pytest.mark.parametrize(
    ("body", "field", "word"),
    [
        ({"to": HOOK}, "events", "list"),
        (RULE | {"events": []}, "events", "at least one"),
        (RULE | {"events": ["run.failed"]}, "events", "there are run.dead_lettered, "),
        ({"events": ["job.failing"]}, "to", "webhook"),
        (RULE | {"to": {}}, "to", "either"),
        (RULE | {"to": HOOK | {"email": ["a@b.example"]}}, "to", "two rules"),
        (RULE | {"to": {"webhook": {}}}, "to.webhook.endpoint", "address"),
        (RULE | {"to": {"webhook": {"endpoint": "ftp://x"}}}, "to.webhook.endpoint", "http://"),
        (RULE | {"to": {"webhook": {"endpoint": "https://a:b@x.example"}}}, "to.webhook.endpoint", "credentials"),
        (
            RULE | {"to": {"webhook": {"endpoint": "https://x.example", "signing_secret": "a b"}}},
            "to.webhook.signing_secret",
            "letters",
        ),
        (
            RULE | {"to": {"webhook": {"endpoint": "https://x.example", "headers": {}}}},
            "to.webhook.headers",
            "known",
        ),
        (RULE | {"to": {"email": []}}, "to.email", "at least one"),
        (RULE | {"to": {"email": ["x"]}}, "to.email", "ops@example.com"),
        (RULE | {"to": {"email": ["a@b.example\r\nBcc: c@d.example"]}}, "to.email", "plain"),
        (RULE | {"to": {"email": ["a@b.example, c@d.example"]}}, "to.email", "plain"),
        (RULE | {"to": {"email": ["Ops <a@b.example>"]}}, "to.email", "plain"),
        (RULE | {"to": {"email": [f"a{n}@b.example" for n in range(21)]}}, "to.email", "at most 20"),
        (RULE | {"failures": 0}, "failures", "1 to 100"),
        (RULE | {"failures": True}, "failures", "whole number"),
        (RULE | {"quiet_seconds": -1}, "quiet_seconds", "0 to 604800"),
        (RULE | {"job_name_prefix": "x" * 201}, "job_name_prefix", "200"),
        (RULE | {"tag": "a\n"}, "tag", "control"),
        (RULE | {"url": "x"}, "url", "known"),
    ],
)
async def test_what_is_wrong_is_named_with_the_remedy(
    world: WholeWorld, body: dict[str, Any], field: str, word: str
) -> None:
    reply = await world.client.request("PUT", PATH, body)
    assert (reply.status, reply.code) == (422, "invalid_request"), reply.body
    [problem] = reply.json["errors"]
    assert problem["field"] == field
    assert word in problem["message"]
    assert (await world.client.get(PATH)).status == 404


@pytest.mark.parametrize("name", ["-x", "a%20b", "x" * 65, "a%0Ab"])
async def test_a_name_is_a_part_of_paths(world: WholeWorld, name: str) -> None:
    reply = await world.client.request("PUT", f"/v1/notifications/{name}", RULE)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "notification_name")


async def test_a_tenant_has_so_many_rules_at_most(world: WholeWorld) -> None:
    client = await world.member("acme")
    for number in range(50):
        assert (await client.request("PUT", f"{PATH}-{number}", RULE)).status == 200
    assert (await client.request("PUT", PATH, RULE)).status == 422
    assert (await client.request("PUT", f"{PATH}-7", RULE)).status == 200


async def test_trying_a_rule_says_what_became_of_it(world: WholeWorld) -> None:
    client = await world.member("acme")
    world.courier.warned = ["not signed"]
    for reply in (await client.request("PUT", PATH, RULE), await client.get(PATH)):
        assert reply.json["warnings"] == ["not signed"]
    tried = await client.post(f"{PATH}/test")
    assert tried.json == {
        "name": "ops",
        "sent_by": "webhook",
        "delivered": True,
        "error": None,
        "warnings": ["not signed"],
    }
    [told] = world.courier.told
    assert isinstance(told.rule, NotificationRule)
    assert (told.message.tenant_id, told.kind) == ("acme", "notification.trial")
    world.courier.answer = lambda message: "HTTP 500"
    assert (await client.post(f"{PATH}/test")).json["error"] == "HTTP 500"
