"""A server without tokens answers only under names that no page of the web can have."""

import pytest
from starlette.types import Receive, Scope, Send

from tickwheel.interfaces.http.host_check import LocalHostsOnly
from tickwheel.interfaces.http.resource import send_answer
from tickwheel.interfaces.http.wire import Answer

from .asgi_client import AsgiClient
from .world import HttpWorld


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    await send_answer(send, Answer(200))


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8080", "LOCALHOST.:80", "app.localhost", "127.0.0.1:8080", "[::1]:8080", "10.0.0.7"],
)
async def test_addresses_and_localhost_are_answered(host: str) -> None:
    assert (await AsgiClient(LocalHostsOnly(inner)).request("GET", "/", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "", "[x]"]
)
async def test_names_that_a_page_of_the_web_could_have_are_refused(host: str) -> None:
    reply = await AsgiClient(LocalHostsOnly(inner)).request("GET", "/", headers={"Host": host})
    assert (reply.status, reply.code) == (403, "host_not_allowed")


@pytest.mark.parametrize(
    "origin",
    [
        *("https://evil.example", "http://localhost:3000", "http://127.0.0.1:8081", "http://127.0.0.1"),
        *("null", "", "http://", "127.0.0.1:8080", "http://127.0.0.1:8080.evil.example", "http://localhost:8080"),
    ],
)
async def test_pages_of_other_origins_change_nothing(origin: str) -> None:
    """A page could otherwise rotate a signing secret, whose name can be guessed, by a form without fields."""
    client = AsgiClient(LocalHostsOnly(inner))
    headers = {"Host": "127.0.0.1:8080", "Origin": origin}
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        reply = await client.request(method, "/v1/secrets/default/rotate", headers=headers)
        assert (reply.status, reply.code) == (403, "host_not_allowed"), method
        assert "pages of other origins" in reply.json["detail"]
    for method in ("GET", "HEAD", "OPTIONS"):  # browsers don't let the page read the answer
        assert (await client.request(method, "/v1/jobs", headers=headers)).status == 200


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("localhost:8080", "http://LOCALHOST:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("app.localhost", "https://app.localhost"),
    ],
)
async def test_own_pages_and_programs_may_change(host: str, origin: str) -> None:
    client = AsgiClient(LocalHostsOnly(inner))
    for headers in ({"Host": host, "Origin": origin}, {"Host": host}):
        assert (await client.request("POST", "/v1/jobs", headers=headers)).status == 200


async def test_a_server_with_tokens_leaves_pages_to_them(world: HttpWorld) -> None:
    path, headers = "/v1/secrets/default/rotate", {"Host": "127.0.0.1", "Origin": "https://evil.example"}
    assert (await world.client.request("POST", path, headers=headers)).code == "host_not_allowed"
    locked = await HttpWorld().open("a-token")
    try:
        assert (await locked.client.request("POST", path, headers=headers)).code != "host_not_allowed"
    finally:
        await locked.close()
