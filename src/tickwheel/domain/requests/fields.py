"""Every field of a job request in one table.

The slow half of the parser, the OpenAPI document and the reference page are all made from it, so a bound can't
be documented otherwise than it is checked. The fast half (`body`) states the same bounds as types; a
property test holds the two together.
"""

from typing import Final

from tickwheel.domain import limits
from tickwheel.domain.concurrency import Scope
from tickwheel.domain.job import DEFAULT_TENANT, CatchUp, Lane, Overlap, ScheduleType, TargetType
from tickwheel.domain.outcome import WhenExhausted
from tickwheel.domain.requests.field import Field, Kind

__all__ = [
    "BY_PATH",
    "FIELDS",
    "FIXED_FIELDS",
    "LANE_NAMES",
    "METHODS",
    "TIME_FIELDS",
    "Field",
    "Kind",
    "children",
]

TIME_FIELDS: Final = ("execute_at", "run_at_epoch_ms", "delay_seconds")
"""Exactly one of them says when a ONE_OFF or DELAYED job runs."""
METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")
LANE_NAMES: Final = tuple(lane.name for lane in Lane)

_ONCE = (ScheduleType.ONE_OFF, ScheduleType.DELAYED)
_CRON = (ScheduleType.CRON,)


def _others(name: str) -> tuple[str, ...]:
    return tuple(other for other in TIME_FIELDS if other != name)


FIELDS: Final[tuple[Field, ...]] = (
    Field(
        path="tenant_id",
        kind=Kind.STRING,
        default=DEFAULT_TENANT,
        max_chars=limits.TENANT_CHARS,
        summary="Whose job it is.",
    ),
    Field(
        path="job_name",
        kind=Kind.STRING,
        default="",
        max_chars=limits.NAME_CHARS,
        summary="A name for people; unique only where a job is put by name.",
    ),
    Field(
        path="schedule_type",
        kind=Kind.ENUM,
        required=True,
        choices=tuple(ScheduleType),
        summary="How the job says when. ONE_OFF and DELAYED mean the same: once, at one of the three time fields.",
    ),
    Field(
        path="execute_at",
        kind=Kind.INSTANT,
        max_chars=limits.INSTANT_CHARS,
        schedule_types=_ONCE,
        not_with=_others("execute_at"),
        summary="When to run, with an offset from UTC. A past instant runs at once; at most ten years ahead.",
    ),
    Field(
        path="run_at_epoch_ms",
        kind=Kind.INTEGER,
        minimum=limits.EPOCH_MS_MIN,
        maximum=limits.EPOCH_MS_MAX,
        unit="ms",
        schedule_types=_ONCE,
        not_with=_others("run_at_epoch_ms"),
        summary="When to run, in UTC epoch milliseconds (not seconds). At most ten years ahead.",
    ),
    Field(
        path="delay_seconds",
        kind=Kind.NUMBER,
        minimum=0,
        maximum=limits.DELAY_SECONDS_MAX,
        unit="s",
        schedule_types=_ONCE,
        not_with=_others("delay_seconds"),
        summary="How long from now to run.",
    ),
    Field(
        path="cron_expression",
        kind=Kind.STRING,
        max_chars=limits.CRON_CHARS,
        schedule_types=_CRON,
        not_with=TIME_FIELDS,
        summary="Five fields, or six with seconds first. Required for CRON.",
    ),
    Field(
        path="timezone",
        kind=Kind.STRING,
        default="UTC",
        max_chars=limits.TIMEZONE_CHARS,
        schedule_types=_CRON,
        summary="The IANA zone whose wall clock the expression means.",
    ),
    Field(
        path="priority",
        kind=Kind.ENUM,
        default=Lane.DEFAULT.name,
        choices=LANE_NAMES,
        summary="The lane of its runs.",
    ),
    Field(path="target", kind=Kind.OBJECT, required=True, summary="What to call."),
    Field(
        path="target.type",
        kind=Kind.ENUM,
        default=TargetType.HTTP_WEBHOOK,
        choices=tuple(TargetType),
        summary="An HTTP endpoint, or a Python handler by name.",
    ),
    Field(
        path="target.endpoint",
        kind=Kind.STRING,
        max_chars=limits.ENDPOINT_CHARS,
        target_type=TargetType.HTTP_WEBHOOK,
        summary="An http or https address. Required for HTTP_WEBHOOK.",
    ),
    Field(
        path="target.method",
        kind=Kind.ENUM,
        default="POST",
        choices=METHODS,
        target_type=TargetType.HTTP_WEBHOOK,
        summary="The HTTP method.",
    ),
    Field(
        path="target.timeout_seconds",
        kind=Kind.NUMBER,
        default=limits.TIMEOUT_SECONDS_DEFAULT,
        minimum=limits.TIMEOUT_SECONDS_MIN,
        maximum=limits.TIMEOUT_SECONDS_MAX,
        unit="s",
        summary="How long one attempt may take.",
    ),
    Field(
        path="target.headers",
        kind=Kind.STRING_MAP,
        max_items=limits.HEADER_COUNT,
        target_type=TargetType.HTTP_WEBHOOK,
        default_text="none",
        summary="Sent with each attempt; values are redacted in every answer.",
    ),
    Field(
        path="target.signing_secret",
        kind=Kind.STRING,
        max_chars=limits.SECRET_NAME_CHARS,
        target_type=TargetType.HTTP_WEBHOOK,
        default_text="the tenant's secret `default`, if there is one",
        summary="The signing secret of the tenant, by its name, that requests are signed with.",
    ),
    Field(
        path="target.name",
        kind=Kind.STRING,
        max_chars=limits.HANDLER_NAME_CHARS,
        target_type=TargetType.HANDLER,
        summary="The name that the handler was registered under. Required for HANDLER.",
    ),
    Field(
        path="payload",
        kind=Kind.ANY,
        default_text="none",
        maximum=limits.PAYLOAD_BYTES,
        unit="bytes",
        summary="Handed to the target byte for byte; null means none.",
    ),
    Field(path="retry_policy", kind=Kind.OBJECT, default_text="its defaults", summary="What follows a failure."),
    Field(
        path="retry_policy.max_retries",
        kind=Kind.INTEGER,
        default=limits.RETRIES_DEFAULT,
        minimum=0,
        maximum=limits.RETRIES_MAX,
        summary="Attempts after the first one: 3 means 4 attempts in all.",
    ),
    Field(
        path="retry_policy.initial_interval_sec",
        kind=Kind.NUMBER,
        default=limits.INITIAL_SECONDS_DEFAULT,
        minimum=limits.BACKOFF_SECONDS_MIN,
        maximum=limits.BACKOFF_SECONDS_MAX,
        unit="s",
        summary="Ceiling of the wait before the first retry; the wait is drawn evenly from 0 to the ceiling.",
    ),
    Field(
        path="retry_policy.backoff_multiplier",
        kind=Kind.NUMBER,
        default=limits.MULTIPLIER_DEFAULT,
        minimum=limits.MULTIPLIER_MIN,
        maximum=limits.MULTIPLIER_MAX,
        summary="What the ceiling grows by with each retry.",
    ),
    Field(
        path="retry_policy.max_interval_sec",
        kind=Kind.NUMBER,
        default=limits.INTERVAL_CAP_SECONDS_DEFAULT,
        default_text="300, or initial_interval_sec if that is more",
        minimum=limits.BACKOFF_SECONDS_MIN,
        maximum=limits.BACKOFF_SECONDS_MAX,
        unit="s",
        summary="Where the ceiling stops growing; not below initial_interval_sec.",
    ),
    Field(
        path="retry_policy.when_exhausted",
        kind=Kind.ENUM,
        default=WhenExhausted.DEAD_LETTER,
        choices=tuple(WhenExhausted),
        summary="Where a run without an attempt left goes: to the dead-letter queue, or only into the history.",
    ),
    Field(
        path="idempotency_key",
        kind=Kind.STRING,
        max_chars=limits.IDEMPOTENCY_KEY_CHARS,
        summary="The same key and request give the same job. May be sent as the Idempotency-Key header instead.",
    ),
    Field(
        path="tags",
        kind=Kind.STRING_LIST,
        default_text="none",
        max_items=limits.TAG_COUNT,
        max_chars=limits.TAG_CHARS,
        summary="Words to find the job by.",
    ),
    Field(
        path="catch_up",
        kind=Kind.OBJECT,
        default_text="its defaults",
        schedule_types=_CRON,
        summary="What happens to occurrences that came due while nothing could fire them.",
    ),
    Field(
        path="catch_up.policy",
        kind=Kind.ENUM,
        default=CatchUp.FIRE_ONCE,
        choices=tuple(CatchUp),
        schedule_types=_CRON,
        summary="fire_once runs the first missed one, fire_all runs them all, skip records them as skipped.",
    ),
    Field(
        path="catch_up.max",
        kind=Kind.INTEGER,
        default=limits.CATCH_UP_DEFAULT,
        minimum=1,
        maximum=limits.CATCH_UP_MAX,
        schedule_types=_CRON,
        summary="The most that fire_all runs: the newest ones; older ones are recorded as skipped.",
    ),
    Field(
        path="overlap",
        kind=Kind.ENUM,
        default=Overlap.ALLOW,
        choices=tuple(Overlap),
        schedule_types=_CRON,
        summary="What happens when an occurrence is due while an earlier run is not finished.",
    ),
    Field(
        path="deadline_seconds",
        kind=Kind.NUMBER,
        minimum=limits.DEADLINE_SECONDS_MIN,
        maximum=limits.DEADLINE_SECONDS_MAX,
        unit="s",
        summary="A run that could not start this long after its time is skipped; without it nothing is too late.",
    ),
    Field(
        path="concurrency",
        kind=Kind.OBJECT_LIST,
        default_text="none",
        max_items=limits.CONCURRENCY_COUNT,
        summary="Limits on how many runs are in flight at a time over the whole cluster; all have to hold.",
    ),
    Field(
        path="concurrency[].scope",
        kind=Kind.ENUM,
        default=Scope.KEY,
        choices=tuple(Scope),
        summary="Whose runs count: of jobs with this key, of this job's name, or of the tenant; each time those "
        "of jobs that state such a limit.",
    ),
    Field(
        path="concurrency[].key",
        kind=Kind.STRING,
        max_chars=limits.CONCURRENCY_KEY_CHARS,
        summary="Any text; jobs of the tenant that name it are counted together. Required for scope key.",
    ),
    Field(
        path="concurrency[].limit",
        kind=Kind.INTEGER,
        required=True,
        minimum=1,
        maximum=limits.CONCURRENCY_LIMIT_MAX,
        summary="A run of this job starts only while fewer than this are in flight.",
    ),
    Field(
        path="concurrency[].max_waiting",
        kind=Kind.INTEGER,
        default_text="all wait",
        minimum=0,
        maximum=limits.CONCURRENCY_WAITING_MAX,
        summary="So many runs that are due wait for a slot; a further one is skipped with the reason limit.",
    ),
    Field(
        path="start_at",
        kind=Kind.INSTANT,
        max_chars=limits.INSTANT_CHARS,
        schedule_types=_CRON,
        summary="No occurrence before it.",
    ),
    Field(
        path="end_at",
        kind=Kind.INSTANT,
        max_chars=limits.INSTANT_CHARS,
        schedule_types=_CRON,
        summary="No occurrence at it or after it.",
    ),
)

BY_PATH: Final = {field.path: field for field in FIELDS}
FIXED_FIELDS: Final = ("tenant_id", "schedule_type", "idempotency_key")
"""What an edit can't change."""


def children(parent: str) -> dict[str, Field]:
    """The fields directly inside the object at `parent` ("" for the top, `list[]` for an item), by name."""
    return {field.name: field for field in FIELDS if field.parent == parent}
