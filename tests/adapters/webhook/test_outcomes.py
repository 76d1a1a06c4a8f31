"""Each way in which an attempt can end, over a real socket."""

import asyncio
import socket

import pytest

from tickwheel.domain.outcome import NOTE_LIMIT_BYTES, OutcomeClass

from .harness import Bench, error_of, loopback, make_work, run_id
from .sink import running_sink


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, OutcomeClass.SUCCESS),
        (204, OutcomeClass.SUCCESS),
        (299, OutcomeClass.SUCCESS),
        (301, OutcomeClass.PERMANENT),
        (304, OutcomeClass.PERMANENT),
        (400, OutcomeClass.PERMANENT),
        (404, OutcomeClass.PERMANENT),
        (408, OutcomeClass.RETRYABLE),
        (410, OutcomeClass.PERMANENT),
        (421, OutcomeClass.RETRYABLE),
        (425, OutcomeClass.RETRYABLE),
        (429, OutcomeClass.RETRYABLE),
        (500, OutcomeClass.RETRYABLE),
        (501, OutcomeClass.PERMANENT),
        (503, OutcomeClass.RETRYABLE),
        (505, OutcomeClass.PERMANENT),
    ],
)
def test_status_decides_the_class(status: int, expected: OutcomeClass) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            outcome = await bench.run(make_work(1, sink.url(f"/status/{status}")))
            assert (outcome.outcome_class, outcome.http_status) == (expected, status)
            assert len(sink.received) == 1
            if expected is not OutcomeClass.SUCCESS:
                assert str(status) in error_of(outcome)
                assert outcome.excerpt == (None if status == 304 else b"the answer")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("value", "expected_ms"), [("7", 7_000), ("999999", 3_600_000), ("soon", None), ("-5", None)]
)
def test_retry_after_is_passed_on_within_its_bounds(value: str, expected_ms: int | None) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            outcome = await bench.run(make_work(1, sink.url(f"/status/503?Retry-After={value}")))
            assert outcome.outcome_class is OutcomeClass.RETRYABLE
            assert outcome.retry_after_ms == expected_ms

    asyncio.run(scenario())


def test_redirects_are_not_followed() -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            target = sink.url("/status/302") + "?Location=" + sink.url("/status/200")
            outcome = await bench.run(make_work(1, target))
            assert outcome.outcome_class is OutcomeClass.PERMANENT
            assert "redirects are not followed" in error_of(outcome)
            assert [request.path.split("?")[0] for request in sink.received] == ["/status/302"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "expected_class", "text"),
    [
        ("/garbage", OutcomeClass.RETRYABLE, "not HTTP"),
        ("/cut", OutcomeClass.RETRYABLE, "cut off"),
        ("/close", OutcomeClass.RETRYABLE, "closed before an answer"),
        ("/reset", OutcomeClass.RETRYABLE, "connection"),
        ("/headers", OutcomeClass.RETRYABLE, "headers are too large"),
        ("/never", OutcomeClass.TIMEOUT, "no complete answer within 1000 ms"),
        ("/drip", OutcomeClass.TIMEOUT, "no complete answer within 1000 ms"),
    ],
)
def test_broken_answers_may_be_retried(path: str, expected_class: OutcomeClass, text: str) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            outcome = await bench.run(make_work(1, sink.url(path), timeout_ms=1_000 if "1000" in text else 20_000))
            assert outcome.outcome_class is expected_class
            assert text in error_of(outcome)
            assert len(sink.received) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(("status", "expected"), [(200, OutcomeClass.SUCCESS), (500, OutcomeClass.RETRYABLE)])
def test_endless_answer_is_cut_and_judged_by_its_status(status: int, expected: OutcomeClass) -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            outcome = await bench.run(make_work(1, sink.url(f"/huge?status={status}")))
            assert (outcome.outcome_class, outcome.http_status) == (expected, status)
            if status == 500:
                assert outcome.excerpt == b"h" * NOTE_LIMIT_BYTES

    asyncio.run(scenario())


def test_refused_connection_may_be_retried() -> None:
    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, not listening
            async with Bench() as bench:
                outcome = await bench.run(make_work(1, f"http://127.0.0.1:{taken.getsockname()[1]}/"))
        assert outcome.outcome_class is OutcomeClass.RETRYABLE
        assert outcome.error == "the connection was refused"

    asyncio.run(scenario())


def test_listener_that_never_accepts_times_out_while_connecting() -> None:
    async def scenario() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            address = listener.getsockname()
            fillers = []
            for _ in range(4):  # fill the accept queue: further handshakes are ignored
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(address)
                fillers.append(filler)
            try:
                async with Bench(loopback(connect_timeout_ms=200)) as bench:
                    outcome = await bench.run(make_work(1, f"http://127.0.0.1:{address[1]}/"))
            finally:
                for filler in fillers:
                    filler.close()
        assert outcome.outcome_class is OutcomeClass.TIMEOUT
        assert outcome.error == "no connection within 200 ms"

    asyncio.run(scenario())


def test_half_open_server_times_out() -> None:
    async def scenario() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(5)  # the kernel accepts, nobody reads
            async with Bench() as bench:
                target = f"http://127.0.0.1:{listener.getsockname()[1]}/"
                outcome = await bench.run(make_work(1, target, timeout_ms=1_000))
        assert outcome.outcome_class is OutcomeClass.TIMEOUT
        assert outcome.error == "no complete answer within 1000 ms"

    asyncio.run(scenario())


def test_closed_kept_alive_connection_does_not_send_twice() -> None:
    """libcurl alone would send the request again on a new connection, under the same fencing token."""

    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            await bench.run(make_work(1, sink.url("/status/200")))
            outcome = await bench.run(make_work(2, sink.url("/close")))
            assert outcome.outcome_class is OutcomeClass.RETRYABLE
            assert "kept-alive" in error_of(outcome)
            assert [request.run_id for request in sink.received] == [run_id(1), run_id(2)]
            assert {request.connection for request in sink.received} == {1}
            # From now on this host gets a connection per request.
            for slot in (3, 4):
                assert (await bench.run(make_work(slot, sink.url("/status/200")))).http_status == 200
            assert len({request.connection for request in sink.received}) == 3

    asyncio.run(scenario())


def test_connections_are_kept_alive() -> None:
    async def scenario() -> None:
        async with running_sink() as sink, Bench() as bench:
            for slot in range(5):
                await bench.run(make_work(slot, sink.url("/status/204")))
            assert sink.connection_count == 1

    asyncio.run(scenario())
