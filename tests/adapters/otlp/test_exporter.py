"""What becomes of spans when the collector takes them, refuses them, or is away."""

import asyncio

import pytest

from tickwheel.adapters.otlp.exporter import BATCH_COUNT, QUEUE_COUNT, TRIES, OtlpExporter
from tickwheel.ports.spans import Attribute, Span, SpanKind
from tickwheel.testing.virtual_clock import VirtualClock

from ...servers.otlp_sink import attributes, otlp_sink

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def span(number: int = 0) -> Span:
    about: dict[str, Attribute] = {"number": number, "text": "a", "flag": True}
    return Span(TRACE, f"{number + 1:016x}", SPAN, "a span", SpanKind.INTERNAL, 1_000, 1_500, about)


def exporter(url: str) -> OtlpExporter:
    headers = [("x-key", "k")]
    return OtlpExporter(f"{url}/v1/traces", VirtualClock(), {"service.name": "tickwheel"}, headers)


async def test_batches_arrive_whole_and_in_order() -> None:
    with otlp_sink() as sink:
        sender = exporter(sink.url)
        for number in range(BATCH_COUNT + 1):
            sender.add(span(number))
        await sender.flush()
        sender.close()
    assert [attributes(one)["number"] for one in sink.spans] == [str(n) for n in range(BATCH_COUNT + 1)]
    assert len(sink.headers) == 2
    assert sink.headers[0]["x-key"] == "k"
    assert sink.headers[0]["content-type"] == "application/json"
    assert (sender.exported_count, sender.dropped_count, sender.waiting_count) == (BATCH_COUNT + 1, 0, 0)


async def test_a_span_is_written_as_otlp_has_it() -> None:
    with otlp_sink() as sink:
        sender = exporter(sink.url)
        sender.add(span())
        await sender.flush()
        sender.close()
    (one,) = sink.spans
    assert one == {
        "traceId": TRACE,
        "spanId": "0000000000000001",
        "parentSpanId": SPAN,
        "name": "a span",
        "kind": 1,
        "startTimeUnixNano": "1000000000",
        "endTimeUnixNano": "1500000000",
        "attributes": [
            {"key": "number", "value": {"intValue": "0"}},
            {"key": "text", "value": {"stringValue": "a"}},
            {"key": "flag", "value": {"boolValue": True}},
        ],
    }


async def test_memory_is_bounded_while_the_collector_is_away() -> None:
    sender = exporter("http://127.0.0.1:1")
    for number in range(QUEUE_COUNT + 10):
        sender.add(span(number))
    assert (sender.waiting_count, sender.dropped_count) == (QUEUE_COUNT, 10)
    await sender.flush()
    sender.close()
    assert (sender.waiting_count, sender.exported_count, sender.dropped_count) == (0, 0, QUEUE_COUNT + 10)


@pytest.mark.parametrize(("status", "tries"), [(503, TRIES), (429, TRIES), (400, 1), (401, 1), (302, 1)])
async def test_only_what_may_pass_is_tried_again(status: int, tries: int) -> None:
    clock = VirtualClock()
    with otlp_sink() as sink:
        sink.status = status
        sender = OtlpExporter(f"{sink.url}/v1/traces", clock, {})
        sender.add(span())
        sending = asyncio.create_task(sender.run())
        while not sending.done():
            await asyncio.wait([sending], timeout=0.01)
            clock.step_ms(60_000)
        with pytest.raises(ConnectionError, match=f"answered {status}"):
            await sending
        sender.close()
    assert len(sink.headers) == tries
    assert (sender.exported_count, sender.dropped_count) == (0, 1)
