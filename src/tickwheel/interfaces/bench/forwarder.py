"""Passes TCP connections on to a port of this machine.

`python -m tickwheel.interfaces.bench.forwarder PORT` prints the port that it listens on. Frozen (SIGSTOP), it is a
network that was cut: connections stay open and nothing passes; going on, it delivers what was under way.
"""

import asyncio
import sys
from typing import cast


class Side(asyncio.Protocol):
    """One end of a connection that is passed on; `other` is the other one."""

    def __init__(self, target: int, other: "Side | None" = None) -> None:
        self._target, self.other = target, other
        self.transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._early: list[bytes] = []  # what came before the other end was there

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own class is no subclass of it
        if self.other is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect(self.transport))

    async def _connect(self, client: asyncio.Transport) -> None:
        try:
            loop = asyncio.get_running_loop()
            transport, other = await loop.create_connection(lambda: Side(0, self), "127.0.0.1", self._target)
        except OSError:
            client.abort()
            return
        transport.write(b"".join(self._early))
        self.other = other

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        elif self.other.transport is not None:
            self.other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


async def serve(target: int) -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(lambda: Side(target), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def run(target: int) -> None:
    """On uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(target))
    else:
        uvloop.run(serve(target))


if __name__ == "__main__":
    run(int(sys.argv[1]))
