"""A stored job in the shape of a request: what readers see of the definition, and what an edit starts from.

Sending back what was read changes nothing: header values are hidden from readers, and a value that is still the
mark `REDACTED` stands for the stored one. That goes for the server that the value was given for, and no other: who
may change a job must not be able to have its secrets sent to an address of his own.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tickwheel.domain import limits
from tickwheel.domain.concurrency import Limit
from tickwheel.domain.errors import FieldProblem, InvalidRequest, SecretStays
from tickwheel.domain.job import Job, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.outcome import RetryPolicy, WhenExhausted
from tickwheel.domain.requests.instants import format_instant
from tickwheel.domain.sealed import HARMLESS_HEADERS, origin_of, plain_length

REDACTED: Final = "[redacted]"
"""Shown instead of a header value."""


def definition_of(job: Job) -> dict[str, Any]:
    """The request that would make this job, with all defaults written out and values of headers hidden.

    The payload is a `msgspec.Raw`; fields that the job does not have are left out.
    """
    spec = job.spec
    members: dict[str, Any] = {
        "tenant_id": job.tenant_id,
        "job_name": job.name or None,
        "schedule_type": job.schedule_type.value,
        "priority": job.lane.name,
        "target": _target(spec.target),
        "payload": msgspec.Raw(job.payload.encode()) if job.payload else None,
        "retry_policy": {
            "max_retries": spec.retry.max_retries,
            "initial_interval_sec": seconds(spec.retry.initial_interval_ms),
            "backoff_multiplier": spec.retry.multiplier,
            "max_interval_sec": seconds(spec.retry.max_interval_ms),
            **_when_exhausted(spec.retry),
        },
        "deadline_seconds": None if spec.deadline_ms is None else seconds(spec.deadline_ms),
        "concurrency": [_limit(limit) for limit in spec.concurrency] or None,
        "tags": list(job.tags) or None,
        "idempotency_key": job.idempotency_key,
    }
    if job.recurring:
        members |= _recurrence(spec)
    else:
        members["execute_at"] = execute_at(job)
    return {name: value for name, value in members.items() if value is not None}


def execute_at(job: Job) -> str | None:
    """When a one-off is to run, as it was asked for; None where nobody named an instant."""
    if job.recurring or job.schedule_type is ScheduleType.INSTANT or job.scheduled_ms is None:
        return None
    return format_instant(job.scheduled_ms)


def seconds(length_ms: int) -> int | float:
    """A length in seconds, whole where it is whole."""
    whole, rest = divmod(length_ms, 1000)
    return length_ms / 1000 if rest else whole


def with_stored_headers(spec: Spec, stored: Spec | None) -> Spec:
    """`spec` with every header value that is only the mark replaced by the stored one.

    Raises `InvalidRequest` where nothing of that name is stored or all together is too long, and `SecretStays`
    where the stored one was given for another origin.
    """
    headers = spec.target.headers
    marked = [name for name, value in headers if value == REDACTED]
    if not marked:
        return spec
    known = dict(stored.target.headers) if stored is not None else {}
    unknown = [name for name in marked if name not in known]
    if unknown:
        message = f"is {REDACTED}, the mark of a hidden value, and none is stored; send the value"
        raise InvalidRequest([FieldProblem(f"target.headers.{name}", message) for name in unknown])
    if stored is not None:
        _refuse_to_move(marked, stored.target.endpoint, spec.target.endpoint)
    kept = tuple((name, known[name] if value == REDACTED else value) for name, value in headers)
    if sum(len(name) + plain_length(value) for name, value in kept) > limits.HEADERS_BYTES:
        raise InvalidRequest([FieldProblem("target.headers", f"is over {limits.HEADERS_BYTES} bytes in all")])
    return replace(spec, target=replace(spec.target, headers=kept))


def _refuse_to_move(names: Sequence[str], stored: str, wanted: str) -> None:
    """Values of these headers are kept while the endpoint changes from `stored` to `wanted`."""
    if origin_of(stored) == origin_of(wanted):
        return
    secret = [name for name in names if name.lower() not in HARMLESS_HEADERS]
    if secret:
        which, what = ("header", "the header") if len(secret) == 1 else ("headers", "them")
        raise SecretStays(
            f"target.endpoint would move from {origin_of(stored)} to {origin_of(wanted)}, and what is stored for "
            f"the {which} {', '.join(secret)} was given for the former; send it anew, or leave {what} out"
        )


def _recurrence(spec: Spec) -> dict[str, Any]:
    return {
        "cron_expression": spec.cron,
        "timezone": spec.timezone,
        "catch_up": {"policy": spec.catch_up.value, "max": spec.catch_up_max},
        "overlap": spec.overlap.value,
        "start_at": None if spec.start_ms is None else format_instant(spec.start_ms),
        "end_at": None if spec.end_ms is None else format_instant(spec.end_ms),
    }


def _limit(limit: Limit) -> dict[str, Any]:
    members = {
        "scope": limit.scope.value,
        "key": limit.key or None,
        "limit": limit.limit,
        "max_waiting": limit.max_waiting,
    }
    return {name: value for name, value in members.items() if value is not None}


def _target(target: Target) -> dict[str, Any]:
    common = {"type": target.type.value, "timeout_seconds": seconds(target.timeout_ms)}
    if target.type is TargetType.HANDLER:
        return common | {"name": target.name}
    headers = {name: REDACTED for name, _ in target.headers}
    signing = {"signing_secret": target.signing_secret} if target.signing_secret else {}
    return common | {"endpoint": target.endpoint, "method": target.method, "headers": headers} | signing


def _when_exhausted(retry: RetryPolicy) -> dict[str, str]:
    """Told only where it is not the default."""
    default = retry.when_exhausted is WhenExhausted.DEAD_LETTER
    return {} if default else {"when_exhausted": retry.when_exhausted.value}
