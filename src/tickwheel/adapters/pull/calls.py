"""POST requests with JSON to one of several servers, on the event loop.

Any node serves any worker, so a server that can't be reached, hangs, or says that it is stopping is left for the
next one of the list; the one that answered last is asked first. Whatever goes through here may be carried out more
than once: all of the protocol repeats well.
"""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
import pycurl

from tickwheel.adapters.curl.certificates import find_ca_file
from tickwheel.adapters.curl.curl_loop import EasyHandle
from tickwheel.adapters.curl.exchanges import Exchanges
from tickwheel.config import LOOPBACK_HOSTS, ServerTrust
from tickwheel.domain.errors import ConfigError, FieldProblem, TickwheelError
from tickwheel.domain.redaction import redacted

T = TypeVar("T")
ANSWER_MS: Final = 10_000
"""How long a server may take, beyond what it was asked to wait."""
CONNECT_MS: Final = 3_000
CONNECTION_COUNT: Final = 8
ANSWER_LIMIT_BYTES: Final = 64 << 20
_ELSEWHERE: Final = frozenset({429, 500, 502, 503, 504})
_SHOWN_BYTES: Final = 200
_PLAIN: Final = re.compile(r"[!-~]+")


class _Problem(msgspec.Struct):
    detail: str
    errors: list[msgspec.Raw] = []


class Unauthorized(TickwheelError):
    """The server wants a token, or another one."""

    code = "unauthorized"


class Refused(TickwheelError):
    """The server understood, and won't do it: sending it again is no use."""

    code = "request_refused"


class Calls(Protocol):
    """What the protocol is spoken through."""

    def look_elsewhere(self) -> None:
        """Ask the next server first from now on."""
        ...

    async def post(self, path: str, body: Any, answer: type[T], *, wait_ms: int = 0) -> T:
        """The decoded answer. Raises `ConnectionError`, `Unauthorized` and `Refused`."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


class HttpCalls:
    """Requests to the servers of a list, on the loop that first calls."""

    def __init__(
        self,
        servers: Sequence[str],
        *,
        token: str | None,
        trust: ServerTrust = ServerTrust(),  # noqa: B008 - a value
    ) -> None:
        """Raises `ConfigError` for what is no address."""
        self._trust, self._ca_file = trust, trust.ca_file or find_ca_file()
        self.servers = [_checked(url) for url in servers]
        self._headers = ["Content-Type: application/json", "Accept: application/json", "Expect:"]
        if token:
            self._headers.append(f"Authorization: Bearer {token}")
        self._preferred = 0
        self._exchanges = Exchanges(connection_count=CONNECTION_COUNT, answer_limit_bytes=ANSWER_LIMIT_BYTES)

    def look_elsewhere(self) -> None:
        """Ask the next server first from now on."""
        self._preferred = (self._preferred + 1) % len(self.servers)

    async def post(self, path: str, body: Any, answer: type[T], *, wait_ms: int = 0) -> T:
        """The decoded answer. Raises `ConnectionError`, `Unauthorized` and `Refused`."""
        data = msgspec.json.encode(body)
        problem = ""
        for _ in self.servers:
            asked = self._preferred
            url = self.servers[asked] + path
            try:
                status, received = await self._exchanges.exchange(self._request(url, data, ANSWER_MS + wait_ms))
            except ConnectionError as error:
                problem = f"no answer from {url}: {error}"
                self._leave(asked)
                continue
            if 200 <= status < 300:
                return _decoded(received, answer, url)
            said = _said(received)
            if status not in _ELSEWHERE:
                kind = Unauthorized if status in (401, 403) else Refused
                raise kind(f"{url} answered {status}: {said}")
            problem = f"{url} answered {status}: {said}"
            self._leave(asked)
        raise ConnectionError(problem)

    async def aclose(self) -> None:
        """Drop connections; requests that are under way fail."""
        self._exchanges.close()

    def _leave(self, asked: int) -> None:
        """Of requests that fail together, only one moves on: two of them would come back to the dead one."""
        if self._preferred == asked:
            self.look_elsewhere()

    def _request(self, url: str, body: bytes, within_ms: int) -> EasyHandle:
        handle = pycurl.Curl()
        options: list[tuple[int, Any]] = [
            (pycurl.URL, url),
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.FOLLOWLOCATION, 0),  # the token must not travel elsewhere
            (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
            (pycurl.TCP_NODELAY, 1),
            (pycurl.CONNECTTIMEOUT_MS, CONNECT_MS),
            (pycurl.TIMEOUT_MS, within_ms),
            (pycurl.USERAGENT, f"tickwheel-worker/{version('tickwheel')}"),
            (pycurl.HTTPHEADER, self._headers),
            (pycurl.POSTFIELDS, body),
        ]
        if self._ca_file:
            options.append((pycurl.CAINFO, self._ca_file))
        if self._trust.client_cert:
            options.append((pycurl.SSLCERT, self._trust.client_cert))
            options.append((pycurl.SSLKEY, self._trust.client_key or self._trust.client_cert))
        if urlsplit(url).hostname in LOOPBACK_HOSTS:
            options.append((pycurl.PROXY, ""))
        for option, value in options:
            handle.setopt(option, value)
        return handle


def _checked(url: str) -> str:
    shown = repr(redacted(url))
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its text may hold a password
        is_server = False
    if not is_server or not _PLAIN.fullmatch(url):
        raise ConfigError([FieldProblem("server", f"{shown} is not an address such as http://127.0.0.1:8080")])
    if "@" in parts.netloc or "?" in url or "#" in url:
        message = f"{shown} may hold a path, but no query, fragment or user name"
        raise ConfigError([FieldProblem("server", message)])
    return url.rstrip("/")


def _said(received: bytes) -> str:
    """What a server answered, for people: a problem that names no fields is told by its detail."""
    try:
        problem = msgspec.json.decode(received, type=_Problem)
    except (msgspec.DecodeError, RecursionError):
        problem = None
    if problem is not None and problem.detail and not problem.errors:
        return problem.detail
    return received[:_SHOWN_BYTES].decode(errors="replace").strip()


def _decoded(body: bytes, answer: type[T], url: str) -> T:
    try:
        return msgspec.json.decode(body, type=answer)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ConnectionError(f"{url} answered what a Tickwheel server does not: {error}") from error
