"""Spans: what took how long within a trace, for whoever collects them."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol, TypeAlias

import msgspec

from tickwheel.domain.trace_context import TraceContext

Attribute: TypeAlias = str | int | bool


class SpanKind(IntEnum):
    """As OpenTelemetry numbers them."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3


class Span(msgspec.Struct, frozen=True, gc=False):
    """One that has ended. `failed` says why, of one that did. Attributes hold no payload, header or query."""

    trace_id: str
    span_id: str
    parent_id: str  # empty: it begins the trace
    name: str
    kind: SpanKind
    start_ms: int
    end_ms: int
    attributes: Mapping[str, Attribute]
    failed: str = ""
    link: TraceContext | None = None


class SpanSink(Protocol):
    """Takes spans. It is quick and never raises; it may drop what it has no room for."""

    def add(self, span: Span) -> None: ...
