"""Receivers that answer with a flood, a bomb or a drip: the attempt ends, soon, and little of it is kept."""

import asyncio
import resource
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import chain, count, repeat

import pytest

from tickwheel.adapters.webhook.exchange import HEADER_LIMIT_BYTES
from tickwheel.adapters.webhook.settings import BODY_LIMIT_BYTES
from tickwheel.domain.outcome import NOTE_LIMIT_BYTES, Outcome, OutcomeClass

from .harness import Bench, error_of, make_work
from .sink import running_sink

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
TIMEOUT_MS = 1_000
BOMB_BYTES = 256 << 20
WIRE_LIMIT_BYTES = 16 << 20
"""What the kernel's buffers on both ends may take over what was read."""


class Flood:
    """A receiver that writes one piece after the other, whatever is asked."""

    def __init__(self, pieces: Iterator[bytes], pause_s: float = 0) -> None:
        self._pieces, self._pause_s = pieces, pause_s
        self.written_bytes = self.read_header_bytes = 0
        self.head = b""
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError):
                self.head = await reader.readuntil(b"\r\n\r\n")
                for piece in self._pieces:
                    writer.write(piece)
                    self.written_bytes += len(piece)
                    await writer.drain()
                    if self._pause_s:
                        await asyncio.sleep(self._pause_s)
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()


@asynccontextmanager
async def running_flood(pieces: Iterator[bytes], pause_s: float = 0) -> AsyncIterator[Flood]:
    flood = Flood(pieces, pause_s)
    serving: set[asyncio.Task[None]] = set()
    server = await asyncio.start_server(
        lambda reader, writer: serving.add(asyncio.ensure_future(flood.serve(reader, writer))), "127.0.0.1", 0
    )
    flood.port = server.sockets[0].getsockname()[1]
    try:
        yield flood
    finally:
        server.close()
        for connection in serving:
            connection.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()


def answered_by(pieces: Iterator[bytes], pause_s: float = 0) -> tuple[Outcome, Flood]:
    async def scenario() -> tuple[Outcome, Flood]:
        async with running_flood(pieces, pause_s) as flood, Bench() as bench:
            work = make_work(1, f"http://127.0.0.1:{flood.port}/", timeout_ms=TIMEOUT_MS)
            outcome = await bench.run(work)
            assert not bench.executor._attempts
            (exchange,) = bench.executor._idle
            flood.read_header_bytes = exchange.header_bytes
            return outcome, flood

    return asyncio.run(scenario())


_FILLER = b"y" * 1_000

FLOODS = {
    "1xx answers": repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "early hints": repeat(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    "header lines": chain([OK], (b"X-%d: %b\r\n" % (n, _FILLER) for n in count())),
    "tiny header lines": chain([OK], repeat(b"a:\r\n" * 250)),
    "one header line": chain([OK, b"X-Long: "], repeat(_FILLER)),
    "folded header lines": chain([OK, b"X-Long: a\r\n"], repeat(b" " + _FILLER + b"\r\n")),
    "a status line": chain([b"HTTP/1.1 200 "], repeat(_FILLER)),
    "header lines without a colon": chain([OK], repeat(_FILLER + b"\r\n")),
    "cookies": chain([OK], (b"Set-Cookie: c%d=%b\r\n" % (n, _FILLER) for n in count())),
    "trailers": chain([CHUNKED, b"1\r\na\r\n0\r\n"], (b"X-%d: %b\r\n" % (n, _FILLER) for n in count())),
    "a chunk extension": chain([CHUNKED, b"1;x="], repeat(_FILLER)),
    "zeros of a chunk size": chain([CHUNKED], repeat(b"0" * 1_000)),
    "a chunk size beyond all numbers": chain([CHUNKED, b"f" * 40 + b"\r\n"], repeat(_FILLER)),
    "bytes that are not HTTP": repeat(b"\xff" * 1_000),
    "empty lines": repeat(b"\r\n" * 500),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_floods_before_the_body_end_the_attempt_without_success(kind: str) -> None:
    outcome, flood = answered_by(FLOODS[kind])
    assert outcome.outcome_class in {OutcomeClass.RETRYABLE, OutcomeClass.TIMEOUT}
    assert "y" * 20 not in error_of(outcome)
    assert len(outcome.excerpt or b"") <= NOTE_LIMIT_BYTES
    if outcome.outcome_class is OutcomeClass.RETRYABLE:
        assert flood.written_bytes < WIRE_LIMIT_BYTES


@pytest.mark.parametrize(
    "pieces",
    [
        repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 40),
        chain([OK], repeat(b"X-Name: value\r\n" * 40)),
        chain([CHUNKED, b"1\r\na\r\n0\r\n"], repeat(b"X-Name: value\r\n" * 40)),
    ],
    ids=["1xx answers", "headers", "trailers"],
)
def test_header_bytes_are_counted_over_all_parts_of_an_answer(pieces: Iterator[bytes]) -> None:
    outcome, flood = answered_by(pieces)
    assert error_of(outcome) == "the answer's headers are too large"
    assert HEADER_LIMIT_BYTES < flood.read_header_bytes < HEADER_LIMIT_BYTES + 100


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("size", [1, 1_000, 1 << 20])
def test_endless_chunked_answers_are_cut_and_judged_by_their_status(status: int, size: int) -> None:
    chunk = b"%x\r\n%b\r\n" % (size, b"h" * size)
    head = b"HTTP/1.1 %d Word\r\nTransfer-Encoding: chunked\r\n\r\n" % status
    outcome, flood = answered_by(chain([head], repeat(chunk * max(1, 5_000 // size))))
    assert outcome.http_status == status
    expected = OutcomeClass.SUCCESS if status == 200 else OutcomeClass.RETRYABLE
    assert outcome.outcome_class in {expected, OutcomeClass.TIMEOUT}
    assert flood.written_bytes < 10 * BODY_LIMIT_BYTES + WIRE_LIMIT_BYTES


@pytest.mark.parametrize(
    "pieces",
    [
        (bytes([byte]) for byte in OK + b"X-Slow: " + b"z" * 10_000),
        chain([OK + b"Content-Length: 100000\r\n\r\n"], repeat(b"z")),
        chain([CHUNKED], repeat(b"1\r\nz\r\n")),
        chain([b"HTTP/1.1 100 Continue\r\n\r\n"], repeat(b"HTTP/1.1 102 Processing\r\n\r\n")),
    ],
    ids=["headers", "body", "chunks", "1xx answers"],
)
def test_drips_end_at_the_deadline(pieces: Iterator[bytes]) -> None:
    outcome, _ = answered_by(pieces, pause_s=0.02)
    assert outcome.outcome_class is OutcomeClass.TIMEOUT
    assert error_of(outcome) == f"no complete answer within {TIMEOUT_MS} ms"


def _gzip_bomb() -> bytes:
    """Very many zeros: about a quarter of a mebibyte on the wire."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = [packer.compress(bytes(1 << 20)) for _ in range(BOMB_BYTES >> 20)]
    bomb = b"".join([*packed, packer.flush()])
    assert int.from_bytes(bomb[-4:], "little") == BOMB_BYTES, "what it says of its size"
    assert len(bomb) < BODY_LIMIT_BYTES, "else it would be cut off before it explodes"
    return bomb


@pytest.mark.parametrize(
    "header", [b"Content-Encoding: gzip", b"Content-Encoding: gzip, gzip", b"Transfer-Encoding: gzip"]
)
def test_compressed_bomb_is_neither_asked_for_nor_unpacked(header: bytes) -> None:
    bomb = _gzip_bomb()
    head = b"HTTP/1.1 500 Word\r\n%b\r\nContent-Length: %d\r\n\r\n" % (header, len(bomb))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome, flood = answered_by(iter([head, bomb]))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert outcome.outcome_class is OutcomeClass.RETRYABLE
    assert b"accept-encoding" not in flood.head.lower()
    assert b"\nte:" not in flood.head.lower()
    assert grown_kib < 64 << 10, "it was not unpacked"
    if b"Content" in header:
        assert outcome.http_status == 500
        assert outcome.excerpt == bomb[:NOTE_LIMIT_BYTES], "kept as it came"


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: -1\r\n\r\nabc",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        OK + b"Content-Length: 5, 6\r\n\r\nabcdef",
        CHUNKED + b"-1\r\nabc",
        CHUNKED + b"5\r\nabcdefgh",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n\x00\x00\x00",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        OK + b"X: a\x00b\r\nContent-Length: 0\r\n\r\n",
        b"",
    ],
)
def test_answers_that_contradict_themselves_are_no_success(answer: bytes) -> None:
    outcome, _ = answered_by(iter([answer]))
    assert outcome.outcome_class is not OutcomeClass.SUCCESS


def test_nothing_that_an_answer_says_changes_the_next_request() -> None:
    """Cookies, redirects, other services and upgrades to TLS are all a browser's business."""
    said = {
        "Set-Cookie": "session=1; Path=/",
        "Alt-Svc": 'h2=":1"; ma=3600',
        "Strict-Transport-Security": "max-age=3600",
        "Location": "http://127.0.0.1:1/",
        "Refresh": "0; url=http://127.0.0.1:1/",
        "WWW-Authenticate": "Basic realm=x",
    }
    query = "&".join(f"{name}={value.replace(';', '%3B').replace(' ', '%20')}" for name, value in said.items())

    async def scenario() -> None:
        async with running_sink() as sink, Bench(resolve=lambda host: ["127.0.0.1"]) as bench:
            for slot, status in enumerate((200, 401, 307, 200)):
                await bench.run(make_work(slot, sink.url(f"/status/{status}?{query}", "hook.example")))
            assert [request.path.split("?")[0] for request in sink.received] == [
                f"/status/{status}" for status in (200, 401, 307, 200)
            ]
            assert not {"cookie", "authorization"} & sink.received[-1].headers.keys()
            varying = {"webhook-id", "idempotency-key", "x-fencing-token", "x-job-id", "webhook-timestamp"}
            first, last = sink.received[0].headers, sink.received[-1].headers
            assert {name: first[name] for name in first.keys() - varying} == {
                name: last[name] for name in last.keys() - varying
            }

    asyncio.run(scenario())


def test_limits_are_the_documented_ones() -> None:
    assert (HEADER_LIMIT_BYTES, BODY_LIMIT_BYTES, NOTE_LIMIT_BYTES) == (64 << 10, 1 << 20, 2 << 10)
