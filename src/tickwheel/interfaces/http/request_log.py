"""What is known of a request besides its answer: an id, its trace, and a line in the log if wanted.

The id is that of the header `X-Request-Id` if a client or proxy sent a sound one, else one of ours. The answer
carries it, and so do all log lines about the request.
"""

import re
from itertools import count
from typing import Any, Final

import structlog

from tickwheel.domain.ids import IdError, parse_job_id
from tickwheel.interfaces.http.refused_tokens import RefusedTokens, claimed_key
from tickwheel.interfaces.http.resource import Call
from tickwheel.ports.clock import Clock
from tickwheel.ports.spans import Attribute
from tickwheel.services.tracing.request_traces import RequestTraces

ID_CHARS: Final = 8
"""Of a process, in the ids that it gives."""
REQUEST_ID: Final = b"x-request-id"
UNAUTHORIZED: Final = 401
_SOUND: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)
MAKES_JOBS: Final = frozenset(
    {
        ("POST", "/v1/jobs"),
        ("POST", "/v1/jobs/batch"),
        ("POST", "/v1/jobs/schedule"),
        ("PUT", "/v1/jobs/by-name/{name}"),
        ("POST", "/v1/jobs/{job_id}/trigger"),
    }
)
"""What begins or goes on with a trace."""


class RequestLog:
    """Watches the requests of one process."""

    def __init__(self, traces: RequestTraces, clock: Clock, prefix: str, *, writes_lines: bool = False) -> None:
        """Ids of ours begin with `prefix`, which no other process has."""
        self._traces, self._clock, self._writes_lines = traces, clock, writes_lines
        self._prefix = prefix
        self._log = structlog.get_logger().bind()  # a logger found once: it is called for each request
        self._numbers = count(1)
        self._refused = RefusedTokens(clock)

    def begin(self, call: Call, route: str) -> None:
        """Before anything is done for it."""
        headers = call.headers
        given = headers.get(REQUEST_ID)
        if given is not None and _SOUND.fullmatch(given):
            call.request_id = given
        else:
            call.request_id = f"{self._prefix}-{next(self._numbers)}".encode()
        if (call.scope["method"], route) in MAKES_JOBS:
            call.trace = self._traces.begin(headers.get(b"traceparent", b""), _all_states(call))
        if self._writes_lines:
            call.begun_mono_ms = self._clock.monotonic_ms()

    def end(self, call: Call, route: str, status: int) -> None:
        """It will be answered with that status."""
        method = call.scope["method"]
        if call.trace is not None:
            about: dict[str, Attribute] = {"http.request.method": method, "http.route": route}
            if call.job_id:
                about["tickwheel.job_id"] = call.job_id
            self._traces.end(call.trace, f"{method} {route}", status, about)
        if status == UNAUTHORIZED and b"authorization" in call.headers:
            self._refused.tell(call.source, call.headers[b"authorization"])
        if self._writes_lines:
            took_ms = self._clock.monotonic_ms() - call.begun_mono_ms
            self._log.info(
                "http.request",
                method=method,
                route=route,
                status=status,
                took_ms=took_ms,
                source=call.source,
                **(_refused(call) if status == UNAUTHORIZED else known_of(call)),
            )


def _refused(call: Call) -> dict[str, Any]:
    """Of a request that nobody is known to have sent."""
    known = {"request_id": call.request_id.decode()}
    if key_id := claimed_key(call.headers.get(b"authorization", b"")):
        known["key_id"] = key_id
    return known


def known_of(call: Call) -> dict[str, Any]:
    """By what the lines of a request are found: never a query, a header or a body."""
    known: dict[str, Any] = {"request_id": call.request_id.decode(), "principal": call.principal.name}
    if call.principal.tenant_id is not None:
        known["tenant_id"] = call.principal.tenant_id
    if job_id := call.job_id or _job_in_path(call):
        known["job_id"] = job_id
    if call.trace is not None:
        known["trace_id"] = call.trace.context.trace_id
        known["span_id"] = call.trace.context.span_id
    return known


def _job_in_path(call: Call) -> str:
    text: str = call.scope.get("path_params", {}).get("job_id", "")
    try:
        parse_job_id(text)
    except IdError:
        return ""
    return text


def _all_states(call: Call) -> bytes:
    return b",".join(call.repeated(b"tracestate")) if b"tracestate" in call.headers else b""
