"""The objectives in words: what is spent is no negative share, and an alert has the name that it has elsewhere."""

from typing import Any

import pytest
from playwright.sync_api import Route, expect

from .browsing import Visiting

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("left", "alert", "shown"),
    [(62.5, "slow", "62.5 %"), (-1112.1, "medium", "spent 12 times over"), (-50.0, None, "spent 1.5 times over")],
)
def test_a_budget_that_is_spent_says_how_many_times(
    visit: Visiting, left: float, alert: str | None, shown: str
) -> None:
    def answer(route: Route) -> None:
        told = route.fetch()
        body: dict[str, Any] = told.json()
        objective = body["objectives"][0] | {"budget_left_percent": left, "alert": alert}
        route.fulfill(response=told, json=body | {"objectives": [objective]})

    visited = visit()
    visited.page.route("**/v1/slo*", answer)
    row = visited.open("/objectives").get_by_role("region", name="Objectives").locator("tbody tr")
    expect(row).to_contain_text(shown)
    expect(row.locator(".chip")).to_contain_text(alert or "none")
