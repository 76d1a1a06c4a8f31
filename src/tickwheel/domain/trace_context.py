"""W3C Trace Context: who caused a request, as `traceparent` and `tracestate` carry it.

    traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
                    trace id                         span id          1 = sampled

Whatever doesn't keep to the standard is as if it hadn't come: a header that somebody's proxy has broken is no
reason to refuse a job. A broken `tracestate` is left out alone.
"""

import re
from typing import Final

import msgspec

TRACESTATE_CHARS: Final = 512
TRACESTATE_MEMBERS: Final = 32
_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_KEY: Final = r"(?:[a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_MEMBER: Final = re.compile(_KEY + r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]", re.ASCII)
_LONGEST_CHARS: Final = 256
"""Of a `traceparent`; those of later versions may be longer than the 55 of the first one."""
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16
_SAMPLED: Final = 1
_OURS: Final = "+"


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A span of a trace, and whether the trace is recorded. `state` is the `tracestate` that goes with it.

    `told`: the span is one of ours, and those that come after it are exported as well.
    """

    trace_id: str
    span_id: str
    sampled: bool
    state: str = ""
    told: bool = False

    @property
    def traceparent(self) -> str:
        """As the header says it."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def parse_trace_context(traceparent: bytes, tracestate: bytes = b"") -> TraceContext | None:
    """What the headers say; None if that is nothing, or no trace context."""
    if len(traceparent) > _LONGEST_CHARS:
        return None
    found = _TRACEPARENT.fullmatch(traceparent.decode("latin-1").strip(" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED), _state(tracestate))


def _state(tracestate: bytes) -> str:
    if not tracestate or len(tracestate) > TRACESTATE_CHARS:
        return ""
    members = [member for part in tracestate.decode("latin-1").split(",") if (member := part.strip(" \t"))]
    keys = {member.partition("=")[0] for member in members}
    if len(members) > TRACESTATE_MEMBERS or len(keys) < len(members):
        return ""
    return ",".join(members) if all(map(_MEMBER.fullmatch, members)) else ""


def stored_context(context: TraceContext) -> str:
    """The text that is kept with a job."""
    state = f" {context.state}" if context.state else ""
    return f"{_OURS if context.told else ''}{context.traceparent}{state}"


def read_context(stored: str) -> TraceContext | None:
    """The inverse of `stored_context`; None for what is no such text."""
    told = stored.startswith(_OURS)
    traceparent, _, state = stored.removeprefix(_OURS).partition(" ")
    context = parse_trace_context(traceparent.encode(), state.encode())
    return msgspec.structs.replace(context, told=True) if context is not None and told else context
