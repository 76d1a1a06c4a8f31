"""What comes over HTTP before a body is looked at: bytes of connections, headers, and filters of lists."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from uvicorn.config import Config
from uvicorn.server import ServerState

from tickwheel.domain.access import EVERYTHING, Principal
from tickwheel.domain.errors import BadCursor, InvalidRequest, NotFound
from tickwheel.interfaces.http.auth import principal_of
from tickwheel.interfaces.http.connection import BoundedProtocol
from tickwheel.interfaces.http.idempotency import header_key
from tickwheel.interfaces.http.job_filters import job_query
from tickwheel.interfaces.http.limits import require_json
from tickwheel.interfaces.http.preconditions import expected_version
from tickwheel.interfaces.http.resource import Call
from tickwheel.interfaces.http.room import Room, RoomLimits
from tickwheel.interfaces.http.wire import Refusal, problem
from tickwheel.ports.cursors import write_cursor
from tickwheel.ports.job_lists import read_start
from tickwheel.services.authentication import Authentication
from tickwheel.testing.virtual_clock import VirtualClock

from ..parser import Parser, encoded, to_bytes
from ..strategies import DIGITS, NOISE, joined, near, pick
from .names import JOB
from .request_bodies import told

T = TypeVar("T")
TOKEN = "static-token-0123456789"
_BOUND = Principal("t", EVERYTHING, "t1")


def _call(query: bytes = b"", headers: tuple[tuple[bytes, bytes], ...] = ()) -> Call:
    async def nothing() -> Any:
        return {"type": "http.disconnect"}

    return Call({"type": "http", "query_string": query, "headers": list(headers)}, nothing)


def at_once(work: Awaitable[T]) -> T:
    """The result of what waits for nothing."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as done:
        return cast(T, done.value)
    raise AssertionError("it waits for something")


def check_query(data: bytes) -> bool:
    if b"#" in data or not data.isascii():
        data = data.replace(b"#", b"").decode("ascii", "ignore").encode()  # the parser of heads refuses these
    taken = False
    for principal in (None, _BOUND):
        call = _call(data)
        if principal is not None:
            call.principal = principal
        try:
            wanted = job_query(call)
        except InvalidRequest as error:
            told(error)
            continue
        except NotFound:
            assert principal is _BOUND
            continue
        assert principal is None or wanted.tenant_id == "t1"
        assert 1 <= wanted.limit <= 1_000
        try:
            read_start(wanted)
        except BadCursor:
            continue
        taken = True
    return taken


_NAMES = pick(
    *("tenant_id", "limit", "cursor", "order", "status", "name_prefix", "schedule_type", "priority", "tag"),
    *("due_from", "due_to", "x", "", "%00", "limit%20"),
)
_VALUES = st.one_of(
    DIGITS,
    NOISE,
    pick(
        "created", "due", "FAILED", "SCHEDULED", "CRON", "HIGH", "t1", "default", "a%20b", "%ff", "%E2%80%A8", "+"
    ),
    pick("2026-10-22T14:30:00Z", "2026-10-22T14:30:00%2B02:00", write_cursor("created", JOB), "%", "%0", "a%00b"),
)
_QUERIES = st.lists(joined(_NAMES, pick("=", "=", ""), _VALUES), max_size=5).map("&".join)


def check_headers(data: bytes) -> bool:
    """Of one request: whose it is, its key, its precondition, its media type."""
    lines = [line.partition(b":") for line in data.split(b"\n")]
    headers = tuple((name.strip().lower(), value.strip(b" \t")) for name, _, value in lines)
    call = _call(headers=headers)
    authentication = Authentication(VirtualClock(), tokens=(TOKEN,), required=True)
    for read in (lambda: header_key(call), lambda: expected_version(call), lambda: require_json(call.headers)):
        _is_taken(read)
    return _is_taken(partial(_principal, authentication, call))


def _principal(authentication: Authentication, call: Call) -> None:
    given = call.headers.get(b"authorization")
    at_once(principal_of(authentication, given))
    assert given is not None
    assert TOKEN.encode() in given, "somebody else is let in"


def _is_taken(read: Callable[[], object]) -> bool:
    try:
        read()
    except InvalidRequest as error:
        told(error)
        return False
    except Refusal as refusal:
        assert len(problem(refusal.code, refusal.detail).body) < 2_000
        return False
    return True


_BASIC = "Basic dXNlcjpzdGF0aWMtdG9rZW4tMDEyMzQ1Njc4OQ=="
_HEADER_LINES = st.lists(
    joined(
        pick("authorization", "Idempotency-Key", "if-match", "content-type", "content-encoding", "x"),
        ": ",
        st.one_of(
            NOISE,
            DIGITS,
            pick(f"Bearer {TOKEN}", f"bearer  {TOKEN} ", _BASIC, "Basic", "Bearer tw_a_b", "Bearer a.b.c", '"3"'),
            pick('W/"3"', "*", '"3","4"', "application/json; charset=utf-8", "application/x+json;a", "gzip"),
        ),
    ),
    max_size=5,
).map("\n".join)


class _Wire(asyncio.Transport):
    """Where a connection writes to; whatever closes it, it is told so."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 6)})
        self._loop, self._closing = loop, False
        self.written = bytearray()
        self.protocol: asyncio.Protocol | None = None

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            assert self.protocol is not None
            self._loop.call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def _application(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")
_CONFIG = Config(_application, ws="none", lifespan="off", log_config=None, server_header=False)
_LOOPS: list[asyncio.AbstractEventLoop] = []


def check_connection(data: bytes) -> bool:
    """Bytes of a client, in one piece or (after `<numbers>\\n\\n`) in several, and then its end."""
    cuts, mark, rest = data.partition(b"\n\n")
    if mark and cuts.replace(b",", b"").isdigit() and len(cuts) < 100:
        data = rest
        places = sorted({int(cut) % (len(data) + 1) for cut in cuts.split(b",") if cut})
    else:
        places = []
    if not _LOOPS:
        _LOOPS.append(asyncio.new_event_loop())
    loop, faults = _LOOPS[0], []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    written = loop.run_until_complete(_converse(loop, data, places))
    assert not faults, faults
    statuses = [int(status) for status in _STATUS.findall(written)]
    assert all(status < 500 for status in statuses), statuses
    assert all(status in (100, 200) for status in statuses[:-1]), "it goes on after a refusal"
    return 200 in statuses


async def _converse(loop: asyncio.AbstractEventLoop, data: bytes, places: list[int]) -> bytes:
    wire, room = _Wire(loop), Room(RoomLimits())
    protocol = BoundedProtocol(_CONFIG, ServerState(), {}, loop, room=room)
    wire.protocol = protocol
    protocol.connection_made(wire)
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        if wire.is_closing():
            break
        protocol.data_received(data[start:end])
        await asyncio.sleep(0)
    if not wire.is_closing() and not protocol.eof_received():
        wire.close()
    for _ in range(400):
        if wire.is_closing() and len(asyncio.all_tasks()) == 1:
            break
        await asyncio.sleep(0)
    protocol.overdue(loop.time() + 3_600)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1, "a request is never answered"
    assert wire.is_closing(), "the connection stays open"
    return bytes(wire.written)


def _close_loops() -> None:
    for loop in _LOOPS:
        loop.close()
    _LOOPS.clear()


_HEADS = st.one_of(
    pick("Host: x", "Host: [::1]:80", "Host: a@b", "host : x", "Connection: close", "Connection: keep-alive"),
    pick("Content-Length: 2", "Content-Length: +2", "Content-Length: 99", "Transfer-Encoding: chunked", " folded"),
    pick("Transfer-Encoding: gzip, chunked", "Expect: 100-continue", "Upgrade: websocket", "Connection: Upgrade"),
    joined(pick("X", "Host", "Content-Length", "Cookie", "x\x00"), ": ", st.one_of(NOISE, DIGITS)),
)


@st.composite
def _conversations(draw: st.DrawFn) -> str:
    requests = []
    for _ in range(draw(st.integers(1, 4))):
        lines = [
            draw(pick("GET", "POST", "OPTIONS", "HEAD", "CONNECT", "PRI", "get"))
            + draw(pick(" / ", " /a?b=c ", " * ", " http://x/ ", " /a#b ", " x:80 ", "\t/\t"))
            + draw(pick("HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.2", "")),
            *draw(st.sampled_from([["Host: x"], ["Host: x"], []])),
            *draw(st.lists(_HEADS, max_size=3)),
        ]
        body = draw(
            st.one_of(
                pick("", "", "{}", "2\r\n{}\r\n0\r\n\r\n", "2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n", "-1\r\n"), NOISE
            )
        )
        requests.append(draw(pick("\r\n", "\r\n", "\r\n", "\n")).join([*lines, "", ""]) + body)
    cuts = draw(st.lists(st.integers(0, 500).map(str), max_size=4))
    return (",".join(cuts) + "\n\n" if cuts else "") + "".join(requests)


_PLAIN = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

PARSERS = (
    Parser(
        name="list_filters",
        check=check_query,
        grammar=lambda: near(_QUERIES),
        examples=encoded(
            [
                "limit=5&order=due&status=FAILED&tag=a",
                "tenant_id=t1&name_prefix=b&priority=HIGH&schedule_type=CRON",
                f"due_from=2026-10-22T14:30:00Z&cursor={write_cursor('created', JOB)}",
            ]
        ),
        words=(b"&", b"=", b"%", b"%00", b"limit=", b"cursor=", b"tenant_id=", b";"),
    ),
    Parser(
        name="request_headers",
        check=check_headers,
        grammar=lambda: near(_HEADER_LINES),
        examples=encoded(
            [
                f'authorization: Bearer {TOKEN}\nidempotency-key: k\nif-match: "3"\ncontent-type: text/json',
                f"authorization: {_BASIC}\nif-match: *\ncontent-type: application/problem+json; charset=utf-8",
            ]
        ),
        words=(b"bearer ", b"basic ", b"\n", b'"', b"W/", b"idempotency-key: ", b"charset=", b";"),
    ),
    Parser(
        name="connection",
        check=check_connection,
        grammar=lambda: _conversations().map(to_bytes) | near(_conversations()),
        examples=encoded(
            [
                f"{_PLAIN}Content-Length: 2\r\n\r\n{{}}GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                f"5,20,60\n\n{_PLAIN}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\nX: y\r\n\r\n",
                f"{_PLAIN}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{{}}",
                "GET / HTTP/1.0\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            ]
        ),
        words=(
            b"\r\n",
            b"\r\n\r\n",
            b": ",
            b"HTTP/1.1",
            b"Content-Length: ",
            b"Transfer-Encoding: chunked\r\n",
            b"0\r\n\r\n",
        ),
        close=_close_loops,
    ),
)
