"""The server: uvicorn inside an event loop that is already running.

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

from tickwheel.interfaces.http.connection import BoundedProtocol
from tickwheel.interfaces.http.listening import BACKLOG_COUNT, bind

KEEP_ALIVE_S: Final = 75
"""Longer than the usual 60 s of load balancers, so that they close first and never meet a closing connection."""
_TICKS_PER_SECOND: Final = 10


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers; tells when it listens and looks after slow clients."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SECOND == 0:
            now_s = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.overdue(now_s)
        return await super().on_tick(counter)


class HttpServer:
    """Serves one ASGI application on one address.

    One of several processes shares its address with the others and serves on a socket of its `own` besides.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, *, drain_seconds: int = 10, own: socket.socket | None = None
    ) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._drain_seconds = drain_seconds
        self._own = own
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The bound port; what was asked for until `start` has returned."""
        return self._port

    @property
    def url(self) -> str:
        """The address to open; a wildcard host is shown as localhost."""
        return shown_url(self._host, self._port)

    async def start(self) -> None:
        """Bind and serve; returns once connections are accepted. Raises `OSError` if the address is not free."""
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
        )
        self._server = _Server(config)
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

    async def stop(self) -> None:
        """Refuse new connections, let open requests finish within the drain time, then return."""
        if self._server is None or self._serving is None:
            return
        self._server.should_exit = True
        await self._serving
        self._server = None


def shown_url(host: str, port: int) -> str:
    """The address to open; a wildcard host is shown as localhost."""
    shown = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(host, host)  # noqa: S104 - shown, not bound
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"
