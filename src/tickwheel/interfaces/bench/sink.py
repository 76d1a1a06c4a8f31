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
from functools import lru_cache
from pathlib import Path
from typing import cast

import httptools

from tickwheel.wiring import system_clock

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_HEAD_END, _LENGTH, _SCHEDULED = b"\r\n\r\n", b"\r\nContent-Length: ", b"\r\nX-Scheduled-At: "


class PlainReceiver(asyncio.Protocol):
    """The transport and the parser of one connection."""

    _parser: httptools.HttpRequestParser

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is no subclass of it

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)


class Receiver(asyncio.Protocol):
    """One connection of our own client, which shares its machine: no more is read than has to be."""

    def __init__(self, calls: "array[int]") -> None:
        self._calls = calls
        self._waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data = self._waiting + data
        while (end := data.find(_HEAD_END)) >= 0:
            size = end + len(_HEAD_END) + int(_value(data, _LENGTH, end) or 0)
            if len(data) < size:
                break
            self._calls.append(_epoch_ms(_value(data, _SCHEDULED, end)))
            self._calls.append(_clock.now_ms())
            self._transport.write(ANSWER)
            data = data[size:]
        self._waiting = data


def _value(data: bytes, name: bytes, end: int) -> bytes:
    """Of a header as our client spells it, in a head that ends at `end`; empty if it is not there."""
    start = data.find(name, 0, end)
    if start < 0:
        return b""
    start += len(name)
    return data[start : data.find(b"\r", start)]


@lru_cache(maxsize=1024)
def _epoch_ms(text: bytes) -> int:
    return round(datetime.fromisoformat(text.decode()).timestamp() * 1000)


_clock = system_clock()


async def serve(receiver: Callable[[], asyncio.Protocol]) -> None:
    """Serve until SIGTERM."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    server = await loop.create_server(receiver, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await over.wait()


def run(path: Path, kind: Callable[["array[int]"], asyncio.Protocol]) -> None:
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
