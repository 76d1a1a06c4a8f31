"""`tickwheel bench … --processes`: the load meets several processes, and what all of them noted is counted."""

import json

import pytest

from .server_process import run_cli

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


@pytest.mark.parametrize(
    ("name", "figure"), [("ingest", "jobs_per_s"), ("lateness", "late_p99_ms"), ("webhooks", "runs_per_s")]
)
def test_a_benchmark_of_two_processes_checks_itself(blank_postgresql: str, name: str, figure: str) -> None:
    done = run_cli("bench", name, "--smoke", "--json", "--processes", "2", "--store", blank_postgresql)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["processes"] == 2
    assert figures["jobs"] >= 100
    assert figures[figure] > 0
    assert figures["cpu_s_per_1k"] >= 0  # so little of it may be less than one tick of the kernel's clock


def test_several_processes_are_refused_on_sqlite() -> None:
    done = run_cli("bench", "ingest", "--smoke", "--processes", "2")
    assert done.returncode == 1
    assert "--processes above 1 needs a store that several can share" in done.stderr
    assert "--store postgresql://" in done.stderr
