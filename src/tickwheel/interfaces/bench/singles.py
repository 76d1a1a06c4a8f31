"""Sends one job per request from many connections at once, each waiting for its answer.

One event loop does it with a protocol per connection: a client library would need more time for a request than the
server does, and what is measured would be the client.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Mapping
from typing import Final, cast

from tickwheel.interfaces.bench.outcome import BenchFailed

LIMIT_S: Final = 600
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class _Sender(asyncio.Protocol):
    """Sends the request again and again, as long as `next_one` says so."""

    def __init__(self, request: bytes, next_one: Callable[[], bool], on_end: Callable[[str], None]) -> None:
        self._request, self._next_one, self._on_end = request, next_one, on_end
        self._answer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by their class
        self._send()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, found, body = self._answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or length is None or len(body) < int(length[1]):
            return
        if not head.startswith(b"HTTP/1.1 201"):
            self._end(f"the server answered {head[:60]!r} {body[:200]!r}")
            return
        self._answer = b""
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._on_end("" if error is None else str(error))

    def _send(self) -> None:
        assert self._transport is not None
        if self._next_one():
            self._transport.write(self._request)
        else:
            self._end("")

    def _end(self, fault: str) -> None:
        assert self._transport is not None
        self._transport.close()
        if fault:
            self._on_end(fault)


class _Crowd:
    """All connections together."""

    def __init__(self, request: bytes, jobs: int, on_sent: Callable[[int], None]) -> None:
        self._request, self._on_sent = request, on_sent
        self._left, self._open = jobs, 0
        self._ended = asyncio.Event()
        self.faults: list[str] = []
        self.created = 0

    async def send(self, port: int, connections: int) -> None:
        loop = asyncio.get_running_loop()
        self._open = connections
        for _ in range(connections):
            sender = _Sender(self._request, self._next_one, self._one_ended)
            await loop.create_connection(lambda sender=sender: sender, "127.0.0.1", port)  # type: ignore[misc]  # bound
        limit = loop.call_later(LIMIT_S, self._one_ended, f"there was no end within {LIMIT_S} s")
        await self._ended.wait()
        limit.cancel()

    def _next_one(self) -> bool:
        if not self._left or self.faults:
            return False
        self._left -= 1
        self.created += 1
        if self.created % 100 == 0:
            self._on_sent(100)
        return True

    def _one_ended(self, fault: str) -> None:
        if fault:
            self.faults.append(fault)
        else:
            self._open -= 1
        if not self._open or self.faults:
            self._ended.set()


def post_singles(
    port: int,
    body: bytes,
    *,
    jobs: int,
    connections: int,
    on_sent: Callable[[int], None],
    headers: Mapping[str, str] | None = None,
) -> int:
    """POST `body` to /v1/jobs that many times; gives how many were created. Raises `BenchFailed`."""
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
    )
    head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items()) + "\r\n"

    async def send() -> int:
        crowd = _Crowd(head.encode() + body, jobs, on_sent)
        await crowd.send(port, min(connections, jobs))
        if crowd.faults:
            raise BenchFailed(crowd.faults[0])
        return crowd.created

    if sys.platform == "win32":
        return asyncio.run(send())
    import uvloop

    return uvloop.run(send())
