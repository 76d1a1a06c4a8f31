"""Which `Host` an open server answers to.

A server without tokens trusts whoever can reach it, which is meant to be this machine. A page on the web could
reach it too, by letting its own name resolve to 127.0.0.1 once it is loaded in a browser here: the browser then
takes the server for the page's own. Such requests carry the page's name as their host, so an open server answers
only to addresses and to `localhost`.
"""

from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from tickwheel.interfaces.http.resource import send_answer
from tickwheel.interfaces.http.wire import problem

_LOCAL_NAME: Final = "localhost"


class LocalHostsOnly:
    """Hands requests on whose host is an IP address, `localhost` or a name below it; the others get 403."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or all(_is_local(value) for name, value in scope["headers"] if name == b"host"):
            await self._app(scope, receive, send)
        else:
            await send_answer(send, problem("host_not_allowed", _REMEDY), with_body=scope["method"] != "HEAD")


_REMEDY: Final = (
    "A server without a token answers only to localhost and to IP addresses; set a token to use another name."
)


def _is_local(host: bytes) -> bool:
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
