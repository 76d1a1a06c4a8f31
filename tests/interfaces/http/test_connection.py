"""The server over a real socket: what a connection may send, and what it hears."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tickwheel.interfaces.http import connection
from tickwheel.interfaces.http.resource import Call, Handler, Resource
from tickwheel.interfaces.http.server import HttpServer
from tickwheel.interfaces.http.wire import Answer, ok


async def echo_length(call: Call) -> Answer:
    return ok({"bytes": len(await call.json_body(1000))})


@asynccontextmanager
async def serving(handler: Handler = echo_length, **options: Any) -> AsyncIterator[HttpServer]:
    app = Resource({"POST": handler, "GET": handler}, None)
    server = HttpServer(app, "127.0.0.1", 0, drain_seconds=5, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def open_count(server: HttpServer) -> int:
    """How many connections the server holds."""
    assert server._server is not None
    return len(server._server.server_state.connections)


async def until(holds: Callable[[], bool]) -> None:
    """Return once it holds; the limit is the test's own."""
    while not holds():
        await asyncio.sleep(0.01)


async def exchange(server: HttpServer, data: bytes, *, half_close: bool = False) -> tuple[int, dict[str, Any]]:
    """Send raw bytes, read one answer until the server closes or the body is whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(data)
        await writer.drain()
        if half_close:
            writer.write_eof()
        return await read_answer(reader)
    finally:
        writer.close()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return status, json.loads(await reader.readexactly(length))


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def test_port_zero_is_bound_and_reported_before_start_returns() -> None:
    async def scenario() -> None:
        async with serving() as server:
            assert server.port > 0
            assert server.url == f"http://127.0.0.1:{server.port}"
            status, body = await exchange(server, HEAD + b"Content-Length: 2\r\n\r\n{}")
            assert (status, body) == (200, {"bytes": 2})

    run(scenario)


def test_a_taken_port_is_an_os_error() -> None:
    async def scenario() -> None:
        async with serving() as server:
            second = HttpServer(Resource({}, None), "127.0.0.1", server.port)
            with pytest.raises(OSError, match="in use"):
                await second.start()

    run(scenario)


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (b"GET /" + b"a" * 40_000, 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 9_000 + b"\r\n", 431, "headers_too_large"),
        (b"hello\r\n\r\n", 400, "malformed_request"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "malformed_request"),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}", 400, "malformed_request"),
        (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400, "malformed_request"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400, "malformed_request"),
        (HEAD + b"Content-Length: 9999999999999999999999\r\n\r\n{}", 400, "malformed_request"),
        (HEAD + b"Content-Length: 5000\r\n\r\n", 413, "body_too_large"),
        (HEAD + b"Content-Length: 5000\r\n\r\n" + b" " * 5000, 413, "body_too_large"),
        (
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + b" " * 2000 + b"\r\n0\r\n\r\n",
            413,
            "body_too_large",
        ),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 415, "unsupported_media_type"),
        (b"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n", 405, "method_not_allowed"),
    ],
)
def test_hostile_bytes_get_a_problem(data: bytes, status: int, code: str) -> None:
    async def scenario() -> None:
        async with serving() as server:
            got, body = await exchange(server, data)
            assert (got, body["code"]) == (status, code)
            assert body["status"] == status

    run(scenario)


@pytest.mark.parametrize(
    "data",
    [
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /%00%ff HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_odd_requests_never_get_a_5xx_and_never_stop_the_server(data: bytes) -> None:
    async def scenario() -> None:
        async with serving() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(data)
            writer.write_eof()
            head = await reader.read(4096)
            writer.close()
            assert head == b"" or 200 <= int(head.split(b" ", 2)[1]) < 500
            assert (await exchange(server, HEAD + b"Content-Length: 2\r\n\r\n{}"))[0] == 200

    run(scenario)


def test_a_body_cut_off_in_the_middle_is_400() -> None:
    async def scenario() -> None:
        async with serving() as server:
            status, body = await exchange(server, HEAD + b'Content-Length: 100\r\n\r\n{"a', half_close=True)
            assert (status, body["code"]) == (400, "incomplete_body")

    run(scenario)


def test_a_client_that_closes_its_sending_half_still_gets_the_answer() -> None:
    async def scenario() -> None:
        async with serving(slow_answer(asyncio.Event(), set_first=True)) as server:
            status, _ = await exchange(server, HEAD + b"Content-Length: 2\r\n\r\n{}", half_close=True)
            assert status == 200

    run(scenario)


def slow_answer(gate: asyncio.Event, *, set_first: bool = False) -> Callable[[Call], Awaitable[Answer]]:
    async def handler(call: Call) -> Answer:
        if set_first:
            asyncio.get_running_loop().call_later(0.05, gate.set)
        await gate.wait()
        return ok({})

    return handler


def test_a_client_that_goes_away_in_the_middle_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving() as server:
            for _ in range(20):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(HEAD + b'Content-Length: 100\r\n\r\n{"a')
                await writer.drain()
                writer.transport.abort()
            assert (await exchange(server, HEAD + b"Content-Length: 2\r\n\r\n{}"))[0] == 200

    run(scenario)
    assert [r for r in caplog.records if r.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    ("data", "status"), [(HEAD, 408), (HEAD + b"Content-Length: 100\r\n\r\n{", 408), (b"", None)]
)
def test_a_request_that_never_becomes_whole_is_given_up(data: bytes, status: int | None) -> None:
    async def scenario() -> None:
        async with serving(request_limit_s=0.1) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(data)
            answer = await reader.read()
            writer.close()
            assert (int(answer.split(b" ", 2)[1]) if answer else None) == status

    run(scenario)


def test_a_slow_answer_is_not_a_slow_request() -> None:
    gate = asyncio.Event()

    async def scenario() -> None:
        async with serving(slow_answer(gate), request_limit_s=0.1) as server:
            asyncio.get_running_loop().call_later(1.3, gate.set)
            assert (await exchange(server, HEAD + b"Content-Length: 2\r\n\r\n{}"))[0] == 200

    run(scenario)


def test_stop_lets_an_open_request_finish_and_refuses_new_connections() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        server = HttpServer(Resource({"POST": slow_answer(gate)}, None), "127.0.0.1", 0, drain_seconds=5)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD + b"Content-Length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.3)
        assert not stopping.done()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", server.port)
        gate.set()
        assert (await read_answer(reader))[0] == 200
        await stopping
        writer.close()

    run(scenario)


def test_stop_does_not_wait_longer_than_the_drain_time() -> None:
    async def scenario() -> None:
        server = HttpServer(
            Resource({"POST": slow_answer(asyncio.Event())}, None), "127.0.0.1", 0, drain_seconds=1
        )
        await server.start()
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD + b"Content-Length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.05)
        before_s = asyncio.get_running_loop().time()
        await server.stop()
        assert asyncio.get_running_loop().time() - before_s < 30
        writer.close()

    run(scenario)


def test_requests_sent_without_waiting_are_answered_in_order() -> None:
    bodies = [b"{}" + b" " * number for number in range(connection.PIPELINE_LIMIT)]

    async def scenario() -> None:
        async with serving() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"".join(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies))
            answers = [await read_answer(reader) for _ in bodies]
            assert answers == [(200, {"bytes": len(body)}) for body in bodies]
            writer.close()

    run(scenario)


def test_a_flood_of_requests_on_one_connection_closes_it(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    async def count(call: Call) -> Answer:
        calls.append(call)
        return ok({})

    async def scenario() -> None:
        async with serving(count) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * (connection.PIPELINE_LIMIT + 2))
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()
            assert (await exchange(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200

    run(scenario)
    assert len(calls) <= 2
    assert not caplog.records


def test_an_answer_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNREAD_LIMIT_S", 0.1)

    async def long(call: Call) -> Answer:
        return ok({"text": "x" * 20_000_000})

    async def scenario() -> None:
        async with serving(long) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1000)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: open_count(server) == 1)
            await until(lambda: open_count(server) == 0)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(20_000_000)
            writer.close()

    run(scenario)


class NotedTransport:
    """Passes everything on, and keeps what was written."""

    def __init__(self, transport: asyncio.BaseTransport, written: list[bytes]) -> None:
        self._transport, self._written = transport, written

    def write(self, data: bytes) -> None:
        self._written.append(bytes(data))
        self._transport.write(data)  # type: ignore[attr-defined]  # a transport that writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What the server wrote, write by write."""
    writes: list[bytes] = []
    made = connection.BoundedProtocol.connection_made

    def connection_made(self: connection.BoundedProtocol, transport: Any) -> None:
        made(self, transport)
        self.transport = NotedTransport(transport, writes)  # type: ignore[assignment]  # stands for one

    monkeypatch.setattr(connection.BoundedProtocol, "connection_made", connection_made)
    return writes


GET = b"GET / HTTP/1.1\r\nHost: a\r\n"


async def test_an_answer_is_one_write(written: list[bytes]) -> None:
    async def hello(call: Call) -> Answer:
        return ok({"hello": "you"}, headers=((b"x-more", b"1"),))

    async with serving(hello) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(2):
            writer.write(GET + b"\r\n")
            assert await read_answer(reader) == (200, {"hello": "you"})
        writer.close()
    assert len(written) == 2
    head, _, body = written[0].partition(b"\r\n\r\n")
    assert body == b'{"hello":"you"}'
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert [line.partition(b": ")[0] for line in lines[1:]] == [
        b"date",
        b"content-type",
        b"x-more",
        b"x-content-type-options",
        b"referrer-policy",
        b"cache-control",
        b"content-security-policy",
        b"content-length",
    ]


@pytest.mark.parametrize("request_head", [GET + b"Connection: close\r\n", b"HEAD" + GET[3:]])
async def test_what_is_not_the_plain_case_is_answered_as_well(written: list[bytes], request_head: bytes) -> None:
    async def hello(call: Call) -> Answer:
        return ok({"hello": "you"})

    async with serving(hello) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_head + b"\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"content-length: 15" in head
    assert b"".join(written).endswith(b'{"hello":"you"}') is not request_head.startswith(b"HEAD")
    assert (b"connection: close" in head) is (b"close" in request_head)


async def test_a_line_break_in_a_header_never_gets_out(written: list[bytes]) -> None:
    async def broken(call: Call) -> Answer:
        return ok({}, headers=((b"location", b"/a\r\nx-evil: 1"),))

    async with serving(broken) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(GET + b"\r\n")
        assert await reader.read() == b"", "the connection is closed"
        writer.close()
    assert not written


@pytest.mark.parametrize("how", ["half-closed", "closed", "reset"])
async def test_a_request_that_waits_learns_that_its_client_has_gone(how: str) -> None:
    """A killed process closes its sockets: that looks as if it had only ended its sending half."""
    waiting, told = asyncio.Event(), asyncio.Event()

    async def wait_for_the_end(call: Call) -> Answer:
        await call.json_body(1000)
        gone = asyncio.Event()
        with call.watching(gone):
            waiting.set()
            await gone.wait()
        told.set()
        return ok({})

    async with serving(wait_for_the_end) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
        writer.write(head)
        await waiting.wait()
        if how == "half-closed":
            writer.write_eof()
            assert (await read_answer(reader))[0] == 200
        elif how == "closed":
            writer.close()
        else:
            writer.transport.abort()
        await told.wait()
        writer.close()


async def test_the_next_request_of_a_connection_is_no_sign_of_its_end() -> None:
    gone = asyncio.Event()

    async def wait_a_moment(call: Call) -> Answer:
        await call.json_body(1000)
        with call.watching(gone):
            await asyncio.sleep(0.05)
            return ok({"gone": gone.is_set()})

    async with serving(wait_a_moment) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
        writer.write(head + head)
        for _ in range(2):
            assert await read_answer(reader) == (200, {"gone": False})
        writer.close()
