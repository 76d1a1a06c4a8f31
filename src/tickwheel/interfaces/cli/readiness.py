"""Answers `/readyz` with 503 while the process drains, so that a load balancer looks elsewhere first."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from tickwheel.interfaces.http.resource import send_answer
from tickwheel.interfaces.http.wire import problem

PATH: Final = "/readyz"


class Readiness:
    """Hands everything to the application; only `/readyz` knows of `draining`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.draining and scope["type"] == "http" and scope["path"] == PATH:
            answer = problem("not_ready", "This process is stopping: it takes no new work.")
            await send_answer(send, answer, with_body=scope["method"] != "HEAD")
            return
        await self._app(scope, receive, send)
