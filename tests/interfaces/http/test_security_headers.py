"""What every answer tells browsers, and that no other site's script reads one."""

import re

import pytest

from tickwheel.interfaces.http.echo import Echo
from tickwheel.interfaces.http.operations import OPERATIONS, Operation

from .asgi_client import AsgiClient, Reply
from .sockets import Noting, connect, read_to_end, serving
from .world import HttpWorld

STRANGER = "https://evil.example"
EVERY = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
PAGES = ("/", "/docs")


def path_of(operation: Operation) -> str:
    return re.sub(r"\{\w+\}", "x", operation.path)


async def ask(client: AsgiClient, operation: Operation, **headers: str) -> Reply:
    """With made-up ids; the body is the documented example."""
    body = None if operation.body is None else operation.body.example
    return await client.request(operation.method, path_of(operation), body, headers=headers)


def assert_safe(headers: dict[str, str]) -> None:
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "no-store" in headers["cache-control"] or "private" in headers["cache-control"]
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert not [name for name in headers if name.startswith("access-control-")]


@EVERY
async def test_every_answer_of_the_api_carries_them(operation: Operation) -> None:
    open_world, locked = await HttpWorld().open(), await HttpWorld().open("a-token-of-some-length")
    reply = await ask(open_world.client, operation)
    assert_safe(reply.headers)
    assert "no-store" in reply.headers["cache-control"]
    assert_safe((await ask(locked.client, operation)).headers)
    for world in (open_world, locked):
        await world.close()


async def test_pages_and_what_is_not_there_carry_them(world: HttpWorld) -> None:
    for path in (*PAGES, "/nix", "/assets/nix", "/openapi.json"):
        assert_safe((await world.client.get(path)).headers)
    assert_safe((await world.client.request("TRACE", "/v1/jobs")).headers)
    assert_safe((await AsgiClient(Echo(world.app)).post("/echo", {})).headers)
    page = (await world.client.get("/")).headers["content-security-policy"]
    for directive in ("base-uri 'none'", "frame-ancestors 'none'"):
        assert directive in page


@EVERY
async def test_no_other_site_is_let_read_or_ask(operation: Operation) -> None:
    world = await HttpWorld().open("a-token-of-some-length")
    headers = {
        "Origin": STRANGER,
        "Access-Control-Request-Method": operation.method,
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    for client in (world.client, AsgiClient(world.app, "a-token-of-some-length")):
        preflight = await client.request("OPTIONS", path_of(operation), headers=headers)
        answer = await ask(client, operation, Origin=STRANGER)
        for reply in (preflight, answer):
            assert not [name for name in reply.headers if name.startswith("access-control-")]
            assert STRANGER.encode() not in reply.body
    await world.close()


async def test_answers_of_the_connection_itself_carry_them() -> None:
    async with serving(Noting()) as server:
        reader, writer = await connect(server)
        writer.write(b"nonsense\r\n\r\n")
        head = (await read_to_end(reader)).partition(b"\r\n\r\n")[0].decode()
        writer.close()
    lines = [line.partition(": ") for line in head.split("\r\n")[1:]]
    assert_safe({name: value for name, _, value in lines})
