"""What somebody asks for, and what two requests under one idempotency key are compared by."""

import hashlib
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from tickwheel.domain.job import Lane, ScheduleType, Spec


class JobRequest(msgspec.Struct, frozen=True, gc=False):
    """A request for a job, checked and with all defaults filled in; nothing in it depends on the clock.

    ONE_OFF and DELAYED jobs have exactly one of `at_ms` and `delay_ms`, INSTANT and CRON jobs neither. `payload`
    is the raw JSON text as it was sent ("" = none). `warnings` are those of the cron expression.
    """

    tenant_id: str
    name: str
    schedule_type: ScheduleType
    lane: Lane
    spec: Spec
    payload: str = ""
    at_ms: int | None = None
    delay_ms: int | None = None
    tags: tuple[str, ...] = ()
    idempotency_key: str | None = None
    warnings: tuple[str, ...] = ()


_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_HASH_BYTES: Final = 16


def request_hash(request: JobRequest) -> bytes:
    """What the same key may be used again with (16 bytes).

    Key order, blanks and escapes of the payload don't count, nor whether a default was written out. A
    `delay_seconds` counts as it was given, so a resent one is the same request.
    """
    normal = (
        request.tenant_id,
        request.name,
        request.schedule_type,
        request.lane,
        _flat(request.spec),
        _normal_payload(request.payload).decode(),
        request.at_ms,
        request.delay_ms,
        request.tags,
    )
    return hashlib.sha256(_ENCODER.encode(normal)).digest()[:_HASH_BYTES]


def _flat(spec: Spec) -> tuple[Any, ...]:
    """All values with nothing left out; the stored form leaves out defaults, but not reliably all of them."""
    target, retry, *rest, concurrency, _ = astuple(spec)  # the trace differs each time
    # What was added later counts only where it is given, so that older keys keep their hashes.
    limits = (tuple(map(astuple, concurrency)),) if concurrency else ()
    *called, signing_secret = astuple(target)
    return ((*called, signing_secret) if signing_secret else tuple(called), astuple(retry), *rest, *limits)


def _normal_payload(payload: str) -> bytes:
    if not payload:
        return b""
    try:
        return _ENCODER.encode(msgspec.json.decode(payload))
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        return payload.encode()  # a number that no double holds: compared as it was written
