"""Spans as OTLP's JSON (`ExportTraceServiceRequest`): ids in hexadecimal, 64-bit integers as texts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tickwheel.ports.spans import Attribute, Span

SCOPE: Final = "tickwheel"
_ERROR: Final = 2
_encode: Final = msgspec.json.Encoder().encode


def export_body(spans: Sequence[Span], resource: Mapping[str, Attribute]) -> bytes:
    """The body of one export; `resource` says who speaks."""
    return _encode(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": _attributes(resource)},
                    "scopeSpans": [{"scope": {"name": SCOPE}, "spans": [_span(span) for span in spans]}],
                }
            ]
        }
    )


def _span(span: Span) -> dict[str, Any]:
    told: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": _nanoseconds(span.start_ms),
        "endTimeUnixNano": _nanoseconds(max(span.start_ms, span.end_ms)),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        told["parentSpanId"] = span.parent_id
    if span.failed:
        told["status"] = {"code": _ERROR, "message": span.failed}
    if span.link is not None:
        told["links"] = [{"traceId": span.link.trace_id, "spanId": span.link.span_id}]
    return told


def _nanoseconds(instant_ms: int) -> str:
    return f"{instant_ms}000000"


def _attributes(values: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Attribute) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
