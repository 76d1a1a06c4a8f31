"""The port of this process: greets whoever connects, nudges them, and listens to nobody."""

import asyncio
from typing import Final, cast

from tickwheel.adapters.peers.lines import NUDGE

CONNECTION_LIMIT: Final = 256
UNREAD_LIMIT_BYTES: Final = 4_096
"""Who leaves so much unread gets nothing more."""


class Listener:
    """Open connections from others."""

    def __init__(self, greeting: bytes) -> None:
        self.greeting = greeting
        self.connections: set[asyncio.Transport] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Accept from now on; gives the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Guest(self), host, port)
        return int(self._server.sockets[0].getsockname()[1])

    def nudge(self) -> None:
        """Send a nudge to everybody who is connected."""
        for connection in self.connections:
            if connection.get_write_buffer_size() < UNREAD_LIMIT_BYTES:
                connection.write(NUDGE)

    def close(self) -> None:
        """Refuse from now on, and cut everybody off."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.abort()


class _Guest(asyncio.Protocol):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._listener.connections) >= CONNECTION_LIMIT:
            self._transport.abort()
            return
        self._listener.connections.add(self._transport)
        self._transport.write(self._listener.greeting)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._listener.connections.discard(self._transport)
