"""Takes connections over TLS.

The event loop's own server would do the handshakes too, but it has one certificate for good, and nobody counts
whose handshake isn't done. Here a connection takes its place in the room before its handshake begins, and is
served with the certificate of that moment. A client that never ends its handshake is cut off after
`HANDSHAKE_LIMIT_S`, and earlier when its place is needed.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from tickwheel.interfaces.http.connection import BoundedProtocol
from tickwheel.interfaces.http.tls import GOODBYE_LIMIT_S, HANDSHAKE_LIMIT_S, Certificates

PAUSE_S: Final = 1.0
_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log: Final = structlog.get_logger()


class Acceptor:
    """Accepts on one socket until it is closed."""

    def __init__(
        self, listener: socket.socket, certificates: Certificates, connection: Callable[[], BoundedProtocol]
    ) -> None:
        self._listener, self._certificates, self._connection = listener, certificates, connection
        self._loop = asyncio.get_running_loop()
        self._under_way: set[asyncio.Task[None]] = set()
        self._accepting = self._start(self._accept())

    async def close(self) -> None:
        """Accept no more, and give up the handshakes that go on; open connections stay."""
        going_on = list(self._under_way)
        for one in going_on:
            one.cancel()
        await asyncio.gather(*going_on, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        one = self._loop.create_task(work)
        self._under_way.add(one)
        one.add_done_callback(self._under_way.discard)
        return one

    async def _accept(self) -> None:
        while True:
            try:
                accepted, address = await self._loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno not in _OUT_OF_FILES:
                    continue  # this client has gone already
                _log.warning("http.no_files", reason=error.strerror)
                await asyncio.wait((self._loop.create_future(),), timeout=PAUSE_S)
                continue
            connection = self._connection()
            shaking = self._start(self._shake_hands(accepted, connection))
            connection.hang_up = shaking.cancel
            connection.enter(str(address[0]))

    async def _shake_hands(self, accepted: socket.socket, connection: BoundedProtocol) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._certificates.context,
                ssl_handshake_timeout=HANDSHAKE_LIMIT_S,
                ssl_shutdown_timeout=GOODBYE_LIMIT_S,
            )
        except OSError:
            pass  # not TLS, not our certificate's friend, or gone: of no interest beyond that connection
        finally:
            if not connection.connected:
                connection.given_up()
                accepted.close()
