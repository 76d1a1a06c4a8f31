"""The dead-letter queue."""

from typing import Final

from tickwheel.domain.access import Scope
from tickwheel.interfaces.http.operations import examples
from tickwheel.interfaces.http.operations.model import CURSOR, LIMIT, RUN_ID, TENANT, Body, Operation, Param, Reply

_TAG: Final = "Dead letters"

_CAUSE: Final = Param("cause", "query", "Only those of this cause.", {"type": "string", "minLength": 1})
_OF_JOB: Final = Param("job_id", "query", "Only those of this job.", {"type": "string", "minLength": 1})

DEAD_LETTER_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/dlq",
        name="list_dead_letters",
        scope=Scope.RUNS_READ,
        tag=_TAG,
        summary="List dead letters",
        description="Runs out of attempts, the newest failure first. With a filter a page may hold fewer than "
        "`limit`, or none, and still have a next one.",
        params=(TENANT, _CAUSE, _OF_JOB, LIMIT, CURSOR),
        replies=(
            Reply(200, "A page.", "DeadLetterList", {"dead_letters": [examples.DEAD_LETTER], "next_cursor": None}),
        ),
        problems=("bad_cursor", "invalid_request", "store_unavailable"),
    ),
    Operation(
        method="GET",
        path="/v1/dlq/causes",
        name="list_causes",
        scope=Scope.RUNS_READ,
        tag=_TAG,
        summary="Group dead letters by cause",
        params=(TENANT,),
        replies=(
            Reply(
                200,
                "The causes, the most frequent first.",
                "CauseList",
                {
                    "causes": [
                        {
                            "cause": "attempts_exhausted",
                            "count": 12,
                            "jobs": [{"job_id": examples.JOB_ID, "job_name": "sync-crm"}],
                            "oldest_failed_at": "2025-11-29T15:20:00.000Z",
                            "newest_failed_at": "2025-11-29T16:45:00.000Z",
                            "example_run_id": examples.RUN_ID,
                        }
                    ],
                    "is_whole": True,
                },
            ),
        ),
        problems=("invalid_request", "store_unavailable"),
    ),
    Operation(
        method="POST",
        path="/v1/dlq/redrive",
        name="redrive_dead_letters",
        scope=Scope.RUNS_WRITE,
        tag=_TAG,
        summary="Run dead letters again",
        description='By ids, by cause or job, or all: `{"run_ids": ["run_…"]}`, `{"cause": "…"}`, '
        '`{"job_id": "job_…"}`, or `{"all": true}`. Each gets its full number of '
        "attempts anew; the old ones stay in its history. An id that names no run is in `not_found`, one "
        "that can't be redriven in `refused`; neither stops the others.",
        params=(TENANT,),
        body=Body("RedriveRequest", {"run_ids": [examples.RUN_ID]}),
        replies=(
            Reply(
                200,
                "What became of each.",
                "RedriveBody",
                {"redriven_count": 1, "redriven": [examples.RUN_ID], "not_found": [], "refused": []},
            ),
        ),
        problems=(
            "malformed_json",
            "incomplete_body",
            "body_too_large",
            "unsupported_media_type",
            "invalid_request",
            "store_unavailable",
            "outcome_unknown",
            "overloaded",
        ),
    ),
    Operation(
        method="DELETE",
        path="/v1/dlq/{run_id}",
        name="delete_dead_letter",
        scope=Scope.RUNS_WRITE,
        tag=_TAG,
        summary="Remove a dead letter",
        description="The run stays FAILED in the history of its job.",
        params=(RUN_ID, TENANT),
        replies=(Reply(204, "It is removed."),),
        problems=("not_found", "invalid_request", "store_unavailable", "outcome_unknown"),
    ),
)
