"""Objectives of lateness."""

from typing import Final

from tickwheel.domain.access import Scope
from tickwheel.domain.limits import TENANT_CHARS
from tickwheel.interfaces.http.operations.model import Operation, Param, Reply

SLO_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/slo",
        name="slo",
        scope=Scope.RUNS_READ,
        tag="Server",
        summary="How the objectives of lateness stand",
        description="Which share of starts was on time, how much of the error budget of 30 days is left, and how "
        "fast it burns; for the objectives that the settings name, by lane and by tenant. Counted is what this "
        "node has started since `counted_since`, in memory: of a cluster, ask each node, or Prometheus, which "
        "adds up and remembers. `alert` is `fast` (14.4 in an hour and in 5 minutes), `medium` (6 in 6 hours and "
        "in 30 minutes) or `slow` (1 in 3 days and in 6 hours); it takes ten late starts in the long span, and a "
        "node that has watched the short one from end to end. What was not watched of a span counts as calm. Runs "
        "that were held because their host answered nothing are not counted. Below 0, `budget_left_percent` says "
        "how far the budget is overdrawn: -100 is spent twice. A token of one tenant sees that tenant's own.",
        params=(
            Param(
                "tenant_id",
                "query",
                "Only the objectives of this tenant.",
                {"type": "string", "minLength": 1, "maxLength": TENANT_CHARS},
            ),
        ),
        replies=(
            Reply(
                200,
                "The objectives, in the order of the settings.",
                "SloBody",
                {
                    "node": "alpha-4711",
                    "counted_since": "2025-11-29T08:00:00.000Z",
                    "period_days": 30,
                    "objectives": [
                        {
                            "name": "HIGH",
                            "lane": "HIGH",
                            "tenant_id": None,
                            "target_percent": 99.9,
                            "bound_ms": 1000,
                            "starts": 120000,
                            "late": 30,
                            "on_time_percent": 99.975,
                            "budget_left_percent": 75.0,
                            "burn_rates": {"5m": 0.0, "30m": 0.0, "1h": 0.4, "6h": 0.3, "3d": 0.25},
                            "alert": None,
                        }
                    ],
                },
            ),
        ),
        problems=("invalid_request", "not_found", "not_ready"),
    ),
)
