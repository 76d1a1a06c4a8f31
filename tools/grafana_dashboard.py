"""Writes `deploy/grafana/tickwheel.json`, the dashboard, from the table of panels below.

usage: python tools/grafana_dashboard.py [--check]      (--check writes nothing and fails when the file is old)
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

PATH = Path("deploy/grafana/tickwheel.json")
WIDTH = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
JOB = 'job=~"$job"'


class Panel(NamedTuple):
    """`queries`: legend -> expression, in which `@` stands for the chosen jobs, WINDOW for the span of a rate."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    about: str = ""
    width: int = 8
    bad_above: float | None = None


def _rate(name: str, *by: str) -> str:
    return f"sum by ({', '.join(by)}) (rate(tickwheel_{name}{{@}}[WINDOW]))"


def _quantile(share: str, name: str, by: str) -> str:
    return f"histogram_quantile({share}, {_rate(f'{name}_bucket', by, 'le')})"


def _burn(window: str) -> str:
    late, starts = (
        f"sum by (objective) (rate(tickwheel_slo_{which}_total{{@}}[{window}]))" for which in ("late", "starts")
    )
    return f"{late} / ({starts} > 0) / (1 - max by (objective) (tickwheel_slo_target_ratio{{@}}))"


def _stat(title: str, query: str, unit: str = "short", bad_above: float | None = None, about: str = "") -> Panel:
    return Panel(title, {"": query}, unit, "stat", about, 3, bad_above)


ROWS = {
    "At a glance": (
        _stat("Nodes that answer", "sum(up{@})"),
        _stat("Starts", "sum(rate(tickwheel_lateness_seconds_count{@}[WINDOW]))", "reqps"),
        _stat("Lateness, 99 of 100", _quantile("0.99", "lateness_seconds", "job"), "s", 1),
        _stat("Oldest due", "max(tickwheel_oldest_due_seconds{@})", "s", 30, "Waits for a slot."),
        _stat("Dead letters", "max(tickwheel_dead_letters{@})", bad_above=1),
        _stat("Overdue", "max(tickwheel_overdue{@})", bad_above=1, about="Due for a minute, and not claimed."),
        _stat("Lost", "sum(tickwheel_lost_events_total{@})", bad_above=1, about="Must be 0."),
        _stat("Shards without an owner", "max(tickwheel_shards{@}) - sum(tickwheel_shards_held{@})", bad_above=1),
    ),
    "On time": (
        Panel(
            "Lateness by lane",
            {
                "{{lane}}, half": _quantile("0.5", "lateness_seconds", "lane"),
                "{{lane}}, 99 of 100": _quantile("0.99", "lateness_seconds", "lane"),
            },
            "s",
            about="From due to handed to an executor or to workers.",
        ),
        Panel("Runs that came due", {"{{lane}}": _rate("triggers_total", "lane")}, "reqps"),
        Panel(
            "How fast error budgets burn",
            {"{{objective}}, 1 h": _burn("1h"), "{{objective}}, 6 h": _burn("6h")},
            about="At 1 the late starts of 30 days are used up in 30 days.",
        ),
    ),
    "Attempts": (
        Panel("Attempts that ended", {"{{outcome}}": _rate("attempts_total", "outcome")}, "reqps"),
        Panel("Runs that moved on", {"{{state}}": _rate("runs_total", "state")}, "reqps"),
        Panel("Running", {"{{kind}}": "sum by (kind) (tickwheel_in_flight{@})"}),
        Panel(
            "Lost leases and stale completions",
            {
                "lease lost: {{cause}}": _rate("leases_lost_total", "cause"),
                "stale": "sum(rate(tickwheel_stale_completions_total{@}[WINDOW]))",
            },
            "reqps",
        ),
        Panel("Dead letters", {"in the queue": "max(tickwheel_dead_letters{@})"}),
        Panel(
            "Handlers that nobody has",
            {"runs seen": "sum(rate(tickwheel_runs_unserved_total{@}[WINDOW]))"},
            "reqps",
        ),
    ),
    "What waits": (
        Panel("For a slot", {"{{kind}} {{lane}}": "sum by (kind, lane) (tickwheel_backlog{@})"}),
        Panel("For its host, by why", {"{{why}}": "sum by (why) (tickwheel_held_by{@})"}),
        Panel(
            "For a limit, or a moment",
            {
                "limit of concurrency": "sum(tickwheel_limited_timers{@})",
                "limit of the tenant": "sum(tickwheel_tenant_held_timers{@})",
                "next try": "sum(tickwheel_parked_timers{@})",
                "commit": "sum(tickwheel_uncommitted_completions{@})",
            },
        ),
        Panel(
            "How long the oldest waits",
            {
                "{{instance}}, for a slot": "tickwheel_oldest_due_seconds{@}",
                "{{instance}}, for its target or a limit": "tickwheel_oldest_held_seconds{@}",
            },
            "s",
        ),
        Panel("Hosts in trouble", {"{{state}}": "sum by (state) (tickwheel_troubled_hosts{@})"}),
        Panel("Hosts left alone", {"{{cause}}": _rate("hosts_opened_total", "cause")}, "reqps"),
    ),
    "Store": (
        Panel("Calls, 99 of 100", {"{{verb}}": _quantile("0.99", "store_seconds", "verb")}, "s"),
        Panel("Commits", {"{{verb}}": _rate("commits_total", "verb")}, "reqps"),
        Panel(
            "Rows per call",
            {
                "{{verb}}": f"{_rate('store_batch_rows_sum', 'verb')}"
                f" / ({_rate('store_batch_rows_count', 'verb')} > 0)"
            },
        ),
        Panel("Claims by verdict", {"{{verdict}}": _rate("claims_total", "verdict")}, "reqps"),
        Panel("Loops that failed", {"{{loop}}": _rate("loop_failures_total", "loop")}, "reqps"),
        Panel(
            "Jobs and timers stored",
            {"jobs": "max(tickwheel_jobs{@})", "timers": "max(tickwheel_waiting_timers{@})"},
        ),
    ),
    "Timers": (
        Panel("In the wheel", {"{{instance}}": "tickwheel_armed_timers{@}"}),
        Panel("Read from the store", {"{{instance}}": _rate("timers_loaded_total", "instance")}, "reqps"),
        Panel(
            "Feed: age of the last look",
            {"{{instance}}": "tickwheel_feed_lag_seconds{@}"},
            "s",
            about="At what other nodes have committed. A node alone has none.",
        ),
    ),
    "Workers elsewhere": (
        Panel("Workers", {"live": "max(tickwheel_workers{@})", "needed": "max(tickwheel_needed_workers{@})"}),
        Panel(
            "Their slots",
            {"all": "max(tickwheel_worker_slots{@})", "busy": "max(tickwheel_worker_busy_slots{@})"},
        ),
        Panel(
            "Waits for them",
            {
                "{{lane}}": "max by (lane) (tickwheel_worker_backlog{@})",
                "{{lane}}, in the queue": "max by (lane) (tickwheel_queue_depth{@})",
            },
        ),
    ),
    "Cluster": (
        Panel("Shards by node", {"{{instance}}": "sum by (instance) (tickwheel_shards_held{@})"}),
        Panel(
            "Shards that changed hands",
            {
                "taken: {{cause}}": "sum by (cause) (increase(tickwheel_shards_taken_total{@}[WINDOW]))",
                "left: {{cause}}": "sum by (cause) (increase(tickwheel_shards_left_total{@}[WINDOW]))",
            },
        ),
        Panel(
            "Nodes and workers declared dead",
            {
                "node, {{evidence}}": "sum by (evidence) (increase(tickwheel_members_lost_total{@}[WINDOW]))",
                "worker, {{evidence}}": "sum by (evidence) (increase(tickwheel_workers_lost_total{@}[WINDOW]))",
            },
        ),
        Panel("Clock off the database's", {"{{instance}}": "tickwheel_clock_difference_seconds{@}"}, "s"),
        Panel("CPU", {"{{instance}}": "sum by (instance) (rate(process_cpu_seconds_total{@}[WINDOW]))"}),
        Panel("Memory", {"{{instance}}": "sum by (instance) (process_resident_memory_bytes{@})"}, "bytes"),
    ),
    "Notifications": (
        Panel("Messages of rules", {"{{outcome}}": _rate("notifications_total", "outcome")}, "reqps", width=12),
        Panel("On their way", {"waiting": "max(tickwheel_notifications_waiting{@})"}, width=12),
    ),
    "Refused": (
        Panel("New jobs, for load (429)", {"{{why}}": _rate("shed_requests_total", "why")}, "reqps"),
        Panel("For a limit of the tenant", {"{{limit}}": _rate("quota_refusals_total", "limit")}, "reqps"),
        Panel("For want of a token (401)", {"{{why}}": _rate("unauthorized_requests_total", "why")}, "reqps"),
    ),
}


def render() -> str:
    """The dashboard as JSON."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y},
            }
        )
        x, y = 0, y + 1
        height = 4 if row[0].kind == "stat" else 8
        for panel in row:
            if x + panel.width > WIDTH:
                x, y = 0, y + height
            place = {"h": height, "w": panel.width, "x": x, "y": y}
            panels.append(_panel(panel, len(panels) + 1, place))
            x += panel.width
        y += height
    dashboard = {
        "uid": "tickwheel",
        "title": "Tickwheel",
        "tags": ["tickwheel"],
        "editable": True,
        "schemaVersion": 38,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "",
        "graphTooltip": 1,
        "annotations": {"list": []},
        "templating": {"list": _variables()},
        "panels": panels,
    }
    return json.dumps(dashboard, indent=2) + "\n"


def _variables() -> list[dict[str, Any]]:
    jobs = "label_values(tickwheel_build_info, job)"
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "job",
            "label": "Cluster",
            "type": "query",
            "datasource": SOURCE,
            "definition": jobs,
            "query": {"query": jobs, "refId": "jobs"},
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "current": {"text": ["All"], "value": ["$__all"]},
        },
    ]


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    targets = [
        {
            "refId": chr(ord("A") + letter),
            "datasource": SOURCE,
            "expr": expression.replace("{@}", f"{{{JOB}}}").replace("WINDOW", "$__rate_interval"),
            "legendFormat": legend or "__auto",
        }
        for letter, (legend, expression) in enumerate(panel.queries.items())
    ]
    options: dict[str, Any] = (
        {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background" if len(steps) > 1 else "value"}
        if panel.kind == "stat"
        else {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    )
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": options,
        "targets": targets,
    }


def main(arguments: list[str]) -> int:
    """Write the file, or with `--check` say whether it is current."""
    new = render()
    old = PATH.read_text() if PATH.exists() else ""
    if "--check" in arguments and new != old:
        print(f"{PATH} is old; 'python tools/grafana_dashboard.py' writes it anew", file=sys.stderr)
        return 1
    if new != old:
        PATH.write_text(new)
        print(f"{PATH} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
