"""One HTTP connection: uvicorn's httptools protocol with bounds that it lacks.

uvicorn reads headers of any size, waits for ever for a request that never becomes whole, queues any number of
requests that a client sends without waiting for answers, and drops a request whose client has closed its sending
half. Here:

- request line and headers hold at most `HEAD_LIMIT_BYTES` (431);
- a request is whole within `REQUEST_LIMIT_S` of its first byte, or answered with 408 and closed. A body that flows
  steadily is given more time in proportion to its length. A connection on which nothing ever came is closed too;
- a connection whose client has more than `PIPELINE_LIMIT` requests unanswered is closed, and so is one on which
  nothing of a waiting answer was taken for `UNREAD_LIMIT_S`;
- a client that stops sending in the middle of its body gets 400, and one that has sent a whole request and closed
  its sending half (`printf … | nc`) still gets its answer. A process that was killed looks the same, so a request
  that waits for something to happen (a worker's poll) is told.

The server calls `overdue` once a second for every connection, so a request costs no timer.
"""

import asyncio
from typing import Any, Final

from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tickwheel.interfaces.http.one_write import OneWrite
from tickwheel.interfaces.http.resource import ON_HALF_CLOSED
from tickwheel.interfaces.http.wire import problem, status_line

HEAD_LIMIT_BYTES: Final = 32 << 10
REQUEST_LIMIT_S: Final = 20
MIN_BODY_RATE_BYTES_PER_S: Final = 8 << 10
"""A body that comes faster than this may take longer than `REQUEST_LIMIT_S`."""
PIPELINE_LIMIT: Final = 64
UNREAD_LIMIT_S: Final = 60
DRAIN_LIMIT_BYTES: Final = 256 << 20
"""A body that was refused is read and thrown away up to here, so that a client which sends first and reads
afterwards gets to see why; closing at once would reset the connection under it."""


class BoundedProtocol(HttpToolsProtocol):
    """The connection; `started_s` is the loop's time at which the unfinished request began, None while idle."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._in_head = True
        self._head_bytes = 0
        self._body_bytes = 0
        self._started_s: float | None = self.loop.time()
        self._unread_since_s: float | None = None
        self._answering: RequestResponseCycle | None = None

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            if self._head_bytes == 0:
                self._started_s = self.loop.time()
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES and self._head_is_too_long(data):
                return
        super().data_received(data)

    def _head_is_too_long(self, data: bytes) -> bool:
        # A piece may hold the end of the head and a lot of body: only bytes up to the blank line count.
        end = data.find(b"\r\n\r\n")
        before = self._head_bytes - len(data)
        if end >= 0 and before + end <= HEAD_LIMIT_BYTES:
            return False
        self.refuse("headers_too_large", f"Request line and headers have more than {HEAD_LIMIT_BYTES} bytes.")
        return True

    def on_headers_complete(self) -> None:
        self._in_head = False
        if len(self.pipeline) >= PIPELINE_LIMIT:
            self.transport.close()
        if not self.transport.is_closing():  # the rest of what was read with the one that was too many is dropped
            super().on_headers_complete()

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
        self._started_s = None
        super().on_message_complete()

    def eof_received(self) -> bool:  # type: ignore[override]  # True keeps the other half open
        if self.cycle is None or self.cycle.response_complete:
            return False
        if self.cycle.more_body:
            self.refuse("incomplete_body", "The connection ended before the announced body had arrived.")
            return False
        self.cycle.keep_alive = False
        tell: Any = self.cycle.scope.get(ON_HALF_CLOSED)
        if tell is not None:
            tell()
        return True

    def send_400_response(self, msg: str) -> None:
        self.refuse("malformed_request", msg)

    def overdue(self, now_s: float) -> None:
        """Give up on a request that has been arriving for too long, and on an answer that nobody reads."""
        if self._unread_since_s is not None and now_s - self._unread_since_s > UNREAD_LIMIT_S:
            self.transport.abort()
            return
        if self._started_s is None:
            return
        allowed_s = REQUEST_LIMIT_S + self._body_bytes / MIN_BODY_RATE_BYTES_PER_S
        if now_s - self._started_s <= allowed_s or self._waits_for_us():
            return
        if self._head_bytes == 0:
            self.transport.close()
        else:
            self.refuse("request_timeout", f"The request was not whole after {REQUEST_LIMIT_S} seconds.")

    def _waits_for_us(self) -> bool:
        """Whether it is the application that does not read on, not the client that does not send."""
        return self.flow is not None and self.flow.read_paused

    def refuse(self, code: str, detail: str) -> None:
        """Answer by ourselves and close; a response that has begun is only cut off."""
        if self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_started:
            answer = problem(code, detail, headers=((b"connection", b"close"),))
            lines = [status_line(answer.status)]
            lines += [name + b": " + value for name, value in answer.headers]
            lines.append(b"content-length: %d" % len(answer.body))
            self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + answer.body)
        self.transport.close()
