"""The pull protocol, for workers in any language; and how many of them are needed."""

from typing import Final

from tickwheel.domain.access import Scope
from tickwheel.domain.limits import TENANT_CHARS
from tickwheel.domain.scaling import DRAIN_SECONDS_DEFAULT, DRAIN_SECONDS_MAX
from tickwheel.interfaces.http.operations import examples
from tickwheel.interfaces.http.operations.model import Body, Operation, Param, Reply
from tickwheel.interfaces.http.worker_bodies import SLOTS_MAX

_TAG: Final = "Workers"
_BODY_PROBLEMS: Final = (
    "malformed_json",
    "incomplete_body",
    "body_too_large",
    "unsupported_media_type",
    "invalid_request",
    "store_unavailable",
    "outcome_unknown",
    "not_ready",
)
_WORKER_ID: Final = "http-reports-3-8f14e45fceea167a"
_TOKEN: Final = 4294967400
_NAMED: Final = {"run_id": examples.RUN_ID, "fencing_token": _TOKEN}
_ASSIGNED: Final = {
    "run_id": examples.RUN_ID,
    "job_id": examples.JOB_ID,
    "job_name": None,
    "fencing_token": _TOKEN,
    "attempt": 1,
    "max_attempts": 4,
    "lane": "DEFAULT",
    "tenant_id": "default",
    "handler": "report",
    "target": None,
    "payload": {"order_id": "ord-8812"},
    "scheduled_at": "2025-11-29T16:45:00.000Z",
    "lease_expires_at": "2025-11-29T16:45:30.004Z",
    "timeout_ms": 30000,
    "idempotency_key": None,
}
_LANE: Final = {
    "needed_workers": 4,
    "needed_slots": 26.0,
    "backlog": 4000,
    "arrivals_per_second": 20.0,
    "oldest_due_age_ms": 210_000,
}
_NOTHING: Final = dict.fromkeys(_LANE, 0)

WORKER_OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/workers/poll",
        name="poll",
        scope=Scope.WORK,
        tag=_TAG,
        summary="Ask for runs",
        description="Answers as soon as there are runs for the free slots (or runs to stop), and else after "
        "`wait_seconds` without any. The runs have begun as this worker's: execute each, or hand it back. With no "
        "slot free a poll keeps the session and learns of cancelled runs. Keep one open, and only one: a later "
        "poll of the worker ends the earlier one, and when the connection of one breaks, the worker is taken for "
        "dead unless it is seen again within a second. The reference of the pull protocol has all rules.",
        body=Body(
            "PollRequest",
            {
                "worker": {"name": "reports-3"},
                "handlers": ["report"],
                "slots": {"total": 8, "free": 8},
                "wait_seconds": 20,
                "holding": [],
            },
            {
                "worker": {"name": "reports-3", "id": _WORKER_ID},
                "handlers": ["report"],
                "slots": {"total": 8, "free": 7, "busy": {"DEFAULT": 1}},
                "holding": [examples.RUN_ID],
            },
        ),
        replies=(
            Reply(
                200,
                "Runs to execute, and to stop.",
                "PollAnswer",
                {
                    "worker_id": _WORKER_ID,
                    "session_seconds": 15,
                    "lease_seconds": 30,
                    "runs": [_ASSIGNED],
                    "cancelled": [],
                    "lost": [],
                },
            ),
        ),
        problems=_BODY_PROBLEMS,
    ),
    Operation(
        method="POST",
        path="/v1/workers/heartbeat",
        name="heartbeat",
        scope=Scope.WORK,
        tag=_TAG,
        summary="Keep runs",
        description="Renews the leases of up to 1,000 runs, and the session (also with no run). Send it each "
        "third of `lease_seconds`, and of `session_seconds` while no poll is pending. `progress` (0 to 1) and "
        "`note` are shown on the run. A run that is not `held` any more has to stop: `cancelled` by somebody, "
        "`lost` to another attempt, `ended` already, or `unknown`.",
        body=Body(
            "HeartbeatRequest",
            {"worker_id": _WORKER_ID, "runs": [{**_NAMED, "progress": 0.4, "note": "page 40 of 100"}]},
        ),
        replies=(
            Reply(
                200,
                "Per run, in the order given.",
                "HeartbeatAnswer",
                {
                    "session_open": True,
                    "runs": [
                        {
                            "run_id": examples.RUN_ID,
                            "status": "held",
                            "lease_expires_at": "2025-11-29T16:45:40.102Z",
                        }
                    ],
                },
            ),
        ),
        problems=_BODY_PROBLEMS,
    ),
    Operation(
        method="POST",
        path="/v1/workers/complete",
        name="complete",
        scope=Scope.WORK,
        tag=_TAG,
        summary="Report runs that succeeded",
        description="Up to 1,000. `result` is any JSON; up to 64 KiB of it are kept with the run, a longer one is "
        "dropped whole (the run says so; a worker that does not send it says why in `result_dropped`). Each run "
        "is answered by itself. To send the same report again after a lost answer is harmless: it is accepted "
        "again.",
        body=Body("CompleteRequest", {"worker_id": _WORKER_ID, "runs": [{**_NAMED, "result": {"pages": 12}}]}),
        replies=(
            Reply(
                200,
                "Per run, in the order given.",
                "EndsAnswer",
                {"runs": [{"run_id": examples.RUN_ID, "accepted": True, "reason": None}]},
            ),
        ),
        problems=_BODY_PROBLEMS,
    ),
    Operation(
        method="POST",
        path="/v1/workers/fail",
        name="fail",
        scope=Scope.WORK,
        tag=_TAG,
        summary="Report runs that did not succeed",
        description="Up to 1,000. The job's retry policy decides what follows; `retryable: false` ends the run "
        "at once. `retry_after_seconds`: not before that. `snooze_seconds`: not now, call again then. "
        "`unstarted`: it never began (the worker stops, say). These two use no attempt up. `cancelled`: the run "
        "is not to be done at all. `timed_out`: it took too long; tried again like other failures.",
        body=Body(
            "FailRequest",
            {"worker_id": _WORKER_ID, "runs": [{**_NAMED, "error": "the printer is on fire"}]},
            {"worker_id": _WORKER_ID, "runs": [{**_NAMED, "unstarted": True}]},
        ),
        replies=(
            Reply(
                200,
                "Per run, in the order given.",
                "EndsAnswer",
                {"runs": [{"run_id": examples.RUN_ID, "accepted": False, "reason": "cancelled"}]},
            ),
        ),
        problems=_BODY_PROBLEMS,
    ),
    Operation(
        method="POST",
        path="/v1/workers/leave",
        name="leave",
        scope=Scope.WORK,
        tag=_TAG,
        summary="Leave",
        description="Ends the session. Report all runs first, with `unstarted` for those that never began: what "
        "the worker still holds is taken for lost, uses an attempt up and starts elsewhere at once.",
        body=Body("LeaveRequest", {"worker_id": _WORKER_ID}),
        replies=(Reply(200, "It is gone.", "LeaveAnswer", {"left": True}),),
        problems=_BODY_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/workers",
        name="list_workers",
        scope=Scope.WORKERS_READ,
        tag=_TAG,
        summary="List live workers",
        description="All sessions of the store, whatever their transport; a silent one too, until it is over. "
        "A worker's `tenant_id` is null where it serves all tenants. A token of one tenant sees the tenant's own.",
        params=(
            Param(
                "tenant_id",
                "query",
                "Only the own workers of this tenant.",
                {"type": "string", "minLength": 1, "maxLength": TENANT_CHARS},
            ),
        ),
        replies=(
            Reply(
                200,
                "The workers, by id.",
                "WorkerList",
                {
                    "workers": [
                        {
                            "worker_id": _WORKER_ID,
                            "name": "reports-3",
                            "tenant_id": None,
                            "via": "http",
                            "version": "",
                            "handlers": ["report"],
                            "webhooks": False,
                            "slots": 8,
                            "busy": 1,
                            "enlisted_at": "2025-11-29T16:40:00.000Z",
                            "seen_at": "2025-11-29T16:45:02.100Z",
                            "draining": False,
                            "stalled": False,
                        }
                    ]
                },
            ),
        ),
        problems=("invalid_request", "not_found", "store_unavailable", "not_ready"),
    ),
    Operation(
        method="GET",
        path="/v1/scaling",
        name="scaling",
        scope=Scope.METRICS_READ,
        for_installation=True,
        tag=_TAG,
        summary="How many workers are needed",
        description="For KEDA's metrics-api scaler and the like. All owners of shards together: any node that "
        "fires answers the same, within a second or two. `needed_slots` is (arrivals per second + backlog / drain "
        "time) x mean run time, in all at least what is in flight; `needed_workers` that, divided by the slots of "
        "a worker. Counted is what workers have to do, not what nodes execute themselves.",
        params=(
            Param(
                "slots_per_worker",
                "query",
                "How many slots a worker has. Default: the mean of the live ones, or 10 without any.",
                {"type": "integer", "minimum": 1, "maximum": SLOTS_MAX},
            ),
            Param(
                "drain_seconds",
                "query",
                "Within which time the backlog should be gone.",
                {"type": "integer", "minimum": 1, "maximum": DRAIN_SECONDS_MAX, "default": DRAIN_SECONDS_DEFAULT},
            ),
        ),
        replies=(
            Reply(
                200,
                "The figures.",
                "ScalingBody",
                {
                    **_LANE,
                    "workers": 3,
                    "slots": 24,
                    "in_flight": 24,
                    "slots_per_worker": 8.0,
                    "mean_run_ms": 300.0,
                    "drain_seconds": 60,
                    "lanes": {"CRITICAL": _NOTHING, "HIGH": _NOTHING, "DEFAULT": _LANE, "LOW": _NOTHING},
                },
            ),
        ),
        problems=("invalid_request", "not_ready", "store_unavailable"),
    ),
)
