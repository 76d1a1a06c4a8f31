"""One HTTP connection: uvicorn's httptools protocol with bounds that it lacks.

uvicorn reads headers of any size, waits for ever for a request that never becomes whole, queues any number of
requests that a client sends without waiting for answers, and drops a request whose client has closed its sending
half. Here:

- request line and headers hold at most `HEAD_LIMIT_BYTES` (431);
- a request is whole within `request_limit_s` of its first byte, or answered with 408 and closed. A body that flows
  steadily is given more time in proportion to its length. A connection on which nothing ever came is closed too;
- a connection whose client has more than `PIPELINE_LIMIT` requests unanswered is closed, and so is one on which
  nothing of a waiting answer was taken for `UNREAD_LIMIT_S`;
- a client that stops sending in the middle of its body gets 400, and one that has sent a whole request and closed
  its sending half (`printf … | nc`) still gets its answer. A process that was killed looks the same, so a request
  that waits for something to happen (a worker's poll) is told. Over TLS neither end can close its sending half
  alone: there the client is gone, and its answer with it;
- what two servers could read differently is refused (`framing`), and the connection closed. So is a body of long
  chunk headers or trailers with little in them, and trailers never count as headers;
- whatever follows a request to switch protocols, or a fault, is thrown away: it is never a request.

What it costs to keep a connection is bounded by `room`, which may say that only a health check is answered here.

The server calls `overdue` once a second for every connection, so a request costs no timer.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import httptools
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tickwheel.interfaces.http.framing import fault_of
from tickwheel.interfaces.http.one_write import OneWrite
from tickwheel.interfaces.http.resource import ON_HALF_CLOSED
from tickwheel.interfaces.http.room import Room
from tickwheel.interfaces.http.security_headers import with_security
from tickwheel.interfaces.http.wire import Header, problem, status_line

HEAD_LIMIT_BYTES: Final = 32 << 10
REQUEST_LIMIT_S: Final = 20
MIN_BODY_RATE_BYTES_PER_S: Final = 8 << 10
"""A body that comes faster than this may take longer than `request_limit_s`."""
PIPELINE_LIMIT: Final = 64
UNREAD_LIMIT_S: Final = 60
DRAIN_LIMIT_BYTES: Final = 256 << 20
"""A body that was refused is read and thrown away up to here, so that a client which sends first and reads
afterwards gets to see why; closing at once would reset the connection under it."""
CHUNK_HEADS_LIMIT_BYTES: Final = 16 << 10
CHUNK_HEADS_PER_BYTE: Final = 8
"""Sizes, extensions and trailers of a chunked body: no honest client sends more than this, and per byte."""
SPARE_LIMIT_S: Final = 5
"""How long who has no place of its own may take to ask for the health."""
HEALTH_TARGETS: Final = frozenset({b"/healthz", b"/readyz"})
_READS: Final = frozenset({b"GET", b"HEAD"})
_MALFORMED: Final = "What was sent is not an HTTP/1.1 request, or one that two servers could read differently."


class _Fault(Exception):
    """Stops the parser."""


class BoundedProtocol(HttpToolsProtocol):
    """The connection; `started_s` is the loop's time at which the unfinished request began, None while idle.

    It may exist before its transport does, while a TLS handshake goes on: `hang_up` gives that up.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        room: Room,
        request_limit_s: float = REQUEST_LIMIT_S,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.hang_up: Callable[[], object] = _nothing
        self.connected = False
        self._room, self._request_limit_s = room, request_limit_s
        self._has_place: bool | None = None
        self._in_head = True
        self._head_bytes = 0
        self._body_bytes = 0
        self._wire_bytes = 0
        self._started_s: float | None = self.loop.time()
        self._unread_since_s: float | None = None
        self._answering: RequestResponseCycle | None = None
        self._fault = ""
        self._ended = False
        """Whatever comes now is no request any more."""

    def enter(self, address: str) -> None:
        """Take a place in the room; by itself it does so when it is connected."""
        self._has_place = self._room.admit(self, address, self.loop.time())

    def given_up(self) -> None:
        """There was no connection after all: leave the room."""
        self._room.let_go(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.connected = True
        if self._has_place is None:
            self.enter(self.client[0] if self.client is not None else "")

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        if self._in_head:
            if self._head_bytes == 0:
                self._started_s = self.loop.time()
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES and self._head_is_too_long(data):
                return
        self._unset_keepalive_if_required()
        before = self.cycle
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._end_after_answer()
        except httptools.HttpParserError:
            if not self._ended:
                self.refuse("malformed_request", self._fault or _MALFORMED)
        else:
            if not self._in_head and self.cycle is before:
                self._count_chunk_heads(len(data))

    def _head_is_too_long(self, data: bytes) -> bool:
        # A piece may hold the end of the head and a lot of body: only bytes up to the blank line count.
        end = data.find(b"\r\n\r\n")
        before = self._head_bytes - len(data)
        if end >= 0 and before + end <= HEAD_LIMIT_BYTES:
            return False
        self.refuse("headers_too_large", f"Request line and headers have more than {HEAD_LIMIT_BYTES} bytes.")
        return True

    def _count_chunk_heads(self, count: int) -> None:
        self._wire_bytes += count
        heads_bytes = self._wire_bytes - self._body_bytes
        if heads_bytes > CHUNK_HEADS_LIMIT_BYTES + CHUNK_HEADS_PER_BYTE * self._body_bytes:
            self.refuse("malformed_request", "The chunks of the body have more headers and trailers than body.")

    def on_headers_complete(self) -> None:
        parser = self.parser
        self._fault = fault_of(self.headers, parser.get_http_version(), parser.get_method(), self.url)
        if self._fault:
            raise _Fault
        self._in_head = False
        if len(self.pipeline) >= PIPELINE_LIMIT:
            self.transport.close()
        elif not (self._has_place or self._asks_for_health()):
            self.turn_away()
        if self.transport.is_closing():  # the rest of what was read with the one that was too many is dropped
            self._ended = True
            raise _Fault
        super().on_headers_complete()
        self.headers = []  # trailers come here: whoever stands in front has not looked at them as headers
        if not self._has_place:
            self.cycle.keep_alive = False

    def _asks_for_health(self) -> bool:
        return self.url.partition(b"?")[0] in HEALTH_TARGETS and self.parser.get_method() in _READS

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()

    def pause_writing(self) -> None:
        self._unread_since_s = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since_s = None
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.let_go(self)
        # uvicorn tells only the latest of several requests; an earlier one would write to the closed transport.
        if self._answering is not None:
            self._answering.disconnected = True
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle

        async def answer(scope: Scope, receive: Receive, _send: Send) -> None:
            await app(scope, receive, OneWrite(cycle))

        super()._start_asgi_task(cycle, answer)  # type: ignore[arg-type]  # uvicorn has types of its own for these

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > DRAIN_LIMIT_BYTES:
            self.transport.close()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._body_bytes = 0
        self._wire_bytes = 0
        self._started_s = None
        super().on_message_complete()

    def eof_received(self) -> bool:  # type: ignore[override]  # True keeps the other half open
        if self.cycle is None or self.cycle.response_complete:
            return False
        if self.cycle.more_body:
            self.refuse("incomplete_body", "The connection ended before the announced body had arrived.")
            return not self.transport.is_closing() and self.scheme == "http"
        self.cycle.keep_alive = False
        tell: Any = self.cycle.scope.get(ON_HALF_CLOSED)
        if tell is not None:
            tell()
        return self.scheme == "http"

    def overdue(self, now_s: float) -> None:
        """Give up on a request that has been arriving for too long, and on an answer that nobody reads."""
        if self._unread_since_s is not None and now_s - self._unread_since_s > UNREAD_LIMIT_S:
            self.transport.abort()
            return
        if self._started_s is None:
            return
        allowed_s = self._request_limit_s + self._body_bytes / MIN_BODY_RATE_BYTES_PER_S
        if not self._has_place:
            allowed_s = SPARE_LIMIT_S
        if now_s - self._started_s <= allowed_s or self._waits_for_us():
            return
        if not self._has_place:
            self.turn_away()
        elif self._head_bytes == 0:
            self.transport.close()
        else:
            limit = f"{self._request_limit_s:g} seconds"
            self.refuse("request_timeout", f"The request was not whole after {limit}.")

    def _waits_for_us(self) -> bool:
        """Whether it is the application that does not read on, not the client that does not send."""
        return self.flow is not None and self.flow.read_paused

    def idle_since_s(self) -> float | None:
        """Since when nothing happens here; None while a request is arriving or being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return self._started_s if self._head_bytes == 0 else None
        timer = self.timeout_keep_alive_task
        return None if timer is None else timer.when() - self.timeout_keep_alive

    def leave(self) -> None:
        """Close it, idle as it is: its place is needed."""
        if not self.connected:
            self.hang_up()
        elif self.scheme == "https":
            self.transport.abort()  # a client that takes its time to say goodbye would keep the descriptor
        else:
            self.transport.close()

    def turn_away(self) -> None:
        """There is no place for it: say so, and close."""
        if not self.connected:
            self.hang_up()
        else:
            self.refuse("too_many_connections", "The server has as many connections as it may; come again.")

    def refuse(self, code: str, detail: str) -> None:
        """Answer by ourselves and close; a response that has begun is only cut off.

        A whole request that came before is answered first: this would be taken for its answer.
        """
        if self.transport.is_closing():
            return
        self._ended = True
        earlier = self._answering
        if earlier is not None and not (earlier.response_complete or earlier.more_body):
            earlier.keep_alive = False
            return
        if self._in_head or self.cycle is None or not self.cycle.response_started:
            self.transport.write(closing_answer(code, detail, self.server_state.default_headers))
        self.transport.close()

    def _end_after_answer(self) -> None:
        """Answer in HTTP/1.1 what asked for another protocol; what follows may be in that one already."""
        self._ended = True
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.cycle.keep_alive = False


def closing_answer(code: str, detail: str, default_headers: Sequence[Header] = ()) -> bytes:
    """A problem as it goes over the wire, after which the connection is closed."""
    answer = problem(code, detail, headers=((b"connection", b"close"),))
    headers = (*default_headers, *with_security(answer.headers), (b"content-length", b"%d" % len(answer.body)))
    lines = [status_line(answer.status), *(name + b": " + value for name, value in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + answer.body


def _nothing() -> None:
    return
