"""The server: uvicorn inside an event loop that is already running, over TLS if there is a certificate.

The socket is bound before anything else starts, so a taken port is an ordinary `OSError`, port 0 is known at once,
and `start` returns only when connections are accepted. Signals are left to the caller, who decides in which order
things stop; `stop` lets requests that are being answered finish, within a bound.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from tickwheel.interfaces.http.acceptor import Acceptor
from tickwheel.interfaces.http.connection import REQUEST_LIMIT_S, BoundedProtocol
from tickwheel.interfaces.http.listening import BACKLOG_COUNT, bind
from tickwheel.interfaces.http.room import Room, RoomLimits
from tickwheel.interfaces.http.tls import Certificates

KEEP_ALIVE_S: Final = 75
"""Longer than the usual 60 s of load balancers, so that they close first and never meet a closing connection."""
CERTIFICATE_CHECK_S: Final = 60
HSTS_SECONDS: Final = 31_536_000
"""How long browsers call a name that has answered over TLS in no other way: a year."""
_TICKS_PER_SECOND: Final = 10
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers; tells when it listens and looks after slow clients."""

    def __init__(
        self, config: uvicorn.Config, room: Room, certificates: Certificates | None, request_limit_s: float
    ) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._room = room
        self._certificates, self._request_limit_s = certificates, request_limit_s
        self._acceptors: list[Acceptor] = []
        self._renewing: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        self.servers = []
        for listener in sockets or []:
            if self._certificates is None:
                self.servers.append(await loop.create_server(self._connection, sock=listener))
            else:
                self._acceptors.append(Acceptor(listener, self._certificates, self._connection))
        self.started = True
        self.listening.set()

    def _connection(self) -> BoundedProtocol:
        return BoundedProtocol(
            self.config,
            self.server_state,
            self.lifespan.state,
            room=self._room,
            request_limit_s=self._request_limit_s,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            await acceptor.close()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SECOND == 0:
            now_s = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.overdue(now_s)
            self._room.tidy(now_s)
        if counter % (_TICKS_PER_SECOND * CERTIFICATE_CHECK_S) == 0:
            self.renew_certificate(changed_only=True)
        return await super().on_tick(counter)

    def renew_certificate(self, *, changed_only: bool) -> None:
        """Look at the files of the certificate, in a thread: a disk may be slow."""
        if self._certificates is None or (changed_only and self._renewing):
            return
        work = asyncio.to_thread(self._certificates.renew, changed_only=changed_only)
        renewing = asyncio.create_task(work, name="renew-certificate")
        self._renewing.add(renewing)
        renewing.add_done_callback(self._renewing.discard)


class HttpServer:
    """Serves one ASGI application on one address.

    One of several processes shares its address with the others and serves on a socket of its `own` besides. With
    `certificates` it serves over TLS, on both.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        drain_seconds: int = 10,
        own: socket.socket | None = None,
        limits: RoomLimits = RoomLimits(),  # noqa: B008 - a value
        certificates: Certificates | None = None,
        request_limit_s: float = REQUEST_LIMIT_S,
    ) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._drain_seconds = drain_seconds
        self._own = own
        self._room = Room(limits)
        self._certificates, self._request_limit_s = certificates, request_limit_s
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The bound port; what was asked for until `start` has returned."""
        return self._port

    @property
    def url(self) -> str:
        """The address to open; a wildcard host is shown as localhost."""
        return shown_url(self._host, self._port, tls=self._certificates is not None)

    @property
    def room(self) -> Room:
        """Its connections."""
        return self._room

    async def start(self) -> None:
        """Bind and serve; returns once connections are accepted. Raises `OSError` if the address is not free."""
        if self._certificates is not None:
            self._certificates.tell()
        listeners = [bind(self._host, self._port, shared=self._own is not None)]
        self._port = listeners[0].getsockname()[1]
        if self._own is not None:
            listeners.append(self._own)
        config = uvicorn.Config(
            self._app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=self._drain_seconds,
            backlog=BACKLOG_COUNT,
            headers=self._headers(),
        )
        self._server = _Server(config, self._room, self._certificates, self._request_limit_s)
        self._serving = asyncio.create_task(self._server.serve(sockets=listeners), name="http-server")
        listening = asyncio.create_task(self._server.listening.wait())
        try:
            await asyncio.wait({listening, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
        if self._serving.done():
            for listener in listeners:
                listener.close()
            await self._serving

    def _headers(self) -> list[tuple[str, str]]:
        # A browser applies it to all ports of the name, so not to localhost, where other programs serve too.
        if self._certificates is None or self._host in _LOCAL_HOSTS:
            return []
        return [("strict-transport-security", f"max-age={HSTS_SECONDS}")]

    def renew_certificate(self) -> None:
        """Read the files of the certificate again, changed or not; new connections get what they hold."""
        if self._server is not None:
            self._server.renew_certificate(changed_only=False)

    async def stop(self) -> None:
        """Refuse new connections, let open requests finish within the drain time, then return."""
        if self._server is None or self._serving is None:
            return
        self._server.should_exit = True
        await self._serving
        self._server = None


def shown_url(host: str, port: int, *, tls: bool = False) -> str:
    """The address to open; a wildcard host is shown as localhost."""
    shown = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(host, host)  # noqa: S104 - shown, not bound
    return f"{'https' if tls else 'http'}://{f'[{shown}]' if ':' in shown else shown}:{port}"
