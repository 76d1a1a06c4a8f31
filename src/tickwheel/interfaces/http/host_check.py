"""Which `Host` an open server answers to.

A server without tokens trusts whoever can reach it, which is meant to be this machine. A page on the web could
reach it too, by letting its own name resolve to 127.0.0.1 once it is loaded in a browser here: the browser then
takes the server for the page's own. Such requests carry the page's name as their host, so an open server answers
only to addresses and to `localhost`.
"""

from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from tickwheel.interfaces.http.resource import send_answer
from tickwheel.interfaces.http.wire import problem

_LOCAL_NAME: Final = "localhost"
_REMEMBERED_BYTES: Final = 255
"""A longer host is no name of the DNS: it is judged, but not kept."""


class LocalHostsOnly:
    """Hands requests on whose host is an IP address, `localhost` or a name below it; the others get 403."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http":
            for name, value in scope["headers"]:
                if name == b"host" and not _is_local(value):
                    refusal = problem("host_not_allowed", _REMEDY)
                    await send_answer(send, refusal, with_body=scope["method"] != "HEAD")
                    return
        await self._app(scope, receive, send)


_REMEDY: Final = (
    "A server without a token answers only to localhost and to IP addresses; set a token to use another name."
)


def _is_local(host: bytes) -> bool:
    return _judged(host) if len(host) <= _REMEMBERED_BYTES else _judged.__wrapped__(host)


@lru_cache(maxsize=256)
def _judged(host: bytes) -> bool:
    name = _name_of(host.decode("latin-1").strip().lower())
    return name == _LOCAL_NAME or name.endswith("." + _LOCAL_NAME) or _is_address(name)


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
