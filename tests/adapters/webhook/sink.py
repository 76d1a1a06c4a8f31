"""A small HTTP receiver on loopback for tests: it records what it got and misbehaves on request.

The path of a request chooses what happens to it (see `_ANSWERS` and the methods of `Sink`); everything runs on
the test's own event loop.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit


@dataclass
class Received:
    """One request as it came over the wire; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def run_id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Sink:
    """What was received, and the means to answer it."""

    host: str = "127.0.0.1"
    port: int = 0
    scheme: str = "http"
    received: list[Received] = field(default_factory=list)
    connection_count: int = 0
    open_count: int = 0  # requests that are being answered
    open_count_max: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)  # `/gate` answers once this is set

    def url(self, path: str, host: str | None = None) -> str:
        return f"{self.scheme}://{host or self.host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        connection = self.connection_count
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while (request := await _read_request(reader, connection)) is not None:
                self.received.append(request)
                self.open_count += 1
                self.open_count_max = max(self.open_count_max, self.open_count)
                self.arrived.set()
                try:
                    keep = await self._answer(request, writer)
                finally:
                    self.open_count -= 1
                if not keep:
                    break
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> bool:
        parts = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        kind = parts.path.strip("/").split("/")[0]
        return await _ANSWERS[kind](self, request, writer, query)


async def _read_request(reader: asyncio.StreamReader, connection: int) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("utf-8").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = head[0].split(" ", 2)
    headers = {}
    for line in filter(None, head[1:]):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body, connection)


def answer_bytes(status: int, body: bytes = b"", *extra: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", *extra, "", ""]
    return "\r\n".join(lines).encode() + body


async def _status(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    status = int(request.path.split("?")[0].rsplit("/", 1)[1])
    extra = [f"{name}: {value}" for name, value in query.items()]
    body = b"" if request.method == "HEAD" or status in (204, 304) else b"the answer"
    writer.write(answer_bytes(status, body, *extra))
    await writer.drain()
    return True


async def _never(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    await asyncio.Event().wait()
    return False


async def _gate(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    await sink.gate.wait()
    writer.write(answer_bytes(200))
    await writer.drain()
    return True


async def _drip(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    """Headers at once, then a byte every 20 ms and never the end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _huge(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    """An answer without an end."""
    writer.write(f"HTTP/1.1 {query['status']} Word\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    chunk = b"10000\r\n" + b"h" * 0x10000 + b"\r\n"
    while True:
        writer.write(chunk)
        await writer.drain()


async def _headers(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    """Header lines without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000):
        writer.write(f"X-Filler-{number}: {'y' * 1000}\r\n".encode())
        await writer.drain()
    return False


async def _garbage(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    writer.write(b"\x00\xffthis is not HTTP at all\r\n\r\n")
    await writer.drain()
    return False


async def _cut(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
    await writer.drain()
    return False


async def _close(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    return False


async def _reset(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    writer.transport.abort()
    return False


Answer = Callable[[Sink, Received, asyncio.StreamWriter, dict[str, str]], Awaitable[bool]]


async def _echo(sink: Sink, request: Received, writer: asyncio.StreamWriter, query: dict[str, str]) -> bool:
    """The request's own headers by name, after `pad` characters."""
    lines = [f"{name}: {value}" for name, value in sorted(request.headers.items())]
    body = "." * int(query["pad"]) + "\n".join(lines)
    writer.write(answer_bytes(int(query["status"]), body.encode()))
    await writer.drain()
    return True


_ANSWERS: dict[str, Answer] = {
    "status": _status,
    "echo": _echo,
    "never": _never,
    "gate": _gate,
    "drip": _drip,
    "huge": _huge,
    "headers": _headers,
    "garbage": _garbage,
    "cut": _cut,
    "close": _close,
    "reset": _reset,
}


@asynccontextmanager
async def running_sink(
    host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[Sink]:
    """A sink on a port of `host` (0: a free one); its connections are dropped at the end."""
    sink = Sink(host=host, scheme="https" if tls else "http")
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        connections.add(connection)
        try:
            await sink.serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            connections.discard(connection)

    server = await asyncio.start_server(serve, host, port, ssl=tls)
    sink.port = server.sockets[0].getsockname()[1]
    try:
        yield sink
    finally:
        server.close()
        for connection in list(connections):
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()
