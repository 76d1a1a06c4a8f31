"""A receiver as an ASGI application: to serve by itself, or to mount in Starlette, FastAPI and their like."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, overload

from tickwheel.receiver.clock import machine_s
from tickwheel.receiver.delivery import TOLERANCE_S, Headers
from tickwheel.receiver.reception import (
    BODY_LIMIT_BYTES,
    AsyncConnect,
    AsyncEffect,
    AsyncReception,
    Checks,
    Connect,
    Effect,
    Reception,
    header_pairs,
    refused,
)
from tickwheel.receiver.refusals import RefusedDelivery
from tickwheel.receiver.turns import Answer, AsyncGuard, Guard

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class WebhookReceiver:
    """Makes the effect of each run once, and answers what Tickwheel should hear.

    `effect(delivery, connection)` returns None or an `Answer`; what isn't 2xx undoes it. `connect()` gives a
    context manager of what the guard calls a connection. A plain `effect` runs in a thread, with a `Guard`; a
    coroutine function runs on the loop, with an `AsyncGuard`. `secrets` are `whsec_…` texts, any of which may have
    signed. `tolerance_s` is in seconds, `now_s()` in seconds since 1970. Raises ValueError for a bad secret.
    """

    @overload
    def __init__(
        self,
        effect: AsyncEffect,
        *,
        secrets: str | Sequence[str],
        guard: AsyncGuard,
        connect: AsyncConnect,
        body_limit_bytes: int = ...,
        tolerance_s: float = ...,
        now_s: Callable[[], float] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        effect: Effect,
        *,
        secrets: str | Sequence[str],
        guard: Guard,
        connect: Connect,
        body_limit_bytes: int = ...,
        tolerance_s: float = ...,
        now_s: Callable[[], float] = ...,
    ) -> None: ...
    def __init__(
        self,
        effect: Any,
        *,
        secrets: str | Sequence[str],
        guard: Any,
        connect: Any,
        body_limit_bytes: int = BODY_LIMIT_BYTES,
        tolerance_s: float = TOLERANCE_S,
        now_s: Callable[[], float] = machine_s,
    ) -> None:
        self._checks = Checks(secrets, body_limit_bytes=body_limit_bytes, tolerance_s=tolerance_s, now_s=now_s)
        self._reception: Reception | AsyncReception
        if iscoroutinefunction(effect) or iscoroutinefunction(getattr(effect, "__call__", None)):  # noqa: B004 - looked at, not for
            self._reception = AsyncReception(effect, guard, connect, self._checks)
        else:
            self._reception = Reception(effect, guard, connect, self._checks)

    async def receive(self, headers: Headers, body: bytes) -> Answer:
        """What to answer to this request, for a route of your own. Errors of the effect are passed on."""
        if isinstance(self._reception, AsyncReception):
            return await self._reception.receive(headers, body)
        return await asyncio.to_thread(self._reception.receive, headers, body)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one HTTP request; the events of a server's start and stop are only confirmed."""
        if scope["type"] == "lifespan":
            await _confirm(receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"a webhook is an HTTP request, not {scope['type']!r}")
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        try:
            body = await self._read(headers, receive)
        except RefusedDelivery as refusal:
            answer = refused(refusal)
        else:
            if body is None:
                return  # the sender is gone, and so is the attempt
            answer = await self.receive(headers, body)
        await _answer(answer, scope["method"], send)

    async def _read(self, headers: list[tuple[bytes, bytes]], receive: Receive) -> bytes | None:
        """The body; None if it never came to an end. Raises `OversizedDelivery` as soon as that is known."""
        for name, value in headers:
            if name == b"content-length" and value.isdigit():
                self._checks.check_size(int(value[:20]))
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            self._checks.check_size(len(body))
            if not message.get("more_body", False):
                return bytes(body)


async def _confirm(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def _answer(answer: Answer, method: str, send: Send) -> None:
    lines = [(name.encode(), value.encode()) for name, value in header_pairs(answer)]
    await send({"type": "http.response.start", "status": answer.status, "headers": lines})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else answer.body})
