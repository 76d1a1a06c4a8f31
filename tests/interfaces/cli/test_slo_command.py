"""`tickwheel slo` against a real server."""

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from tickwheel.interfaces.cli.slo import budget_text

from .server_process import ServerProcess, wait_until


def test_objectives_are_shown(call: Callable[..., Result], server: ServerProcess) -> None:
    server.client.schedule(schedule_type="INSTANT", priority="LOW", endpoint=f"{server.url}/echo")

    def counted() -> list[str]:
        shown = call("slo")
        assert shown.exit_code == 0, shown.output
        lines = shown.stdout.splitlines()
        assert lines[0].split()[:6] == ["OBJECTIVE", "TARGET", "WITHIN", "STARTS", "LATE", "ON"]
        assert shown.stderr.startswith("Node ")
        [low] = [line.split() for line in lines if line.startswith("LOW ")]
        return low if low[5] != "0" else []

    low = wait_until(counted, why="the run of the lane LOW has started")
    assert low[:5] == ["LOW", "99", "%", "1", "m"]
    assert low[6:] == ["0", "100.00", "%", "100.0", "%", "0.0", "0.0", "0.0", "0.0", "-"]
    told = json.loads(call("slo", "--json").stdout)
    assert [one["name"] for one in told["objectives"]] == ["CRITICAL", "HIGH", "DEFAULT", "LOW"]
    assert call("slo", "--tenant", "acme").stderr.startswith("There is no objective")


@pytest.mark.parametrize(
    ("left_percent", "shown"),
    [(100.0, "100.0 %"), (0.0, "0.0 %"), (-50.0, "spent 1.5x"), (-99_900.0, "spent 1,000x")],
)
def test_a_budget_that_is_spent_says_how_many_times(left_percent: float, shown: str) -> None:
    assert budget_text(left_percent) == shown
