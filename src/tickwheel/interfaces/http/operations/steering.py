"""Pause, resume, run now, cancel; and what an expression would do."""

from typing import Final

from tickwheel.domain.access import Scope
from tickwheel.domain.limits import CRON_CHARS, PREVIEW_COUNT_MAX, TIMEZONE_CHARS
from tickwheel.interfaces.http.operations import examples
from tickwheel.interfaces.http.operations.model import IF_MATCH, JOB_ID, KEY_HEADER, TENANT, Body, Operation, Reply

_TAG: Final = "Steering"
_PROBLEMS: Final = (
    "not_found",
    "invalid_request",
    "conflict",
    "store_unavailable",
    "outcome_unknown",
    "overloaded",
)

STEERING_OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/jobs/{job_id}/cancel",
        name="cancel_job",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Cancel a job",
        description="For good, with everything of it that waits or runs. After this answer no attempt of it can "
        "succeed (a request that is already on its way may still reach its target). Cancelling again answers the "
        "same.",
        params=(JOB_ID, TENANT),
        replies=(Reply(200, "It is cancelled.", "CancelledBody", {"status": "CANCELLED"}),),
        problems=_PROBLEMS,
    ),
    Operation(
        method="POST",
        path="/v1/jobs/{job_id}/pause",
        name="pause_job",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Pause a job",
        description="Nothing of it starts until it is resumed; a run that has started goes on.",
        params=(JOB_ID, TENANT, IF_MATCH),
        replies=(Reply(200, "The job.", "JobBody", {**examples.JOB, "status": "PAUSED"}, headers=("ETag",)),),
        problems=(*_PROBLEMS, "version_mismatch"),
    ),
    Operation(
        method="POST",
        path="/v1/jobs/{job_id}/resume",
        name="resume_job",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Resume a job",
        description="Goes on with the next occurrence; what came due while it was paused is recorded as "
        "skipped. A one-off whose instant has passed runs at once.",
        params=(JOB_ID, TENANT, IF_MATCH),
        replies=(Reply(200, "The job.", "JobBody", examples.JOB, headers=("ETag",)),),
        problems=(*_PROBLEMS, "version_mismatch"),
    ),
    Operation(
        method="POST",
        path="/v1/jobs/{job_id}/trigger",
        name="trigger_job",
        scope=Scope.JOBS_WRITE,
        tag=_TAG,
        summary="Run a job now",
        description="One more run, at once, beside its schedule and whatever its state: an INSTANT job of its "
        "own, with the target, payload and retries of this one, and a tag that names this one. Sent again with "
        "the same Idempotency-Key it answers the first run.",
        params=(JOB_ID, TENANT, KEY_HEADER),
        replies=(
            Reply(
                201,
                "The run is on disk and due.",
                "TriggeredBody",
                examples.TRIGGERED,
                headers=("Location", "Idempotent-Replayed"),
            ),
        ),
        problems=(*_PROBLEMS, "egress_refused", "idempotency_key_mismatch", "idempotency_key_reused"),
    ),
    Operation(
        method="POST",
        path="/v1/schedules/preview",
        name="preview_schedule",
        scope=Scope.JOBS_READ,
        tag=_TAG,
        summary="Show the next times of a cron expression",
        description="The same evaluator that fires. `notes` has a sentence for each clock change that moves, "
        "drops or repeats a run, `warnings` what is legal but probably not meant. Expressions have at most "
        f"{CRON_CHARS} characters, zones {TIMEZONE_CHARS}; `count` is 1 to {PREVIEW_COUNT_MAX}, 5 if left out; "
        "`start` is now if left out.",
        body=Body(
            "PreviewRequest",
            {
                "cron_expression": "30 2 * * *",
                "timezone": "Europe/Berlin",
                "start": "2026-03-28T12:00:00Z",
                "count": 2,
            },
        ),
        replies=(
            Reply(
                200,
                "The times, strictly after `start`.",
                "PreviewBody",
                {
                    "next": ["2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"],
                    "local": ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
                    "notes": [
                        "2026-03-29: the clock in Europe/Berlin goes from 02:00:00 to 03:00:00, so 2026-03-29 "
                        "02:30:00 never comes; what was due in the gap runs once, at 2026-03-29 03:00:00"
                    ],
                    "warnings": [],
                },
            ),
        ),
        problems=(
            "malformed_json",
            "incomplete_body",
            "body_too_large",
            "unsupported_media_type",
            "invalid_request",
        ),
    ),
)
