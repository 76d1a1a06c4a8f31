"""`/metrics` of a worker, on a port of its own: it asks for no token, so it listens where the settings say."""

from collections.abc import Callable
from typing import Final

from starlette.types import Receive, Scope, Send

from tickwheel.config import Settings
from tickwheel.interfaces.cli.process import explain_address
from tickwheel.interfaces.http.resource import send_answer
from tickwheel.interfaces.http.server import HttpServer
from tickwheel.interfaces.http.wire import Answer, problem

_TEXT: Final = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
STOP_SECONDS: Final = 1


class MetricsPage:
    """An ASGI application with this one path."""

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        found = scope["path"] == "/metrics" and scope["method"] in ("GET", "HEAD")
        answer = Answer(200, self._render(), (_TEXT,)) if found else problem("no_such_path", "There is /metrics.")
        await send_answer(send, answer, with_body=scope["method"] != "HEAD")


async def serve_metrics(render: Callable[[], bytes], settings: Settings, port: int) -> HttpServer:
    """It answers until it is stopped. Raises `Failure` where the address can't be had."""
    server = HttpServer(MetricsPage(render), settings.host, port, drain_seconds=STOP_SECONDS)
    with explain_address(settings.host, port):
        await server.start()
    return server
