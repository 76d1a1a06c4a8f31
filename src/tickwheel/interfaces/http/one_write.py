"""Sends an answer that is whole with one write.

uvicorn writes the head and the body of an answer apart, each at once: two system calls and two packets for an
answer of a few hundred bytes, which is most of what sending it costs. `OneWrite` keeps the head until the first
piece of the body is there. What is not the plain case (an answer in pieces, HEAD, a connection that is to be
closed or that nobody reads) goes through uvicorn as ever.
"""

from typing import Final

from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_LENGTH: Final = b"content-length"
_NOT_PLAIN: Final = frozenset({b"connection", b"transfer-encoding"})


class OneWrite:
    """The `send` of one request; instead of its cycle's."""

    __slots__ = ("_cycle", "_start")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        """ASGI."""
        start = self._start
        if message["type"] == "http.response.start" and start is None:
            self._start = message
            return
        if start is not None:
            self._start = None
            if self._written(start, message):
                return
            await self._cycle.send(start)  # type: ignore[arg-type]  # Starlette's messages are plain dicts
        await self._cycle.send(message)  # type: ignore[arg-type]

    def _written(self, start: Message, message: Message) -> bool:
        """Write both if that is all of the answer."""
        cycle = self._cycle
        body: bytes = message.get("body", b"")
        if (
            message.get("more_body", False)
            or not cycle.keep_alive
            or cycle.disconnected
            or cycle.response_started
            or cycle.flow.write_paused
            or cycle.scope["method"] == "HEAD"
        ):
            return False
        head = _head(STATUS_LINE[start["status"]], [*cycle.default_headers, *start["headers"]], len(body))
        if head is None:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(head + body)
        cycle.message_event.set()
        cycle.on_response()
        return True


def _head(status_line: bytes, headers: list[tuple[bytes, bytes]], length: int) -> bytes | None:
    """Everything before the body; None unless the body has its announced length and the connection stays."""
    lines, announced = [status_line], -1
    for name, value in headers:
        if name in _NOT_PLAIN:
            return None
        if name == _LENGTH:
            announced = int(value)
        lines.append(b"%b: %b\r\n" % (name, value))
    lines.append(b"\r\n")
    head = b"".join(lines)
    breaks = len(headers) + 2
    plain = announced == length and head.count(b"\n") == breaks and head.count(b"\r") == breaks
    return head if plain else None
