"""The installation as it is now."""

from typing import Any, Final

from tickwheel.domain.access import Scope
from tickwheel.interfaces.http.operations.model import Operation, Param, Reply

_TAG: Final = "Watching"
_PROBLEMS: Final = ("invalid_request", "forbidden", "not_ready", "store_unavailable")
_OVERVIEW: Final[dict[str, Any]] = {
    "now": "2025-11-29T16:45:00.000Z",
    "standing": "on_time",
    "says": "On time: 1,240 runs began in the last minute, 99 of 100 within 12 ms.",
    "started": 1240,
    "succeeded": 1233,
    "failed": 7,
    "dead": 1,
    "backlog": 0,
    "in_flight": 3,
    "armed": 8210,
    "held": 0,
    "elsewhere": 0,
    "oldest_due_seconds": 0.0,
    "waits": [
        {
            "kind": "target",
            "subject": "pay.example",
            "says": "the host pay.example, which gives no answer",
            "seconds": 12.5,
            "goes_on": False,
        }
    ],
    "lanes": [
        {
            "lane": "DEFAULT",
            "started": 1240,
            "p50_ms": 3,
            "p99_ms": 12,
            "max_ms": 31,
            "backlog": 0,
            "oldest_due_seconds": 0.0,
        }
    ],
    "jobs": 10422,
    "waiting": 10400,
    "dead_letters": 12,
    "nodes": 3,
    "silent_nodes": [],
    "starts_by_second": [20, 21, 19],
    "failures_by_second": [0, 1, 0],
}
_NODE: Final[dict[str, Any]] = {
    "name": "node-1",
    "incarnation": "node-1-9f31c0aa.0",
    "standing": "alive",
    "silent_seconds": 0.0,
    "version": "0.1.0",
    "roles": ["api", "scheduler", "worker"],
    "unfit": "",
    "draining": False,
    "clock_difference_ms": 1,
    "is_this": True,
    "is_leader": True,
    "shards": [0, 1, 2],
    "started": 1240,
    "failed": 7,
    "backlog": 0,
    "in_flight": 3,
    "armed": 8210,
    "p99_ms": 12,
}
_FORECAST: Final[dict[str, Any]] = {
    "start": "2025-11-29T16:45:00.000Z",
    "due": [20, 18, 1204],
    "due_by_lane": {"CRITICAL": [0, 0, 4], "HIGH": [0, 0, 0], "DEFAULT": [20, 18, 1200], "LOW": [0, 0, 0]},
    "crowded": [2],
    "peaks": [
        {
            "at": "2025-11-29T16:47:00.000Z",
            "due": 1204,
            "usual": 19,
            "causes": [{"cron_expression": "47 * * * *", "timezone": "UTC", "priority": "DEFAULT", "jobs": 1180}],
            "quiet": ["2025-11-29T16:46:00.000Z"],
        }
    ],
    "peak_least": 20,
    "peak_times": 3,
    "is_whole": True,
}
_DUE: Final[dict[str, Any]] = {
    "at": "2025-11-29T16:47:00.000Z",
    "jobs": [
        {
            "at": "2025-11-29T16:47:00.000Z",
            "runs": 1,
            "job_id": "job_01KBDJ4G4A9QZ4M7F0T6S2T6MB",
            "job_name": "hourly-report",
            "tenant_id": "default",
            "priority": "DEFAULT",
            "recurring": True,
        }
    ],
    "is_whole": False,
}

LIVE_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/overview",
        name="overview",
        scope=Scope.METRICS_READ,
        for_installation=True,
        tag=_TAG,
        summary="See whether all is on time",
        description="Starts, ends and lateness of the last minute, what waits now, totals. Made once a second.",
        replies=(Reply(200, "The installation as it is now.", "OverviewBody", _OVERVIEW),),
        problems=_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/live",
        name="live",
        scope=Scope.METRICS_READ,
        for_installation=True,
        tag=_TAG,
        summary="Follow the overview",
        description="Server-sent events: one called `overview` every second, with the body of `/v1/overview`. The "
        "stream ends after a minute; connect again.",
        replies=(Reply(200, "The stream.", media_type="text/event-stream"),),
        problems=_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/nodes",
        name="list_nodes",
        scope=Scope.METRICS_READ,
        for_installation=True,
        tag=_TAG,
        summary="List nodes and their shards",
        description="As the answering node judges them. A server that is alone on its store is one node.",
        replies=(
            Reply(
                200,
                "The nodes.",
                "NodeList",
                {"nodes": [_NODE], "shard_count": 256, "free_shards": []},
            ),
        ),
        problems=_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/forecast",
        name="forecast",
        scope=Scope.METRICS_READ,
        for_installation=True,
        tag=_TAG,
        summary="Forecast how much will be due",
        description="Timers that wait, and what recurring jobs will add, by minute; and the minutes in which they "
        "crowd: 20 runs or more, and three times as many as a usual minute of the hour around it has. `peaks` "
        "tells of the eight most crowded ones which calendars cause it. Made anew every half a minute at most.",
        params=(
            Param(
                "minutes",
                "query",
                "How many minutes from now on.",
                {"type": "integer", "minimum": 1, "maximum": 1440, "default": 360},
            ),
        ),
        replies=(Reply(200, "The minutes that come.", "ForecastBody", _FORECAST),),
        problems=_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/forecast/due",
        name="forecast_due",
        scope=Scope.JOBS_READ,
        for_installation=True,
        tag=_TAG,
        summary="List what will be due in a minute",
        description="Of the next 24 hours: the jobs whose timer is due in that minute, and the recurring jobs "
        "that will fire in it again after their next run.",
        params=(
            Param(
                "at",
                "query",
                "An instant of the minute.",
                {"type": "string", "format": "date-time"},
                "2025-11-29T16:47:00Z",
                required=True,
            ),
            Param(
                "limit",
                "query",
                "How many jobs at most.",
                {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
            ),
        ),
        replies=(Reply(200, "The jobs, the first to be due first.", "DueBody", _DUE),),
        problems=_PROBLEMS,
    ),
)
