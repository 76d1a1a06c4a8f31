"""The load that comes: red means crowded, a minute lists what fires in it, and a finger hits a minute."""

import json
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from ..interfaces.cli.server_process import ServerProcess, wait_until
from .browsing import Visiting

pytestmark = pytest.mark.slow
FINGER_PX = 24


@pytest.fixture(scope="module")
def forecast(server: ServerProcess) -> dict[str, Any]:
    """What the server says, once it knows of 12 jobs at minute 41 and 25 at minute 37 of each hour."""
    for minute, count in ((41, 12), (37, 25)):
        for number in range(count):
            server.client.schedule(
                schedule_type="CRON",
                job_name=f"at-{minute}-{number}",
                cron_expression=f"{minute} * * * *",
                target={"endpoint": f"{server.url}/echo"},
            )

    def known() -> dict[str, Any] | None:  # a forecast is kept for half a minute
        with urllib.request.urlopen(f"{server.url}/v1/forecast?minutes=180", timeout=20) as answer:
            found: dict[str, Any] = json.load(answer)
        return found if {12, 25} <= set(found["due"]) else None

    found: dict[str, Any] = wait_until(known, why="the forecast knows of the jobs")
    return found


def test_what_is_red_is_what_is_called_crowded(
    server: ServerProcess, visit: Visiting, forecast: dict[str, Any]
) -> None:
    page = visit().open("/upcoming?hours=3")
    red = page.locator(".heatstrip .heat-6")
    expect(red).to_have_count(len(forecast["crowded"]))
    assert all(forecast["due"][place] >= 20 for place in forecast["crowded"])
    twelve = forecast["due"].index(12)
    expect(page.locator(f'.heatstrip [data-place="{twelve}"]')).not_to_contain_text("crowded")
    expect(page.locator(".legend")).to_contain_text("crowded: 20 runs or more, and at least 3 times as many")


def test_a_minute_lists_jobs_that_are_back_by_then(
    server: ServerProcess, visit: Visiting, forecast: dict[str, Any]
) -> None:
    page = visit().open("/upcoming?hours=3")
    *_, last = [place for place, due in enumerate(forecast["due"]) if due == 12]
    page.locator(f'.heatstrip [data-place="{last}"]').click()
    rows = page.get_by_role("region", name="Due in this minute").locator("tbody tr")
    expect(rows).to_have_count(12)
    expect(rows.first).to_contain_text("at-41-")


def test_a_finger_hits_a_minute(server: ServerProcess, visit: Visiting, forecast: dict[str, Any]) -> None:
    page = visit(width=360).open("/upcoming?hours=3")
    cell = page.locator(f'.heatstrip [data-place="{forecast["due"].index(12)}"]')
    box = cell.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= FINGER_PX
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    panel = page.locator(".panel").first
    assert panel.evaluate("it => it.scrollWidth <= it.clientWidth"), "nothing is cut off"
    cell.click()
    expect(page.locator("main h2").first).to_contain_text("12 due")


def test_next_runs_are_none_that_have_passed(server: ServerProcess, visit: Visiting) -> None:
    made = server.client.schedule(
        schedule_type="CRON",
        job_name="overdue",
        cron_expression="17 4 1 * *",
        target={"endpoint": f"{server.url}/echo"},
    )

    def overdue(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "next_run_time_iso": "2020-01-01T00:00:00.000Z"})

    visited = visit()
    visited.page.route(f"**/v1/jobs/{made.job_id}*", overdue)
    rows = visited.open(f"/jobs/{made.job_id}").get_by_role("region", name="Next runs").locator("tbody tr")
    expect(rows).to_have_count(10)
    expect(rows.filter(has_text="ago")).to_have_count(0)
    expect(rows.first).to_contain_text("in ")
