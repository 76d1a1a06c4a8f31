"""A receiver of webhooks in a process of its own: answers 204 and notes when each request came.

`python -m tickwheel.interfaces.bench.sink FILE` prints its port and, when it is told to end, writes one pair of
64-bit integers per request (scheduled ms, received ms) to FILE.
"""

import asyncio
import signal
import sys
from array import array
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import cast

import httptools

from tickwheel.wiring import system_clock

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class PlainReceiver(asyncio.Protocol):
    """The transport and the parser of one connection."""

    _parser: httptools.HttpRequestParser

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is no subclass of it

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)


class Receiver(PlainReceiver):
    """One connection."""

    def __init__(self, calls: "array[int]") -> None:
        self._calls = calls
        self._parser = httptools.HttpRequestParser(self)
        self._scheduled_ms = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if name.lower() == b"x-scheduled-at":
            self._scheduled_ms = round(datetime.fromisoformat(value.decode()).timestamp() * 1000)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._calls.append(self._scheduled_ms)
        self._calls.append(_clock.now_ms())
        self._transport.write(ANSWER)


_clock = system_clock()


async def serve(receiver: Callable[[], PlainReceiver]) -> None:
    """Serve until SIGTERM."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    server = await loop.create_server(receiver, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await over.wait()


def run(path: Path, kind: Callable[["array[int]"], PlainReceiver]) -> None:
    """On uvloop where there is one; what the connections noted is written at the end."""
    calls = array("q")
    server = serve(lambda: kind(calls))
    try:
        import uvloop
    except ImportError:
        asyncio.run(server)
    else:
        uvloop.run(server)
    path.write_bytes(calls.tobytes())


if __name__ == "__main__":
    run(Path(sys.argv[1]), Receiver)
