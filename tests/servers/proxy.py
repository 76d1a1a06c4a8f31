"""A TCP proxy that breaks connections in the ways a network does.

    with Proxy(server.port) as proxy:
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/trial"
        proxy.latency_s = 0.05        # each way
        proxy.swallow()               # half-open: both sides stay connected, nothing arrives
        proxy.heal()

It runs on a thread of its own, so that it goes on whatever the test's event loop does. A fault is in force when
its method returns, for the connections that exist and for new ones; `heal` ends it. What was swallowed stays lost,
so `heal` resets the connections that lost something, as a network that forgot them would do.
"""

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Callable
from enum import Enum, auto
from types import TracebackType
from typing import Final, Self, cast

_RESET: Final = struct.pack("ii", 1, 0)
_PREPARING: Final = re.compile(rb"P\0[\s\S]{3}([^\0]+)\0([^\0]+)\0")
"""PostgreSQL's Parse: the name, and the statement that it stands for from then on."""


class Mode(Enum):
    """What happens to the bytes."""

    PASS = auto()
    STALL = auto()  # held back; they arrive after the end of the fault
    SWALLOW = auto()  # lost, both ways
    MUTE = auto()  # what the client sends arrives; the answers are lost
    REFUSE = auto()  # no connections


class Proxy:
    """Between clients and 127.0.0.1:`target`. Its methods may be called from any thread."""

    def __init__(self, target: int, port: int = 0) -> None:
        self.target, self.port = target, port
        self.latency_s = 0.0
        self.mode = Mode.PASS
        self.accepted = 0
        """Connections so far."""
        self._links: set[_Link] = set()
        self._trap: tuple[bytes, Callable[[_Link], None]] | None = None
        self._sprung = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def heal(self) -> None:
        """Let everything pass again."""
        self._do(lambda: self._enter(Mode.PASS))

    def stall(self) -> None:
        """Hold all bytes back."""
        self._do(lambda: self._enter(Mode.STALL))

    def swallow(self) -> None:
        """Lose all bytes, and leave the connections open."""
        self._do(lambda: self._enter(Mode.SWALLOW))

    def mute(self) -> None:
        """Lose the answers only: the server does what it is told and nobody hears of it."""
        self._do(lambda: self._enter(Mode.MUTE))

    def cut(self) -> None:
        """Close all connections (FIN) and refuse new ones."""
        self._do(lambda: self._drop_all(Mode.REFUSE, reset=False))

    def reset(self) -> None:
        """Reset all connections (RST) once; new ones pass."""
        self._do(lambda: self._drop_all(Mode.PASS, reset=True))

    def limit(self, client_bytes: int) -> None:
        """Each connection that exists is reset once that many more bytes came from its client."""

        def arm() -> None:
            for link in self._links:
                link.left = client_bytes

        self._do(arm)

    def lose_answer_to(self, request: bytes) -> None:
        """One request that contains these bytes is passed on; its connection is reset before the answer comes.

        A statement that a client of PostgreSQL has prepared is known by its text all the same.
        """
        self._set_trap(request, lambda link: link.lose_next_answer())

    def lose_request(self, request: bytes) -> None:
        """One connection is reset when its client sends these bytes; they don't arrive."""
        self._set_trap(request, lambda link: link.drop(reset=True))

    def wait_until_lost(self, timeout_s: float) -> bool:
        """Whether what `lose_answer_to` or `lose_request` wait for has come."""
        return self._sprung.wait(timeout_s)

    @property
    def open_links(self) -> int:
        """Connections now."""
        return len(self._links)

    def _set_trap(self, request: bytes, act: "Callable[[_Link], None]") -> None:
        self._sprung.clear()
        self._do(lambda: setattr(self, "_trap", (request, act)))

    def check_trap(self, link: "_Link", data: bytes) -> None:
        """For each piece of a client, before it is passed on."""
        if self._trap is not None and link.asks(self._trap[0], data):
            act, self._trap = self._trap[1], None
            act(link)
            self._sprung.set()

    def _do(self, action: Callable[[], None]) -> None:
        async def act() -> None:
            action()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(10)

    def _enter(self, mode: Mode) -> None:
        lossy = self.mode in (Mode.SWALLOW, Mode.MUTE)
        self.mode = mode
        for link in list(self._links):
            if lossy and link.lost:
                link.drop(reset=True)
            else:
                link.follow(mode)

    def _drop_all(self, mode: Mode, *, reset: bool) -> None:
        self.mode = mode
        for link in list(self._links):
            link.drop(reset=reset)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(lambda: _Link(self).client, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for link in list(self._links):
            link.drop(reset=False)
        await asyncio.sleep(0)

    def opened(self, link: "_Link") -> bool:
        """A client has connected; False when it may not."""
        self.accepted += 1
        self._links.add(link)
        return self.mode is not Mode.REFUSE

    def closed(self, link: "_Link") -> None:
        """A connection is gone."""
        self._links.discard(link)


class _Link:
    """One client's connection and that to the server."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._loop = asyncio.get_running_loop()
        self.client, self.server = _Side(self), _Side(self)
        self.left: int | None = None
        self.lost = False
        self._losing_answer = self._over = False
        self._prepared: dict[bytes, bytes] = {}
        self._connecting: asyncio.Task[None] | None = None

    def made(self, side: "_Side") -> None:
        if side is self.client:
            if not self._proxy.opened(self):
                self.drop(reset=True)
                return
            self.client.transport.pause_reading()
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await self._loop.create_connection(lambda: self.server, "127.0.0.1", self._proxy.target)
        except OSError:
            self.drop(reset=True)
            return
        if self._over:
            self.server.transport.abort()
        else:
            self.client.transport.resume_reading()
            self.follow(self._proxy.mode)

    def follow(self, mode: Mode) -> None:
        """Take up a mode of the proxy."""
        for side in (self.client, self.server):
            if side.connected and self.server.connected:
                if mode is Mode.STALL:
                    side.transport.pause_reading()
                else:
                    side.transport.resume_reading()

    def took(self, side: "_Side", data: bytes) -> None:
        """Bytes from one side, to the other one."""
        mode, from_client = self._proxy.mode, side is self.client
        if mode is Mode.SWALLOW or (mode is Mode.MUTE and not from_client):
            self.lost = True
            return
        if self._losing_answer and not from_client:
            self.drop(reset=True)
            return
        if from_client:
            self._prepared.update(_PREPARING.findall(data))
            self._proxy.check_trap(self, data)
            if self.left is not None:
                self.left -= len(data)
                if self.left < 0:
                    self.drop(reset=True)
        if self._over:
            return
        other = self.server if from_client else self.client
        if self._proxy.latency_s or other.due_at > self._loop.time():
            other.due_at = max(other.due_at, self._loop.time() + self._proxy.latency_s)
            self._loop.call_at(other.due_at, other.write, data)
        else:
            other.write(data)

    def asks(self, request: bytes, data: bytes) -> bool:
        """Whether these bytes of the client hold the request, or the name of a statement that does."""
        names = [name for name, statement in self._prepared.items() if request in statement]
        return request in data or any(b"\0%b\0" % name in data for name in names)

    def lose_next_answer(self) -> None:
        self._losing_answer = True

    def ended(self) -> None:
        """One side closed, so the other one does."""
        if self._proxy.mode in (Mode.SWALLOW, Mode.STALL):
            self.lost = True  # whoever is left finds out by itself
        else:
            self.drop(reset=False)

    def drop(self, *, reset: bool) -> None:
        """End both connections."""
        if self._over:
            return
        self._over = True
        for side in (self.client, self.server):
            if side.connected:
                side.end(reset=reset)
        if self._connecting is not None and not self._connecting.done() and not self.server.connected:
            self._connecting.cancel()
        self._proxy.closed(self)


class _Side(asyncio.Protocol):
    """One of the two connections of a link."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self.connected = False
        self.due_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.connected = True
        self._link.made(self)

    def data_received(self, data: bytes) -> None:
        self._link.took(self, data)

    def connection_lost(self, error: Exception | None) -> None:
        self.connected = False
        self._link.ended()

    def write(self, data: bytes) -> None:
        if self.connected and not self.transport.is_closing():
            self.transport.write(data)

    def end(self, *, reset: bool) -> None:
        if reset:
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()
        else:
            self.transport.close()
