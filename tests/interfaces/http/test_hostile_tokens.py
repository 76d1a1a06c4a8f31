"""Tokens in odd forms and odd places, and requests that try to be taken for others."""

from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tickwheel.domain.access import Role

from .asgi_client import AsgiClient
from .world import HttpWorld, one_off

STATIC = "static-token-0123456789"


@pytest.fixture
async def locked() -> AsyncIterator[HttpWorld]:
    world = await HttpWorld().open(STATIC)
    yield world
    await world.close()


async def key_of(world: HttpWorld, role: Role, **fields: Any) -> str:
    made = await AsgiClient(world.app, STATIC).post("/v1/tokens", {"role": role.value, **fields})
    token: str = made.json["token"]
    return token


def basic(token: str) -> str:
    return "Basic " + b64encode(f"x:{token}".encode()).decode()


FORMS = {
    "no scheme": "{}",
    "a tab": "Bearer\t{}",
    "another scheme": "Token {}",
    "two tokens": "Bearer {}, Bearer x",
    "a token behind": "Bearer x, Bearer {}",
    "quoted": 'Bearer "{}"',
    "a semicolon": "Bearer {};",
    "a name": "Bearer token={}",
    "other letters": "Bearer \xff{}",
    "a space within": "Bearer {} x",
    "a null": "Bearer {}\x00",
    "a line break": "Bearer {}\r\nX: y",
    "a wildcard": "Bearer *",
    "nothing": "",
    "the scheme only": "Bearer",
    "blanks only": "Bearer    ",
    "very long": "Bearer " + "a" * 30_000,
    "dots": "Bearer " + "." * 10_000,
    "two dots": "Bearer ..",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_odd_forms_of_a_good_token_open_nothing(locked: HttpWorld, form: str) -> None:
    key = await key_of(locked, Role.ADMIN)
    for token in (STATIC, key):
        reply = await AsgiClient(locked.app).get("/v1/jobs", headers={"Authorization": form.format(token)})
        assert (reply.status, reply.code) == (401, "unauthorized")
        assert "Bearer" in reply.headers["www-authenticate"]
        assert token.encode() not in reply.body


async def test_a_key_that_is_not_quite_right_opens_nothing(locked: HttpWorld) -> None:
    key = await key_of(locked, Role.READER)
    other = await key_of(locked, Role.ADMIN)
    head, _, secret = key.rpartition("_")
    for wrong in (
        *(key[:-1], key + "0", key.upper(), key.swapcase(), key.replace("_", "-"), f"{head}_", f"{head}", secret),
        *(f"{head}_{other.rpartition('_')[2]}", f"{head}_{secret[::-1]}", "tw_", "tw__", f"tw_*_{secret}"),
    ):
        assert (await AsgiClient(locked.app, wrong).get("/v1/jobs")).status == 401, wrong
    assert (await AsgiClient(locked.app, f"  {key}  ").get("/v1/jobs")).status == 200
    lower = {"Authorization": f"bearer {key}"}
    assert (await AsgiClient(locked.app).get("/v1/jobs", headers=lower)).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": f"token={STATIC}; Authorization=Bearer {STATIC}"},
        {"X-Api-Key": STATIC},
        {"X-Authorization": f"Bearer {STATIC}"},
        {"Proxy-Authorization": f"Bearer {STATIC}"},
        {"X-Forwarded-Authorization": f"Bearer {STATIC}"},
        {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1", "X-Real-IP": "127.0.0.1"},
        {"X-Forwarded-User": "admin", "X-Remote-User": "admin", "X-Forwarded-Email": "admin@example.com"},
        {"X-Original-URL": "/healthz", "X-Rewrite-URL": "/healthz", "X-Forwarded-Prefix": "/healthz"},
        {"Authorization": basic(STATIC)},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_what_stands_elsewhere_is_no_token(locked: HttpWorld, headers: dict[str, str]) -> None:
    for path in ("/v1/jobs", "/v1/whoami"):
        assert (await AsgiClient(locked.app).get(path, headers=headers)).status == 401
    reply = await AsgiClient(locked.app).get(f"/v1/jobs?access_token={STATIC}&token={STATIC}", headers=headers)
    assert reply.status == 401


@pytest.mark.parametrize(
    "path",
    [
        *("/healthz/../v1/jobs", "/healthz/%2e%2e/v1/jobs", "/healthz%2f..%2fv1%2fjobs", "//v1/jobs", "/v1/jobs/"),
        *("/v1/%6aobs", "/v1%2fjobs", "/healthz;/v1/jobs", "/healthz%00/v1/jobs", "/HEALTHZ", "/healthz/"),
        *("/v1/jobs%3f", "/./v1/jobs", "/v1/./jobs", "/%68ealthz/x", "/readyz%20"),
    ],
)
async def test_no_spelling_of_a_path_is_public_by_mistake(locked: HttpWorld, path: str) -> None:
    assert (await AsgiClient(locked.app).get(path)).status == 401
    assert (await AsgiClient(locked.app, STATIC).get(path)).status in (200, 404)


@pytest.mark.parametrize(
    "name", ["../auth.py", "..%2fauth.py", "%2e%2e/auth.py", "/etc/passwd", "..%5cauth.py", "style.css%00.py", "."]
)
async def test_files_of_pages_are_those_on_the_list(locked: HttpWorld, name: str) -> None:
    for client in (AsgiClient(locked.app), AsgiClient(locked.app, STATIC)):
        assert (await client.get(f"/assets/{name}")).status in (401, 404)


async def test_ids_of_others_stay_hidden_however_they_are_spelled(locked: HttpWorld) -> None:
    owner = AsgiClient(locked.app, await key_of(locked, Role.OPERATOR, tenant_id="acme"))
    stranger = AsgiClient(locked.app, await key_of(locked, Role.OPERATOR, tenant_id="other"))
    job_id = (await owner.post("/v1/jobs", one_off())).json["job_id"]
    encoded = "".join(f"%{ord(character):02x}" for character in job_id)
    assert (await owner.get(f"/v1/jobs/{encoded}")).status == 200
    unknown = (await stranger.get(f"/v1/jobs/{job_id[:-1]}{'0' if job_id[-1] != '0' else '1'}")).json["detail"]
    for path in (job_id, encoded, f"{job_id}/runs", f"{job_id}%2fruns", f"{encoded}/runs"):
        reply = await stranger.get(f"/v1/jobs/{path}")
        assert (reply.status, reply.code) == (404, "not_found"), path
        assert reply.json["detail"].split("job_")[0] == unknown.split("job_")[0]
        for tenant_id in ("acme", "%61cme", "acme&tenant_id=other", "other&tenant_id=acme"):
            assert (await stranger.get(f"/v1/jobs/{path}?tenant_id={tenant_id}")).status in (404, 422)


async def test_the_audit_log_names_the_peer_and_not_what_a_header_says(locked: HttpWorld) -> None:
    client = AsgiClient(locked.app, STATIC)
    lies = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9", "X-Real-IP": "203.0.113.9"}
    assert (await client.request("POST", "/v1/jobs", one_off(), headers=lies)).status == 201
    log = await client.get("/v1/audit-log")
    assert log.status == 200
    assert b"203.0.113.9" not in log.body
    assert b"127.0.0.1" in log.body
