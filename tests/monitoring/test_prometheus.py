"""A real Prometheus scrapes a server with work; every panel and every alert asks what it can answer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ..interfaces.cli.server_process import ServerProcess, wait_until, with_handlers
from .prometheus_process import PrometheusProcess
from .tools import DEPLOY, binary

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

WITHOUT_DATA = {
    "Overdue",  # from the first lap of the standing check on, two minutes after the start
    "Feed: age of the last look",  # of a cluster
    "Clock off the database's",
}


class Watched:
    """A server with work of all lanes, and Prometheus, which has seen it."""

    def __init__(self, server: ServerProcess, prometheus: PrometheusProcess) -> None:
        self.server, self.prometheus = server, prometheus

    def work(self) -> None:
        """Some runs that succeed, and some that don't."""
        for lane in ("CRITICAL", "HIGH", "DEFAULT", "LOW"):
            self.server.client.schedule(
                schedule_type="INSTANT", priority=lane, endpoint=f"{self.server.url}/echo", payload={"lane": lane}
            )
        for handler in ("work", "broken"):
            self.server.client.schedule(schedule_type="INSTANT", handler=handler)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    binary("prometheus")
    folder = with_handlers(tmp_path_factory.mktemp("watched"))
    arguments = ("--app", "handlers_of_tests", "--slo", "DEFAULT=99.9%@1s,HIGH=99%@2s,tenant:default=99%@1s")
    with ServerProcess(*arguments, folder=folder) as server, PrometheusProcess(folder, server.url) as prometheus:
        world = Watched(server, prometheus)
        wait_until(lambda: prometheus.query("up == 1"), why="the first scrape")
        wait_until(lambda: prometheus.query("tickwheel_dead_letters"), why="the first count of dead letters")

        def has_seen_work() -> bool:
            world.work()
            ended = prometheus.query('sum(rate(tickwheel_attempts_total{outcome="success"}[30s])) > 0')
            return bool(ended and prometheus.query("tickwheel:slo_burn:rate5m"))

        wait_until(has_seen_work, why="rates of attempts and of burning")
        yield world


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((DEPLOY / "grafana" / "tickwheel.json").read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def test_every_query_of_the_dashboard_finds_something(watched: Watched) -> None:
    empty = set()
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"].replace("$job", ".*").replace("$__rate_interval", "30s")
            assert "$" not in expression
            if not watched.prometheus.query(expression):
                empty.add(panel["title"])
    assert len(panels()) > 40
    assert empty == WITHOUT_DATA


def test_every_rule_can_be_evaluated(watched: Watched) -> None:
    groups = watched.prometheus.get("/api/v1/rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 30
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule.get("lastError")] == []
    assert {rule["health"] for rule in rules if rule["lastEvaluation"] > "0002"} == {"ok"}


def test_an_alert_that_fires_says_what_is_wrong(watched: Watched) -> None:
    def firing() -> list[dict[str, Any]]:
        watched.work()
        alerts = watched.prometheus.get("/api/v1/alerts")["alerts"]
        return [one for one in alerts if one["labels"]["alertname"] == "TickwheelDeadLetters"]

    [alert] = wait_until(firing, why="runs of the broken handler are dead letters")
    assert "runs were out of attempts" in alert["annotations"]["summary"]
    assert "error" not in alert["annotations"]["summary"]


def test_prometheus_and_the_api_agree_on_objectives(watched: Watched) -> None:
    """What /v1/slo says is what Prometheus has, once it has scraped what came last."""

    def same() -> bool:
        told = {one.name: one.starts for one in watched.server.client.slo().objectives}
        seen = {labels["objective"]: n for labels, n in watched.prometheus.query("tickwheel_slo_starts_total")}
        return told == seen

    wait_until(same, why="the same counts of starts")
    names = [one.name for one in watched.server.client.slo().objectives]
    assert names == ["DEFAULT", "HIGH", "tenant:default"]


def test_series_are_stored_under_the_names_of_the_reference(watched: Watched) -> None:
    metadata = watched.prometheus.get("/api/v1/metadata")
    page = (DEPLOY.parent / "docs" / "reference" / "metrics.md").read_text()
    ours = {name for name in metadata if name.startswith("tickwheel_")}
    assert len(ours) > 60
    assert [name for name in ours if f"`{name}`" not in page] == []
