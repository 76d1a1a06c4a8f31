"""The trace of an attempt: which spans it has, and what its target is told.

A one-off goes on with the trace of the request that made it. Each run of a recurring job is a trace of its own,
with a link to that request, for a trace of a year is of no use to anybody.

    POST /v1/jobs  ->  tickwheel.claim  ->  tickwheel.attempt  ->  POST api.example.com

The ids of the spans are digests of the run and of its fencing token. So nothing has to be kept from the claim to
the end of the attempt, and every node and worker that has to do with the run names the same spans.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from tickwheel.domain.trace_context import TraceContext, read_context

_SPAN_BYTES: Final = 8
_TRACE_BYTES: Final = 16


class RunTrace(msgspec.Struct, gc=False):
    """Of one attempt. `told` false: it only passes on what came with the request, and no spans are exported.

    `parent_id` is the span of the request, empty where the run begins a trace; then `link` has it.
    """

    context: TraceContext  # what a handler sees: the span of the attempt, or of the request
    parent_id: str = ""
    claim_id: str = ""
    call_id: str = ""
    link: TraceContext | None = None
    sent_ms: int = 0  # when the request to the target was sent, and when its answer was there; 0 = never
    answered_ms: int = 0
    lost_ms: int = 0  # when the attempt ended whose worker was lost; 0 = it wasn't

    @property
    def told(self) -> bool:
        """Whether spans are exported."""
        return self.context.told

    @property
    def called(self) -> TraceContext:
        """What the target of a webhook is told: the span of the call."""
        return msgspec.structs.replace(self.context, span_id=self.call_id) if self.call_id else self.context


def run_trace(stored: str, job_id: bytes, scheduled_ms: int, fence: int, *, recurring: bool) -> RunTrace | None:
    """Of the attempt with that token, by what is stored with the job; None for what can't be read."""
    origin = read_context(stored)
    if origin is None:
        return None
    run = job_id + scheduled_ms.to_bytes(8, "big", signed=True)
    attempt = run + fence.to_bytes(8, "big", signed=True)
    trace_id = _digest(b"trace", run, _TRACE_BYTES) if recurring else origin.trace_id
    if not origin.told and not recurring:
        return RunTrace(origin)
    context = TraceContext(
        trace_id, _digest(b"attempt", attempt, _SPAN_BYTES), origin.sampled, origin.state, origin.told
    )
    if not origin.told:
        return RunTrace(context)
    return RunTrace(
        context,
        parent_id="" if recurring else origin.span_id,
        claim_id=_digest(b"claim", attempt, _SPAN_BYTES),
        call_id=_digest(b"call", attempt, _SPAN_BYTES),
        link=origin if recurring else None,
    )


def _digest(what: bytes, of: bytes, length: int) -> str:
    return blake2b(of, digest_size=length, person=what).hexdigest()
