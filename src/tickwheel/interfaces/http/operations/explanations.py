"""Explaining runs, and instants at which there was none."""

from typing import Final

from tickwheel.domain.access import Scope
from tickwheel.interfaces.http.operations import examples
from tickwheel.interfaces.http.operations.model import JOB_ID, RUN_ID, TENANT, Operation, Param, Reply

_TAG: Final = "Runs"
_AT: Final = Param(
    "at",
    "query",
    "An instant (RFC 3339), or a time of the clock in the job's zone (without an offset), such as "
    "2026-03-29T02:30:00. By default the job's latest run is explained, or its next one.",
    {"type": "string", "minLength": 1, "maxLength": 1024},
    "2025-11-29T16:45:00Z",
)
_CAUSE: Final = {
    "code": "limit",
    "sentence": "All 2 slots of its limit for the key 'customer-42' were taken.",
    "from_at": "2025-11-29T16:45:00.000Z",
    "until_at": "2025-11-29T16:45:02.400Z",
}
_EXAMPLE: Final = {
    "run_id": examples.RUN_ID,
    "job_id": examples.JOB_ID,
    "tenant_id": "default",
    "scheduled_at": "2025-11-29T16:45:00.000Z",
    "verdict": "late",
    "headline": "Ran 2.4 s late: all 2 slots of its limit for the key 'customer-42' were taken. "
    "The first attempt succeeded.",
    "lateness_ms": 2400,
    "causes": [_CAUSE],
    "timeline": [
        {"step": "created", "at": "2025-11-29T16:40:00.000Z", "took_ms": None, "attempt": None, "note": "the job"},
        {"step": "due", "at": "2025-11-29T16:45:00.000Z", "took_ms": 300000, "attempt": None, "note": None},
        {"step": "claimed", "at": "2025-11-29T16:45:02.400Z", "took_ms": 2400, "attempt": 1, "note": None},
        {"step": "dispatched", "at": "2025-11-29T16:45:02.400Z", "took_ms": 0, "attempt": 1, "note": None},
        {"step": "started", "at": "2025-11-29T16:45:02.400Z", "took_ms": 0, "attempt": 1, "note": None},
        {
            "step": "finished",
            "at": "2025-11-29T16:45:02.489Z",
            "took_ms": 89,
            "attempt": None,
            "note": "SUCCEEDED",
        },
    ],
    "attempts": [
        {
            "attempt": 1,
            "fencing_token": 4294967297,
            "worker_id": "alpha-1f0c",
            "outcome": "success",
            "reached_target": "yes",
            "started_at": "2025-11-29T16:45:02.400Z",
            "finished_at": "2025-11-29T16:45:02.489Z",
            "took_ms": 89,
            "request": {
                "method": "POST",
                "endpoint": "https://example.com/orders/cancel-expired",
                "headers": {"Authorization": "[redacted]", "X-Fencing-Token": "4294967297", "X-Attempt": "1"},
                "handler": None,
                "payload_bytes": 23,
            },
            "http_status": 200,
            "error": None,
            "excerpt": None,
            "why": None,
        }
    ],
    "edited_since": False,
    "occurrence_before": None,
    "occurrence_after": None,
    "see_also": [],
}

EXPLANATION_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/runs/{run_id}/explain",
        name="explain_run",
        scope=Scope.RUNS_READ,
        tag=_TAG,
        summary="Explain a run",
        description="Why it did not run, ran late or ran twice: one sentence, the causes with their codes, the "
        "timeline, and each attempt with its request (header values hidden) and the beginning of its answer. It "
        "says so where nothing that is recorded tells the cause. A run that never was is explained as well, as "
        "long as its job is there.",
        params=(RUN_ID, TENANT),
        replies=(Reply(200, "The explanation.", "ExplanationBody", _EXAMPLE),),
        problems=("not_found", "invalid_request", "not_ready", "store_unavailable"),
    ),
    Operation(
        method="GET",
        path="/v1/jobs/{job_id}/explain",
        name="explain_job",
        scope=Scope.RUNS_READ,
        tag=_TAG,
        summary="Explain what became of a job at a time",
        description="The run of that instant, or why there is none: not in the schedule, left out by a change of "
        "the clock, before the start or after the end, paused, missed, still to come.",
        params=(JOB_ID, TENANT, _AT),
        replies=(Reply(200, "The explanation.", "ExplanationBody", _EXAMPLE),),
        problems=("not_found", "invalid_request", "not_ready", "store_unavailable"),
    ),
)
