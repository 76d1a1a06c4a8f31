"""The dashboard is one that Grafana can draw, and shows what there is."""

import json
import re
from typing import Any

from tickwheel.adapters.telemetry.catalogue import FAMILIES

from .tools import DEPLOY

DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "tickwheel.json").read_text())
WIDTH = 24
NOT_DRAWN = {
    # Looked at by alerts, or when something is wrong.
    "tickwheel_buffer_failures_total",
    "tickwheel_buffered_timers",
    "tickwheel_build_info",
    "tickwheel_chains_mended_total",
    "tickwheel_clock_behind_seconds",
    "tickwheel_clock_steps_back_total",
    "tickwheel_depositions_total",
    "tickwheel_leader",
    "tickwheel_membership_frozen",
    "tickwheel_node_fit",
    "tickwheel_schedule_failures_total",
    "tickwheel_shedding",
    "tickwheel_slo_bound_seconds",
    "tickwheel_spans_dropped_total",
    "tickwheel_spans_exported_total",
    "tickwheel_spans_waiting",
    "tickwheel_stray_slots",
    "tickwheel_unaccounted",
    # For autoscalers, or of tenants that somebody names.
    "tickwheel_held_timers",
    "tickwheel_tenant_attempts_total",
    "tickwheel_tenant_lateness_seconds",
    "tickwheel_worker_arrivals_per_second",
    "tickwheel_worker_needed_slots",
    "tickwheel_worker_oldest_due_seconds",
    "tickwheel_worker_run_seconds",
}


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_every_panel_asks_the_chosen_source_about_the_chosen_jobs() -> None:
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "job"}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
            assert len(re.findall(r'\{job=~"\$job"\}', target["expr"])) == len(re.findall(r"\{", target["expr"]))
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= {"job", "__rate_interval"}


def test_every_metric_is_drawn_or_left_out_on_purpose() -> None:
    asked = " ".join(target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ()))
    drawn = {family.shown for family in FAMILIES.values() if re.search(rf"\b{family.shown}(_\w+)?{{", asked)}
    assert {family.shown for family in FAMILIES.values()} - drawn == NOT_DRAWN
