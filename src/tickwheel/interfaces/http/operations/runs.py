"""Reading and cancelling runs."""

from typing import Final

from tickwheel.domain.access import Scope
from tickwheel.interfaces.http.operations import examples
from tickwheel.interfaces.http.operations.model import CURSOR, JOB_ID, LIMIT, RUN_ID, TENANT, Operation, Reply

_TAG: Final = "Runs"

RUN_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/jobs/{job_id}/runs",
        name="list_runs",
        scope=Scope.RUNS_READ,
        tag=_TAG,
        summary="List the runs of a job",
        description="Latest first. Attempts are left out here; read a run to see them.",
        params=(JOB_ID, TENANT, LIMIT, CURSOR),
        replies=(Reply(200, "A page.", "RunList", {"runs": [examples.RUN], "next_cursor": None}),),
        problems=("bad_cursor", "not_found", "invalid_request", "store_unavailable"),
    ),
    Operation(
        method="GET",
        path="/v1/runs/{run_id}",
        name="get_run",
        scope=Scope.RUNS_READ,
        tag=_TAG,
        summary="Read a run",
        description="With every attempt (what went wrong, the target's status, the beginning of its answer) and a "
        "timeline. `lateness_ms` is how long after its time the first attempt began.",
        params=(RUN_ID, TENANT),
        replies=(Reply(200, "The run.", "RunBody", examples.FAILED_RUN),),
        problems=("not_found", "invalid_request", "store_unavailable"),
    ),
    Operation(
        method="POST",
        path="/v1/runs/{run_id}/cancel",
        name="cancel_run",
        scope=Scope.RUNS_WRITE,
        tag=_TAG,
        summary="Cancel a run",
        description="This run only; the job goes on. A run that has ended stays as it is: 409.",
        params=(RUN_ID, TENANT),
        replies=(Reply(200, "The run is cancelled.", "CancelledBody", {"status": "CANCELLED"}),),
        problems=(
            "not_found",
            "invalid_request",
            "conflict",
            "store_unavailable",
            "outcome_unknown",
            "overloaded",
        ),
    ),
)
