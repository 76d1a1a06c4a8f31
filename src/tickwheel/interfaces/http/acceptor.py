"""Takes connections over TLS.

The event loop's own server would do the handshakes too, but it has one certificate for good, and nobody counts
whose handshake isn't done. Here a connection takes its place in the room before its handshake begins, and is
served with the certificate of that moment. A client that says nothing, or never ends its handshake, is cut off
after `HANDSHAKE_LIMIT_S`, and earlier when its place is needed. One that speaks plain HTTP is told so, in plain
HTTP.
"""

import asyncio
import socket
import string
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from tickwheel.interfaces.http.connection import BoundedProtocol, closing_answer
from tickwheel.interfaces.http.tls import Certificates

HANDSHAKE_LIMIT_S: Final = 10
GOODBYE_LIMIT_S: Final = 5
"""How long a client may take to say goodbye before its connection is cut."""
AT_ONCE_COUNT: Final = 64
"""How many are taken before others on the event loop have their turn."""
PAUSE_S: Final = 1.0
PLAIN_ANSWER: Final = closing_answer("tls_needed", "This port speaks TLS: begin the address with https://.")
_LETTERS: Final = frozenset(string.ascii_letters.encode())
"""A request begins with one; a handshake never does."""
_THROWN_AWAY_BYTES: Final = 64 << 10

_log: Final = structlog.get_logger()


class Acceptor:
    """Accepts on one socket, from its making until `close`. On the event loop only."""

    def __init__(
        self, listener: socket.socket, certificates: Certificates, connection: Callable[[], BoundedProtocol]
    ) -> None:
        self._listener, self._certificates, self._connection = listener, certificates, connection
        self._loop = asyncio.get_running_loop()
        self._shaking: set[asyncio.Task[None]] = set()
        self._closed = False
        self._listen()

    async def close(self) -> None:
        """Accept no more, and give up the handshakes that go on; open connections stay."""
        self._closed = True
        self._loop.remove_reader(self._listener)
        going_on = list(self._shaking)
        for one in going_on:
            one.cancel()
        await asyncio.gather(*going_on, return_exceptions=True)

    def _listen(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listener, self._accept_waiting)

    def _accept_waiting(self) -> None:
        for _ in range(AT_ONCE_COUNT):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # mostly: no file descriptor is left
                _log.warning("http.cannot_accept", reason=error.strerror)
                self._loop.remove_reader(self._listener)
                self._loop.call_later(PAUSE_S, self._listen)
                return
            accepted.setblocking(False)
            connection = self._connection()
            shaking = self._loop.create_task(self._shake_hands(accepted, connection))
            self._shaking.add(shaking)
            shaking.add_done_callback(partial(self._on_shaken, accepted, connection))
            connection.hang_up = shaking.cancel
            connection.enter(str(address[0]))

    async def _shake_hands(self, accepted: socket.socket, connection: BoundedProtocol) -> None:
        first = await self._first_byte(accepted)
        if not first:
            return
        if first[0] in _LETTERS:
            accepted.send(PLAIN_ANSWER)
            accepted.recv(_THROWN_AWAY_BYTES)  # what is left unread at the end would reset the connection
            return
        await self._loop.connect_accepted_socket(
            lambda: connection,
            accepted,
            ssl=self._certificates.context,
            ssl_handshake_timeout=HANDSHAKE_LIMIT_S,
            ssl_shutdown_timeout=GOODBYE_LIMIT_S,
        )

    async def _first_byte(self, accepted: socket.socket) -> bytes:
        """What it begins with, left where it is; nothing when nothing comes."""
        readable: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(accepted, _settle, readable)
        try:
            done, _ = await asyncio.wait((readable,), timeout=HANDSHAKE_LIMIT_S)
        finally:
            self._loop.remove_reader(accepted)
        return accepted.recv(1, socket.MSG_PEEK) if done else b""

    def _on_shaken(
        self, accepted: socket.socket, connection: BoundedProtocol, shaking: "asyncio.Task[None]"
    ) -> None:
        self._shaking.discard(shaking)
        if not connection.connected:
            connection.given_up()
            accepted.close()
        if shaking.cancelled():
            return
        error = shaking.exception()
        # Not TLS, no certificate that we trust, gone or too slow: of no interest beyond that connection.
        if error is not None and not isinstance(error, OSError):
            _log.error("http.handshake_failed", exc_info=error)


def _settle(readable: "asyncio.Future[None]") -> None:
    if not readable.done():
        readable.set_result(None)
