"""Which `Host` an open server answers to, and whose pages may change something on it.

A server without tokens trusts whoever can reach it, which is meant to be this machine. A page on the web could
reach it too, by letting its own name resolve to 127.0.0.1 once it is loaded in a browser here: the browser then
takes the server for the page's own. Such requests carry the page's name as their host, so an open server answers
only to addresses and to `localhost`.

A page needs no such trick to send what it is not let read the answer of: browsers send a POST without a body to
any address, and name the page's origin in it. So a change that comes from a page has to come from one of ours.
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
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class LocalHostsOnly:
    """Hands requests on whose host is an IP address, `localhost` or a name below it; the others get 403.

    So do changes that another origin's page sends.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        remedy = _remedy(scope) if scope["type"] == "http" else None
        if remedy is None:
            await self._app(scope, receive, send)
            return
        await send_answer(send, problem("host_not_allowed", remedy), with_body=scope["method"] != "HEAD")


_NAME_REMEDY: Final = (
    "A server without a token answers only to localhost and to IP addresses; set a token to use another name."
)
_PAGE_REMEDY: Final = "A server without a token takes no changes from pages of other origins; set a token."


def _remedy(scope: Scope) -> str | None:
    """What would help a request that is refused; None: it is not."""
    host, origins = b"", []
    for name, value in scope["headers"]:
        if name == b"host":
            host = value
            if not _is_local(value):
                return _NAME_REMEDY
        elif name == b"origin":
            origins.append(value)
    if scope["method"] in _READS or all(_is_own(origin, host) for origin in origins):
        return None
    return _PAGE_REMEDY


def _is_own(origin: bytes, host: bytes) -> bool:
    """Whether a page of this origin was loaded from here; the scheme is another one behind a proxy with TLS."""
    return origin.partition(b"://")[2].lower() == host.lower() != b""


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
