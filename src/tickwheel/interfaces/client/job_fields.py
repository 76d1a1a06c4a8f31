"""The fields of a new job, as keyword arguments, and the request made of them."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypedDict

import msgspec

Priority = Literal["CRITICAL", "HIGH", "DEFAULT", "LOW"]


class TargetFields(TypedDict, total=False):
    """What to call: an `endpoint`, or a handler by `name`."""

    type: Literal["HTTP_WEBHOOK", "HANDLER"]
    endpoint: str
    method: Literal["DELETE", "GET", "PATCH", "POST", "PUT"]
    timeout_seconds: float
    headers: Mapping[str, str]
    signing_secret: str
    name: str


class RetryFields(TypedDict, total=False):
    """What follows a failed attempt."""

    max_retries: int
    initial_interval_sec: float
    backoff_multiplier: float
    max_interval_sec: float
    when_exhausted: str


class CatchUpFields(TypedDict, total=False):
    """What happens to occurrences that nobody could fire."""

    policy: Literal["fire_once", "fire_all", "skip"]
    max: int


class LimitFields(TypedDict, total=False):
    """A limit on runs in flight: of a `key`, of the job's name, or of the tenant."""

    scope: Literal["key", "job_name", "tenant"]
    key: str
    limit: int
    max_waiting: int | None


class EditFields(TypedDict, total=False):
    """What an edit may change."""

    job_name: str | None
    execute_at: datetime | str
    run_at_epoch_ms: int
    delay_seconds: float | timedelta
    cron_expression: str
    timezone: str
    priority: Priority
    target: TargetFields
    payload: Any
    retry_policy: RetryFields
    tags: Sequence[str]
    catch_up: CatchUpFields
    overlap: Literal["allow", "skip", "buffer_one"]
    concurrency: Sequence[LimitFields] | None
    deadline_seconds: float | timedelta | None
    start_at: datetime | str | None
    end_at: datetime | str | None


class JobFields(EditFields, total=False):
    """The fields of the API, and two short cuts: `endpoint` or `handler` in place of a `target`.

    `schedule_type` may be left out: CRON with a `cron_expression`, ONE_OFF or DELAYED with a time field, else
    INSTANT. `idempotency_key` is drawn where it is left out, so that a request can be repeated.
    """

    tenant_id: str
    schedule_type: Literal["ONE_OFF", "DELAYED", "CRON", "INSTANT"]
    idempotency_key: str
    endpoint: str
    handler: str


_LENGTHS: Final = ("delay_seconds", "deadline_seconds")
_encode: Final = msgspec.json.Encoder().encode


def job_json(fields: Mapping[str, Any], tenant_id: str | None, *, key: str | None = None) -> bytes:
    """The JSON of one new job; `key` is used where the fields name none."""
    return _encode(_job(fields, tenant_id, key))


def edit_json(fields: Mapping[str, Any]) -> bytes:
    """The JSON of an edit: what is named changes, the rest stays."""
    return _encode(_with_seconds(fields))


def new_key() -> str:
    """An idempotency key that nobody else has."""
    return secrets.token_hex(16)


def schedule_type(fields: Mapping[str, Any]) -> str:
    """How the job says when, read off the fields that are there."""
    if fields.get("cron_expression") is not None:
        return "CRON"
    if fields.get("delay_seconds") is not None:
        return "DELAYED"
    if fields.get("execute_at") is not None or fields.get("run_at_epoch_ms") is not None:
        return "ONE_OFF"
    return "INSTANT"


def _job(fields: Mapping[str, Any], tenant_id: str | None, key: str | None) -> dict[str, Any]:
    job = _with_seconds(fields)
    job.setdefault("schedule_type", schedule_type(fields))
    endpoint, handler = job.pop("endpoint", None), job.pop("handler", None)
    if endpoint is not None and handler is not None:
        raise TypeError("a job calls an endpoint or a handler, not both")
    if endpoint is not None:
        job["target"] = {"type": "HTTP_WEBHOOK", **job.get("target", {}), "endpoint": endpoint}
    elif handler is not None:
        job["target"] = {**job.get("target", {}), "type": "HANDLER", "name": handler}
    if tenant_id is not None:
        job.setdefault("tenant_id", tenant_id)
    if key is not None:
        job.setdefault("idempotency_key", key)
    return job


def _with_seconds(fields: Mapping[str, Any]) -> dict[str, Any]:
    job = dict(fields)
    for name in _LENGTHS:
        if isinstance(job.get(name), timedelta):
            job[name] = job[name].total_seconds()
    return job
