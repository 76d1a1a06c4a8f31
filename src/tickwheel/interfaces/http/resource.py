"""One path of the API: its methods, and everything that is the same for all of them.

`Resource` is the ASGI application that a Starlette route leads to. It authenticates, runs the handler of the
method, turns errors into problems and sends the answer, in one piece as a rule. HEAD is GET without the body,
OPTIONS lists the methods, any other method is 405 with `Allow`.

Handlers take a `Call` and give an `Answer`; they never see ASGI.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Final, NamedTuple, Protocol

import structlog
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from tickwheel.domain.access import ANONYMOUS, Principal, Scope
from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.trace_context import stored_context
from tickwheel.interfaces.http.auth import principal_of, require
from tickwheel.interfaces.http.limits import ClientGone, read_body, require_json
from tickwheel.interfaces.http.query import Query
from tickwheel.interfaces.http.security_headers import with_security
from tickwheel.interfaces.http.wire import Answer, Header, Refusal, problem, refused
from tickwheel.ports.registry import Act
from tickwheel.services.authentication import Authentication
from tickwheel.services.tracing.request_traces import RequestTrace

_log: Final = structlog.get_logger()
ON_HALF_CLOSED: Final = "tickwheel.on_half_closed"
"""In a request's scope: what the connection calls when the client has closed its sending half."""


class Call:
    """One request as a handler sees it; `principal` is whose it is."""

    __slots__ = (
        "_query",
        "_receive",
        "begun_mono_ms",
        "headers",
        "job_id",
        "principal",
        "request_id",
        "scope",
        "trace",
    )

    def __init__(self, scope: AsgiScope, receive: Receive) -> None:
        self.scope = scope
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._query: Query | None = None
        self.principal: Principal = ANONYMOUS
        self.request_id = b""
        self.trace: RequestTrace | None = None
        self.job_id = ""  # of the job that it made
        self.begun_mono_ms = 0

    @property
    def query(self) -> Query:
        """The parameters after the question mark."""
        if self._query is None:
            self._query = Query(self.scope["query_string"])
        return self._query

    def act(self, action: str) -> Act:
        """Who does this, for the audit log."""
        trace = "" if self.trace is None else stored_context(self.trace.context)
        return Act(self.principal.name, action, self.source, trace)

    @property
    def source(self) -> str:
        """The address at the other end of the connection, a proxy's if one stands in front; it may be unknown."""
        client = self.scope.get("client")
        return client[0] if client else ""

    def path(self, name: str) -> str:
        """The variable part of the path with this name."""
        value: str = self.scope["path_params"][name]
        return value

    async def json_body(self, limit_bytes: int) -> bytes:
        """The whole body, which has to be there and to call itself JSON."""
        require_json(self.headers)
        return await read_body(self._receive, self.headers, limit_bytes)

    async def optional_json_body(self, limit_bytes: int) -> bytes:
        """The whole body, or b"" if there is none; only a body that is there needs a media type."""
        body = await read_body(self._receive, self.headers, limit_bytes)
        if body:
            require_json(self.headers)
        return body

    @contextmanager
    def watching(self, gone: asyncio.Event) -> Iterator[None]:
        """Set `gone` when the client closes its connection, or its side of it; call it after reading the body."""
        watch = asyncio.create_task(self._until_gone(gone), name="http-watch")
        self.scope[ON_HALF_CLOSED] = gone.set
        try:
            yield
        finally:
            del self.scope[ON_HALF_CLOSED]
            watch.cancel()

    async def _until_gone(self, gone: asyncio.Event) -> None:
        while (await self._receive())["type"] == "http.request":
            pass
        gone.set()

    def repeated(self, name: bytes) -> list[bytes]:
        """All values of a header, in order."""
        return [value for key, value in self.scope["headers"] if key == name]


Handler = Callable[[Call], Awaitable[Answer]]


class Need(NamedTuple):
    """What a method asks of the principal; `for_installation`: it has to be one for all tenants.

    `names_tenant`: the query says whose things it is about.
    """

    scope: Scope | None = None
    for_installation: bool = False
    names_tenant: bool = False


_NOTHING: Final = Need()


class Watch(Protocol):
    """Sees each request before it is worked on, and the status of its answer."""

    def begin(self, call: Call, route: str) -> None: ...

    def end(self, call: Call, route: str, status: int) -> None: ...


class Resource:
    """The methods of one path.

    `authentication` None: everybody may. `admit` sees who asks before anything is done, and may refuse it. `route`
    is the path with its variable parts in braces, for `watch`.
    """

    __slots__ = ("_admit", "_allow", "_authentication", "_handlers", "_needs", "_route", "_watch")

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        authentication: Authentication | None,
        *,
        needs: Mapping[str, Need] | None = None,
        admit: Callable[[Call, Need], None] | None = None,
        route: str = "",
        watch: Watch | None = None,
    ) -> None:
        self._route, self._watch = route, watch
        self._handlers = dict(handlers)
        self._authentication = authentication
        self._needs = dict(needs or {})
        self._admit = admit
        methods = {*handlers, "OPTIONS"} | ({"HEAD"} if "GET" in handlers else set())
        self._allow = ", ".join(sorted(methods)).encode()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """ASGI."""
        call, watch = Call(scope, receive), self._watch
        if watch is not None:
            watch.begin(call, self._route)
        try:
            answer = await self._answer(call)
        except ClientGone:
            return
        if watch is not None:
            watch.end(call, self._route, answer.status)
        await send_answer(send, answer, with_body=scope["method"] != "HEAD", request_id=call.request_id)

    async def _answer(self, call: Call) -> Answer:
        try:
            if self._authentication is not None:
                call.principal = await principal_of(self._authentication, call.headers.get(b"authorization"))
            method = call.scope["method"]
            handler = self._handler_of(method)
            need = self._needs.get("GET" if method == "HEAD" else method, _NOTHING)
            require(call.principal, need.scope, for_installation=need.for_installation)
            if self._admit is not None:
                self._admit(call, need)
            return await handler(call)
        except (TickwheelError, Refusal) as error:
            return refused(error)
        except ClientGone:
            raise
        except Exception:
            # A fault of ours must still be an answer that clients can read; the traceback goes to the log.
            _log.exception(
                "http.request_failed",
                method=call.scope["method"],
                path=call.scope["path"],
                request_id=call.request_id.decode(),
            )
            return problem("internal", "The server failed to answer this; its log says why.")

    def _handler_of(self, method: str) -> Handler:
        handler = self._handlers.get("GET" if method == "HEAD" else method)
        if handler is not None:
            return handler
        if method == "OPTIONS":
            return self._options
        raise Refusal(
            "method_not_allowed",
            f"{method} is not possible here; possible are {self._allow.decode()}.",
            headers=((b"allow", self._allow),),
        )

    async def _options(self, call: Call) -> Answer:
        return Answer(204, headers=((b"allow", self._allow),))


async def send_answer(send: Send, answer: Answer, *, with_body: bool = True, request_id: bytes = b"") -> None:
    """Send it as one start and one body message."""
    headers = with_security(answer.headers)
    if request_id:
        headers.append((b"x-request-id", request_id))
    if answer.pieces is not None:
        await _send_pieces(send, answer.status, headers, answer.pieces, with_body=with_body)
        return
    if answer.status not in (204, 304):
        headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body if with_body else b""})


async def _send_pieces(
    send: Send, status: int, headers: list[Header], pieces: AsyncGenerator[bytes, None], *, with_body: bool
) -> None:
    """One after the other. Whoever makes them sees to it that they end when the client is gone."""
    async with aclosing(pieces):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if with_body:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
