"""The bodies of answers and of the small requests, as types: encoded by msgspec, described by the same types."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tickwheel.domain.limits import CRON_CHARS, INSTANT_CHARS, PREVIEW_COUNT_MAX, TIMEZONE_CHARS
from tickwheel.interfaces.http.job_views import JobBody
from tickwheel.interfaces.http.run_views import DeadLetterBody, RunBody, RunBrief

REF: Final = "#/components/schemas/"
REDRIVE_COUNT_MAX: Final = 10_000
PREVIEW_COUNT_DEFAULT: Final = 5


class RetryBody(msgspec.Struct, frozen=True):
    """The effective retry policy."""

    max_retries: int
    initial_interval_sec: int | float
    backoff_multiplier: float
    max_interval_sec: int | float
    when_exhausted: str | msgspec.UnsetType = msgspec.UNSET


class CatchUpBody(msgspec.Struct, frozen=True):
    """The effective catch-up policy."""

    policy: str
    max: int


class CreatedBody(msgspec.Struct, gc=False):
    """A job that is on disk. `warnings` are those of the cron expression.

    The policies are there where one job is answered. `replayed` is there, and true, in a batch for an item that an
    earlier request made; for one job a header says so.
    """

    job_id: str
    tenant_id: str
    status: str
    schedule_type: str
    next_run_time_epoch_ms: int | None
    next_run_time_iso: str | None
    created_at: str
    retry_policy: RetryBody | msgspec.UnsetType = msgspec.UNSET
    catch_up: CatchUpBody | msgspec.UnsetType = msgspec.UNSET
    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET
    replayed: bool | msgspec.UnsetType = msgspec.UNSET


class BatchBody(msgspec.Struct):
    """One result per item, in order: a job (it has `job_id`) or a problem (it has `code`)."""

    results: Annotated[
        list[Any],  # of CreatedBody and Problem: a union that msgspec could encode, but not decode or describe
        Meta(extra_json_schema={"items": {"anyOf": [{"$ref": f"{REF}CreatedBody"}, {"$ref": f"{REF}Problem"}]}}),
    ]
    created_count: int
    replayed_count: int
    failed_count: int


class CompactBody(msgspec.Struct):
    """The compact form's answer."""

    job_id: str
    status: str


class TriggeredBody(msgspec.Struct):
    """The run that a trigger made, and the job of its own that it belongs to."""

    run_id: str
    job_id: str
    scheduled_at: str
    status: str


class CancelledBody(msgspec.Struct):
    """The answer of a cancel."""

    status: str


class JobList(msgspec.Struct):
    """A page of jobs; `next_cursor` is null on the last one."""

    jobs: list[JobBody]
    next_cursor: str | None


class RunList(msgspec.Struct):
    """A page of runs; `next_cursor` is null on the last one."""

    runs: list[RunBody]
    next_cursor: str | None


class DeadLetterList(msgspec.Struct):
    """A page of dead letters; `next_cursor` is null on the last one."""

    dead_letters: list[DeadLetterBody]
    next_cursor: str | None


class NamedJob(msgspec.Struct):
    """A job by its id and name."""

    job_id: str
    job_name: str | None


class CauseGroupBody(msgspec.Struct):
    """The dead letters of one cause. Of its jobs at most 20 are named."""

    cause: str
    count: int
    jobs: list[NamedJob]
    oldest_failed_at: str
    newest_failed_at: str
    example_run_id: str


class CauseList(msgspec.Struct):
    """Causes, the most frequent first; `is_whole` false: only the newest 20,000 letters were looked at."""

    causes: list[CauseGroupBody]
    is_whole: bool


class RedriveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters to run again: `run_ids`, or those of a `cause` or a `job_id` or both, or `all`."""

    run_ids: Annotated[list[str], Meta(min_length=1, max_length=REDRIVE_COUNT_MAX)] | None = None
    cause: Annotated[str, Meta(min_length=1)] | None = None
    job_id: Annotated[str, Meta(min_length=1)] | None = None
    all: bool = False


class RefusedBody(msgspec.Struct):
    """A run that was not redriven, and why."""

    run_id: str
    code: str
    detail: str


class RedriveBody(msgspec.Struct):
    """What became of each: redriven, no dead letter at all, or refused for another reason."""

    redriven_count: int
    redriven: list[str]
    not_found: list[str]
    refused: list[RefusedBody]


class PreviewRequest(msgspec.Struct, forbid_unknown_fields=True):
    """An expression, its zone, from when, and how many times."""

    cron_expression: Annotated[str, Meta(min_length=1, max_length=CRON_CHARS)]
    timezone: Annotated[str, Meta(min_length=1, max_length=TIMEZONE_CHARS)] = "UTC"
    start: Annotated[str, Meta(min_length=1, max_length=INSTANT_CHARS)] | None = None
    count: Annotated[int, Meta(ge=1, le=PREVIEW_COUNT_MAX)] = PREVIEW_COUNT_DEFAULT


class PreviewBody(msgspec.Struct):
    """The times in UTC and on the zone's own clock, with notes about clock changes and warnings."""

    next: list[str]
    local: list[str]
    notes: list[str]
    warnings: list[str]


class HealthBody(msgspec.Struct):
    """Who answers."""

    status: str
    version: str
    tzdata_version: str


class ReadyBody(msgspec.Struct):
    """The store answers."""

    status: str


ANSWER_TYPES: Final[tuple[Any, ...]] = (
    CreatedBody,
    BatchBody,
    CompactBody,
    TriggeredBody,
    CancelledBody,
    JobBody,
    JobList,
    RunBody,
    RunBrief,
    RunList,
    DeadLetterList,
    CauseList,
    RedriveRequest,
    RedriveBody,
    PreviewRequest,
    PreviewBody,
    HealthBody,
    ReadyBody,
)
"""What the OpenAPI document describes from here."""
