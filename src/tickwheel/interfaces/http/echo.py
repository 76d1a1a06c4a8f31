"""The target that `tickwheel dev` brings along: answers 200 and says what it was called with."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from tickwheel.interfaces.http.resource import send_answer
from tickwheel.interfaces.http.wire import ok

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
        answer = ok({"method": scope["method"], "headers": shown, "body": body.decode("utf-8", "replace")})
        await send_answer(send, answer, with_body=scope["method"] != "HEAD")
