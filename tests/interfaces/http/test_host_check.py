"""A server without tokens answers only under names that no page of the web can have."""

import pytest
from starlette.types import Receive, Scope, Send

from tickwheel.interfaces.http.host_check import LocalHostsOnly
from tickwheel.interfaces.http.resource import send_answer
from tickwheel.interfaces.http.wire import Answer

from .asgi_client import AsgiClient

LOCAL = ("localhost", "localhost:8080", "LOCALHOST.:80", "app.localhost", "127.0.0.1:80", "[::1]:80", "10.0.0.7")
FOREIGN = ("evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "", "[x]")


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
