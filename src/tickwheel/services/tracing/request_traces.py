"""The trace that a request for jobs is part of.

Its own `traceparent` decides: what the caller records is recorded here, and what it doesn't is passed on as it
came. Without one, a share of the requests begins traces. Nothing is recorded where nothing is exported.
"""

from typing import Final

from msgspec.structs import replace

from tickwheel.domain.trace_context import TraceContext, parse_trace_context
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.spans import Attribute, Span, SpanKind, SpanSink

_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8
_PARTS: Final = 1_000_000


class RequestTrace:
    """Of one request. `context` is what its jobs go on with: the span of the request, or what came with it."""

    __slots__ = ("context", "parent_id", "start_ms")

    def __init__(self, context: TraceContext, parent_id: str, start_ms: int) -> None:
        self.context, self.parent_id, self.start_ms = context, parent_id, start_ms


class RequestTraces:
    """`spans` None: nothing is exported."""

    def __init__(self, clock: Clock, randomness: Randomness, spans: SpanSink | None, sample_parts: int) -> None:
        self._clock, self._randomness, self._spans = clock, randomness, spans
        self._sample_parts = sample_parts  # of a million

    def begin(self, traceparent: bytes, tracestate: bytes) -> RequestTrace | None:
        """By the headers of the request, b"" for those that are not there."""
        given = parse_trace_context(traceparent, tracestate) if traceparent else None
        if given is not None:
            if self._spans is None or not given.sampled:
                return RequestTrace(given, "", 0)
            ours = replace(given, span_id=self._random_id(_SPAN_BYTES), told=True)
            return RequestTrace(ours, given.span_id, self._clock.now_ms())
        if not self._sample_parts or self._randomness.fraction() * _PARTS >= self._sample_parts:
            return None
        ours = TraceContext(self._random_id(_TRACE_BYTES), self._random_id(_SPAN_BYTES), sampled=True, told=True)
        return RequestTrace(ours, "", self._clock.now_ms())

    def end(self, trace: RequestTrace, name: str, status: int, about: dict[str, Attribute]) -> None:
        """The request was answered; `name` is its method and route."""
        if self._spans is None or not trace.context.told:
            return
        self._spans.add(
            Span(
                trace.context.trace_id,
                trace.context.span_id,
                trace.parent_id,
                name,
                SpanKind.SERVER,
                trace.start_ms,
                self._clock.now_ms(),
                {**about, "http.response.status_code": status},
                failed=f"HTTP {status}" if status >= 500 else "",
            )
        )

    def _random_id(self, length: int) -> str:
        value = self._randomness.random_bytes(length)
        return value.hex() if any(value) else "1".zfill(2 * length)
