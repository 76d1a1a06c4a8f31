"""The body of `POST /v1/jobs` as types, for the decoder of the good path.

Bounds are those of `domain.requests.fields`. `None` stands for "not given" and for null: both mean the default.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tickwheel.domain import limits
from tickwheel.domain.concurrency import Scope
from tickwheel.domain.job import CatchUp, Overlap, ScheduleType, TargetType
from tickwheel.domain.outcome import WhenExhausted

_Timeout = (
    Annotated[int, Meta(ge=1, le=limits.TIMEOUT_SECONDS_MAX)]
    | Annotated[float, Meta(ge=limits.TIMEOUT_SECONDS_MIN, le=limits.TIMEOUT_SECONDS_MAX)]
)
_Interval = (
    Annotated[int, Meta(ge=1, le=limits.BACKOFF_SECONDS_MAX)]
    | Annotated[float, Meta(ge=limits.BACKOFF_SECONDS_MIN, le=limits.BACKOFF_SECONDS_MAX)]
)
_Delay = (
    Annotated[int, Meta(ge=0, le=limits.DELAY_SECONDS_MAX)]
    | Annotated[float, Meta(ge=0, le=limits.DELAY_SECONDS_MAX)]
)
_Deadline = (
    Annotated[int, Meta(ge=limits.DEADLINE_SECONDS_MIN, le=limits.DEADLINE_SECONDS_MAX)]
    | Annotated[float, Meta(ge=limits.DEADLINE_SECONDS_MIN, le=limits.DEADLINE_SECONDS_MAX)]
)
_Instant = Annotated[str, Meta(max_length=limits.INSTANT_CHARS)]

NO_PAYLOAD: Final = msgspec.Raw(b"")


class TargetBody(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`target`."""

    type: TargetType | None = None
    endpoint: Annotated[str, Meta(max_length=limits.ENDPOINT_CHARS)] | None = None
    method: Literal["DELETE", "GET", "PATCH", "POST", "PUT"] | None = None
    timeout_seconds: _Timeout | None = None
    headers: dict[str, str] | None = None
    name: Annotated[str, Meta(max_length=limits.HANDLER_NAME_CHARS)] | None = None
    signing_secret: Annotated[str, Meta(max_length=limits.SECRET_NAME_CHARS)] | None = None

    def __repr__(self) -> str:
        return f"TargetBody({self.type!r}, headers={list(self.headers or ())!r})"  # no values


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`retry_policy`."""

    max_retries: Annotated[int, Meta(ge=0, le=limits.RETRIES_MAX)] | None = None
    initial_interval_sec: _Interval | None = None
    backoff_multiplier: Annotated[float, Meta(ge=limits.MULTIPLIER_MIN, le=limits.MULTIPLIER_MAX)] | None = None
    max_interval_sec: _Interval | None = None
    when_exhausted: WhenExhausted | None = None


class CatchUpBody(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`catch_up`."""

    policy: CatchUp | None = None
    max: Annotated[int, Meta(ge=1, le=limits.CATCH_UP_MAX)] | None = None


class LimitBody(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An item of `concurrency`."""

    scope: Scope | None = None
    key: Annotated[str, Meta(min_length=1, max_length=limits.CONCURRENCY_KEY_CHARS)] | None = None
    limit: Annotated[int, Meta(ge=1, le=limits.CONCURRENCY_LIMIT_MAX)] | None = None
    max_waiting: Annotated[int, Meta(ge=0, le=limits.CONCURRENCY_WAITING_MAX)] | None = None


class CommonBody(msgspec.Struct, kw_only=True, gc=False):
    """What jobs of all types have, and the times of one-off jobs."""

    schedule_type: ScheduleType
    tenant_id: Annotated[str, Meta(min_length=1, max_length=limits.TENANT_CHARS)] | None = None
    job_name: Annotated[str, Meta(max_length=limits.NAME_CHARS)] | None = None
    execute_at: _Instant | None = None
    run_at_epoch_ms: Annotated[int, Meta(ge=limits.EPOCH_MS_MIN, le=limits.EPOCH_MS_MAX)] | None = None
    delay_seconds: _Delay | None = None
    priority: Literal["CRITICAL", "HIGH", "DEFAULT", "LOW"] | None = None
    payload: msgspec.Raw = NO_PAYLOAD
    idempotency_key: Annotated[str, Meta(max_length=limits.IDEMPOTENCY_KEY_CHARS)] | None = None
    tags: Annotated[list[str], Meta(max_length=limits.TAG_COUNT)] | None = None
    deadline_seconds: _Deadline | None = None


class JobBody(CommonBody, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The whole body."""

    target: TargetBody
    cron_expression: Annotated[str, Meta(max_length=limits.CRON_CHARS)] | None = None
    timezone: Annotated[str, Meta(max_length=limits.TIMEZONE_CHARS)] | None = None
    retry_policy: RetryBody | None = None
    catch_up: CatchUpBody | None = None
    overlap: Overlap | None = None
    concurrency: Annotated[list[LimitBody], Meta(max_length=limits.CONCURRENCY_COUNT)] | None = None
    start_at: _Instant | None = None
    end_at: _Instant | None = None


class OnceBody(CommonBody, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The body of a job that runs once, with the parts that many jobs have in common left as text."""

    target: msgspec.Raw
    retry_policy: msgspec.Raw = NO_PAYLOAD
