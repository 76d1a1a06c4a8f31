"""The target that `tickwheel dev` brings along: answers 200 and says what it was called with."""

from typing import Final

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

PATH: Final = "/echo"
SHOWN_BYTES: Final = 64 << 10


class Echo:
    """Serves `/echo` itself and hands everything else on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body = (body + message.get("body", b""))[:SHOWN_BYTES]
            more = message.get("more_body", False)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        shown = {
            name: value for name, value in headers.items() if name.startswith(("x-", "webhook-", "idempotency"))
        }
        answer = msgspec.json.encode(
            {"method": scope["method"], "headers": shown, "body": body.decode("utf-8", "replace")}
        )
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": answer})
