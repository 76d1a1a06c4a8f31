"""Making, reading, changing and deleting jobs."""

from typing import Final

from tickwheel.domain.access import Scope
from tickwheel.domain.job import Lane, ScheduleType
from tickwheel.domain.limits import BATCH_COUNT, NAME_CHARS, TAG_CHARS
from tickwheel.interfaces.http.operations import examples
from tickwheel.interfaces.http.operations.model import (
    CURSOR,
    IF_MATCH,
    JOB_ID,
    KEY_HEADER,
    LIMIT,
    TENANT,
    Body,
    Json,
    Operation,
    Param,
    Reply,
)

_TAG: Final = "Jobs"
_BODY_PROBLEMS: Final = (
    "malformed_json",
    "incomplete_body",
    "body_too_large",
    "unsupported_media_type",
    "invalid_request",
)
_KEY_PROBLEMS: Final = ("idempotency_key_reused", "idempotency_key_in_flight")
_STORE_PROBLEMS: Final = ("store_unavailable",)
_WRITE_PROBLEMS: Final = ("store_unavailable", "outcome_unknown", "overloaded")

NAME: Final = Param(
    "name",
    "path",
    "The name, percent-encoded where needed; it is `job_name` too.",
    {"type": "string", "minLength": 1, "maxLength": NAME_CHARS},
    "nightly-report",
    required=True,
)

_BATCH_EXAMPLE: Final[Json] = {
    "results": [
        {name: value for name, value in examples.CREATED.items() if name != "retry_policy"},
        {
            "type": "/docs#problem-invalid_request",
            "title": "The request is not valid",
            "status": 422,
            "detail": "delay_seconds: must be at least 0",
            "code": "invalid_request",
            "errors": [{"field": "delay_seconds", "message": "must be at least 0", "code": "range"}],
        },
    ],
    "created_count": 1,
    "replayed_count": 0,
    "failed_count": 1,
}

_CREATED: Final = Reply(
    201,
    "The job is on disk.",
    "CreatedBody",
    examples.CREATED,
    headers=("Location", "Idempotent-Replayed"),
)

_FILTERS: Final = (
    Param(
        "status",
        "query",
        "The job's status: a one-off's is its run's state.",
        {
            "type": "string",
            "enum": [
                "SCHEDULED",
                "CLAIMED",
                "DISPATCHED",
                "RUNNING",
                "SUCCEEDED",
                "FAILED",
                "CANCELLED",
                "SKIPPED",
                "PAUSED",
                "COMPLETED",
            ],
        },
        "SCHEDULED",
    ),
    Param(
        "name_prefix",
        "query",
        "The beginning of `job_name`.",
        {"type": "string", "minLength": 1, "maxLength": NAME_CHARS},
    ),
    Param(
        "schedule_type",
        "query",
        "How the job says when.",
        {"type": "string", "enum": [str(s) for s in ScheduleType]},
    ),
    Param("priority", "query", "The lane.", {"type": "string", "enum": [lane.name for lane in Lane]}),
    Param(
        "tag", "query", "One of the job's tags, whole.", {"type": "string", "minLength": 1, "maxLength": TAG_CHARS}
    ),
    Param("due_from", "query", "Next due at or after this instant.", {"type": "string", "format": "date-time"}),
    Param("due_to", "query", "Next due before this instant.", {"type": "string", "format": "date-time"}),
    Param(
        "order",
        "query",
        "`created`: newest first. `due`: soonest first, only jobs that are due at some time.",
        {"type": "string", "enum": ["created", "due"], "default": "created"},
    ),
)

JOB_OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/jobs",
        name="create_job",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Create a job",
        description="Answers when the job is on disk; jobs that arrive together share one commit. A past instant "
        "runs at once.",
        params=(KEY_HEADER,),
        body=Body("JobRequest", examples.ONE_OFF, examples.CRON, description="See the table of fields."),
        replies=(_CREATED,),
        problems=(*_BODY_PROBLEMS, "egress_refused", "idempotency_key_mismatch", *_KEY_PROBLEMS, *_WRITE_PROBLEMS),
    ),
    Operation(
        method="POST",
        path="/v1/jobs/batch",
        name="create_jobs",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Create many jobs in one commit",
        description=f"An array of up to {BATCH_COUNT} requests like those of `POST /v1/jobs`. Each item has its "
        "own result, in the order of the request: a bad item doesn't fail the others. A result is a job (it "
        "has `job_id`) or a problem (it has `code`). The status is 200 when every item has its job, and 207 "
        "when one has not. Idempotency keys go into the items; a replayed one is marked `replayed`.",
        body=Body("JobBatch", [examples.ONE_OFF, {**examples.ONE_OFF, "delay_seconds": -1}]),
        replies=(
            Reply(
                200,
                "Every item has its job.",
                "BatchBody",
                {**_BATCH_EXAMPLE, "results": _BATCH_EXAMPLE["results"][:1], "failed_count": 0},
            ),
            Reply(207, "Some items have no job.", "BatchBody", _BATCH_EXAMPLE),
        ),
        problems=(*_BODY_PROBLEMS, "idempotency_key_in_flight", *_WRITE_PROBLEMS),
    ),
    Operation(
        method="POST",
        path="/v1/jobs/schedule",
        name="schedule_job",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Create a job, compact form",
        description="The short form for callers that need a target, an instant and a number of retries. The "
        "same job underneath; `DELAYED` takes `execute_at`, `CRON` takes `cron_expression` and `timezone`. The "
        "status words of its answer and of the cancel are those of this form.",
        params=(KEY_HEADER,),
        body=Body("CompactRequest", examples.COMPACT),
        replies=(
            Reply(
                201,
                "The job is on disk.",
                "CompactBody",
                {"job_id": examples.JOB_ID, "status": "SCHEDULED"},
                headers=("Location", "Idempotent-Replayed"),
            ),
        ),
        problems=(*_BODY_PROBLEMS, "egress_refused", "idempotency_key_mismatch", *_KEY_PROBLEMS, *_WRITE_PROBLEMS),
    ),
    Operation(
        method="GET",
        path="/v1/jobs",
        name="list_jobs",
        scope=Scope.JOBS_READ,
        tag=_TAG,
        summary="List jobs",
        description="All filters given must match. A combination that no index answers is refused with 422, "
        "never scanned. A page may hold fewer items than `limit` and still have a `next_cursor`: go on until "
        "it is null.",
        params=(TENANT, *_FILTERS, LIMIT, CURSOR),
        replies=(Reply(200, "A page.", "JobList", {"jobs": [examples.JOB], "next_cursor": None}),),
        problems=("bad_cursor", "invalid_request", "unsupported_filter", *_STORE_PROBLEMS),
    ),
    Operation(
        method="GET",
        path="/v1/jobs/{job_id}",
        name="get_job",
        scope=Scope.JOBS_READ,
        tag=_TAG,
        summary="Read a job",
        description="Status and lease of the current run, the definition, and the last run. Header values of the "
        "target are shown as `[redacted]`. `overdue_seconds` is the job's health: null while all is well, else "
        "how long its next run has been due without a start, from the job's period on (a minute at most).",
        params=(JOB_ID, TENANT),
        replies=(Reply(200, "The job.", "JobBody", examples.JOB, headers=("ETag",)),),
        problems=("not_found", "invalid_request", *_STORE_PROBLEMS),
    ),
    Operation(
        method="PATCH",
        path="/v1/jobs/{job_id}",
        name="edit_job",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Change a job",
        description="Fields that are left out stay; objects are merged field by field (RFC 7396), so `null` "
        "restores a default. What was read may be sent back: read-only fields are ignored and `[redacted]` "
        "header values stay as they are.\n\nAn edit while a run is due or running: a run that has started goes "
        "on as it was, with the old definition. An occurrence that was due already, but had not started, runs "
        "under the new definition. What was not due yet is replaced: after the answer, nothing of the old time "
        "fires.",
        params=(JOB_ID, TENANT, IF_MATCH),
        body=Body("JobChange", {"priority": "HIGH", "retry_policy": {"max_retries": 5}}),
        replies=(
            Reply(
                200,
                "The job after the change.",
                "JobBody",
                {**examples.JOB, "priority": "HIGH"},
                headers=("ETag",),
            ),
        ),
        problems=(
            *_BODY_PROBLEMS,
            "egress_refused",
            "secret_stays",
            "not_found",
            "conflict",
            "version_mismatch",
            *_WRITE_PROBLEMS,
        ),
    ),
    Operation(
        method="DELETE",
        path="/v1/jobs/{job_id}",
        name="delete_job",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Delete a job",
        description="Cancels what waits or runs, and forgets the definition. Its runs stay readable until their "
        "retention ends.",
        params=(JOB_ID, TENANT),
        replies=(Reply(204, "Gone."),),
        problems=("not_found", "invalid_request", *_WRITE_PROBLEMS),
    ),
    Operation(
        method="PUT",
        path="/v1/jobs/by-name/{name}",
        name="put_job",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Create or replace a job by name",
        description="For deploy scripts that run at every start: the same request again changes nothing, so "
        "there is no duplicate and neither a lost nor an extra occurrence. A different one replaces the "
        "definition, with the rule for edits that `PATCH` states. Only a job that was put is found by its name: "
        "one of the same name that was posted stays as it is, beside it.",
        params=(NAME, TENANT),
        body=Body(
            "JobRequest",
            {
                "schedule_type": "CRON",
                "cron_expression": "30 2 * * *",
                "timezone": "Europe/Berlin",
                "target": {"endpoint": "https://example.com/reports/nightly"},
            },
        ),
        replies=(
            Reply(200, "It was there; this is it now.", "JobBody", examples.JOB, headers=("ETag",)),
            Reply(201, "It is new.", "JobBody", examples.JOB, headers=("ETag", "Location")),
        ),
        problems=(*_BODY_PROBLEMS, "egress_refused", "secret_stays", "conflict", *_WRITE_PROBLEMS),
    ),
)
