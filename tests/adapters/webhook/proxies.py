"""Proxies on loopback: one that is asked for tunnels by CONNECT, and one that speaks SOCKS 5. Both really forward.

They keep what they were asked for, and the bytes of the asking, so that a test sees what a proxy learns.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_IPV4, _NAME, _IPV6 = 1, 3, 4


@dataclass
class Proxy:
    """What it was asked for: places as `host:port`, and by whom (`user:password`, or nothing)."""

    places: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)  # instead of a tunnel, for the next that ask
    hosts: dict[str, str] = field(default_factory=dict)  # how this proxy resolves names
    connection_count: int = 0
    port: int = 0
    silent: bool = False

    async def serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        lines = head.decode().split("\r\n")
        method, place, _ = lines[0].split(" ")
        credentials = [line.partition(": Basic ")[2] for line in lines if line.lower().startswith("proxy-auth")]
        self._note(place, base64.b64decode(credentials[0]).decode() if credentials else "")
        assert method == "CONNECT"
        if self.silent:
            await asyncio.Event().wait()
        if self.answers:
            writer.write(self.answers.pop(0))
            await writer.drain()
            return
        upstream = await self._connect(*place.rsplit(":", 1))
        writer.write(b"HTTP/1.1 200 Tunnel\r\nRetry-After: 3000\r\n\r\n")
        await _forward((reader, writer), upstream)

    async def serve_socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, method_count = await reader.readexactly(2)
        methods = await reader.readexactly(method_count)
        user = ""
        if 2 in methods:
            writer.write(b"\x05\x02")
            await reader.readexactly(1)
            name = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
            user = f"{name}:{(await reader.readexactly((await reader.readexactly(1))[0])).decode()}"
            writer.write(b"\x01\x00")
        else:
            writer.write(b"\x05\x00")
        kind = (await reader.readexactly(4))[3]
        length = {_IPV4: 4, _IPV6: 16}.get(kind) or (await reader.readexactly(1))[0]
        raw = await reader.readexactly(length)
        host = raw.decode() if kind == _NAME else str(ip_address(raw))
        port = int.from_bytes(await reader.readexactly(2), "big")
        self._note(f"{host}:{port}", user)
        if self.answers:
            writer.write(self.answers.pop(0))
            await writer.drain()
            return
        upstream = await self._connect(host, str(port))
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await _forward((reader, writer), upstream)

    def _note(self, place: str, user: str) -> None:
        self.places.append(place)
        self.users.append(user)

    async def _connect(self, host: str, port: str) -> Streams:
        return await asyncio.open_connection(self.hosts.get(host, host), int(port))


async def _forward(near: Streams, far: Streams) -> None:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    try:
        await asyncio.gather(copy(near[0], far[1]), copy(far[0], near[1]))
    finally:
        far[1].transport.abort()


@asynccontextmanager
async def running_proxy(kind: str = "http", tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """`http` or `socks5`, on a free port of 127.0.0.1."""
    proxy = Proxy()
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
    serve = proxy.serve_http if kind == "http" else proxy.serve_socks
    serving: set[asyncio.Task[None]] = set()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.connection_count += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
            with suppress(ConnectionError, ssl.SSLError):
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(
        lambda reader, writer: serving.add(asyncio.ensure_future(serve_one(reader, writer))),
        "127.0.0.1",
        0,
        ssl=tls,
    )
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for connection in serving:
            connection.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()
