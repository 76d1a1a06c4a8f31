"""The header lines of an attempt, in the form that libcurl wants them.

A user's headers come first and ours win: a user line with one of our names, or with a name that belongs to the
connection, is left out. Texts of ours that are not plain ASCII (tenant ids and keys are free text) travel
percent-encoded as UTF-8, so that nothing can break out of its line.

Sealed values are opened here: they are in the clear only while a request is put together and sent.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import quote

from tickwheel.adapters.webhook.signature import sign
from tickwheel.domain.requests.target_rules import CONNECTION_HEADERS
from tickwheel.domain.trace_context import TraceContext
from tickwheel.ports.executor import Work
from tickwheel.ports.vault import NO_VAULT, Vault, opened_headers

_OURS: Final = frozenset(
    {
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "idempotency-key",
        "x-fencing-token",
        "x-attempt",
        "x-max-attempts",
        "x-scheduled-at",
        "x-job-id",
        "x-tenant-id",
        "x-idempotency-key",
        "user-agent",
    }
)
_OF_THE_CONNECTION: Final = CONNECTION_HEADERS | {"http2-settings"}
DROPPED_NAMES: Final = _OURS | _OF_THE_CONNECTION
"""User headers of these names (lower case) are never sent."""

_OF_TRACES: Final = (b"traceparent:", b"traceparent;", b"tracestate:", b"tracestate;")

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_LINE_BREAKING: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_PLAIN: Final = re.compile(r"[!-$&-~]([ -$&-~]*[!-$&-~])?", re.ASCII)  # printable, but for "%"
_PLAIN_CHARACTERS: Final = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


HeaderLines: TypeAlias = Callable[[Work, int, Sequence[bytes], Vault], list[bytes | str]]
"""All header lines of one attempt, as `header_lines` gives them."""


class HeaderRefused(ValueError):
    """A user header cannot be sent; the text holds its position and never its value."""


@lru_cache(maxsize=1024)
def user_lines(headers: tuple[tuple[str, str], ...], has_body: bool) -> tuple[bytes, ...]:
    """A user's header lines, with what is the same for every attempt. Raises `HeaderRefused`."""
    lines = []
    typed = False
    for position, (name, value) in enumerate(headers, 1):
        if not _TOKEN.fullmatch(name):
            raise HeaderRefused(f"header {position} has a name that HTTP does not allow")
        if _LINE_BREAKING.search(value):
            raise HeaderRefused(f"header {position} has a control character in its value")
        if name.lower() in DROPPED_NAMES:
            continue
        typed = typed or name.lower() == "content-type"
        # libcurl takes "Name:" for "do not send this header"; an empty value is written with a semicolon.
        stripped = value.strip()
        lines.append(f"{name}: {stripped}".encode() if stripped else f"{name};".encode())
    if not typed:
        # A bare "Content-Type:" keeps libcurl from naming a form type of its own.
        lines.append(b"Content-Type: application/json" if has_body else b"Content-Type:")
    lines.append(b"Expect:")
    return tuple(lines)


def header_lines(
    work: Work, timestamp_s: int, keys: Sequence[bytes], vault: Vault = NO_VAULT
) -> list[bytes | str]:
    """All header lines of one attempt that starts at `timestamp_s`. Raises `HeaderRefused` and `CannotOpen`."""
    run_id = work.run_id
    lines: list[bytes | str] = [
        *user_lines(opened_headers(vault, work.tenant_id, work.target), bool(work.payload)),
        f"webhook-id: {run_id}",
        f"webhook-timestamp: {timestamp_s}",
        f"Idempotency-Key: {run_id}",
        f"X-Fencing-Token: {work.fence}",
        f"X-Attempt: {work.attempt}",
        f"X-Max-Attempts: {work.max_attempts}",
        f"X-Scheduled-At: {_iso_ms(work.scheduled_ms)}",
        f"X-Job-Id: {work.job_id_text}",
        f"X-Tenant-Id: {_plain(work.tenant_id)}",
    ]
    if work.idempotency_key:
        lines.append(f"X-Idempotency-Key: {_plain(work.idempotency_key)}")
    if keys:
        lines.append(f"webhook-signature: {sign(keys, run_id, timestamp_s, work.payload)}")
    return lines if work.trace is None else _with_trace(lines, work.trace.called)


def _with_trace(lines: list[bytes | str], trace: TraceContext) -> list[bytes | str]:
    """In place of what a user wrote: a fixed trace would be that of all runs."""
    kept = [line for line in lines if isinstance(line, str) or not line.lower().startswith(_OF_TRACES)]
    kept.append(f"traceparent: {trace.traceparent}")
    if trace.state:
        kept.append(f"tracestate: {trace.state}")
    return kept


@lru_cache(maxsize=1024)
def _iso_ms(epoch_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=epoch_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@lru_cache(maxsize=1024)
def _plain(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else quote(text, safe=_PLAIN_CHARACTERS, errors="replace")
