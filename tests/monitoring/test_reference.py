"""The reference of metrics is what running nodes expose: names, types, labels and texts."""

import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

import grafana_dashboard
import metrics_reference
from tickwheel.adapters.telemetry.catalogue import FAMILIES, PREFIX, Where

from ..interfaces.cli.server_process import ServerProcess, wait_until
from .tools import DEPLOY

ROOT = DEPLOY.parent
OWN = {"le", "process"}
"""Labels beside those of the catalogue."""


def scraped(url: str) -> dict[str, Metric]:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {family.name: family for family in families if family.name.startswith(PREFIX)}


def check(found: Mapping[str, Metric], absent: Iterable[Where]) -> None:
    wanted = {family.name: family for family in FAMILIES.values() if family.where not in set(absent)}
    assert sorted(found) == sorted(f"{PREFIX}{name}" for name in wanted)
    for name, family in wanted.items():
        shown = found[f"{PREFIX}{name}"]
        assert (shown.type, shown.documentation) == (family.kind.value, family.help)
        for sample in shown.samples:
            assert set(sample.labels) - OWN == set(family.labels), sample


@pytest.mark.slow
def test_a_node_alone_exposes_what_the_reference_says(tmp_path: Path) -> None:
    with ServerProcess("--metrics-tenants", "acme,bolt", folder=tmp_path) as server:
        wait_until(lambda: scraped(server.url)["tickwheel_jobs"].samples, why="the first count of jobs")
        check(scraped(server.url), [Where.CLUSTER, Where.CLUSTER_FIRING])


@pytest.mark.slow
def test_a_node_of_a_cluster_exposes_what_the_reference_says(tmp_path: Path, blank_postgresql: str) -> None:
    arguments = ("--store", blank_postgresql, "--metrics-tenants", "acme")
    with ServerProcess(*arguments, folder=tmp_path, command="serve") as server:
        check(scraped(server.url), [Where.ALONE])

        def shards() -> int:
            return int(scraped(server.url)["tickwheel_shards_held"].samples[0].value)

        assert wait_until(lambda: shards() == 256 and shards(), why="it has taken all shards") == 256
        [lag] = scraped(server.url)["tickwheel_feed_lag_seconds"].samples
        assert 0 <= lag.value < 5


@pytest.mark.slow
def test_a_node_that_fires_nothing_exposes_what_the_reference_says(tmp_path: Path, blank_postgresql: str) -> None:
    arguments = ("--store", blank_postgresql, "--roles", "api")
    with ServerProcess(*arguments, folder=tmp_path, command="serve") as server:
        firing = [Where.FIRING, Where.CLUSTER_FIRING, Where.LEADER, Where.OPTED_IN]
        check(scraped(server.url), [Where.ALONE, *firing])


def test_the_generated_files_are_current() -> None:
    page = metrics_reference.PAGE
    text = (ROOT / page.page).read_text()
    assert page.renewed(text) == text, "run the tool that its marker names"
    assert (ROOT / grafana_dashboard.PATH).read_text() == grafana_dashboard.render()


def test_names_follow_the_conventions_of_prometheus() -> None:
    for family in FAMILIES.values():
        assert not family.name.endswith(("_total", "_ms", "_count", "_bucket", "_sum")), family.name
        assert family.help.endswith("."), family.name
