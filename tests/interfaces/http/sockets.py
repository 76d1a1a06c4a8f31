"""Bytes to a server and back, and an application that notes which requests reached it."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import Receive, Scope, Send

from tickwheel.interfaces.http.server import HttpServer

HOST = "127.0.0.1"
HEAD = b"POST /first HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
GET = b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ")


class Noting:
    """Answers 200; `begun` and `whole` are the paths of requests that began and whose body was whole."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.begun: list[str] = []
        self.whole: list[str] = []
        self.headers: list[dict[bytes, bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.append(scope["path"])
        while (message := await receive()).get("more_body", False):
            pass
        if message["type"] != "http.request":
            return
        self.whole.append(scope["path"])
        self.headers.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[HttpServer]:
    """That application on a port of its own."""
    server = HttpServer(app, HOST, 0, drain_seconds=1, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def connect(
    server: HttpServer, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection."""
    name = "localhost" if context is not None else None
    return await asyncio.open_connection(HOST, server.port, ssl=context, server_hostname=name)


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Everything until the server closes; a reset is an end too."""
    received = b""
    try:
        while data := await reader.read(65_536):
            received += data
    except ConnectionError:
        pass
    return received


def statuses(received: bytes) -> list[int]:
    """The statuses of the answers, in order."""
    return [int(status) for status in _STATUS.findall(received)]
