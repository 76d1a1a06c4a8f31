"""A worker that uses the database itself tells what it ends; no node would know."""

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ..interfaces.cli.server_process import ServerProcess, wait_until, with_handlers
from ..interfaces.cli.worker_of_tests import WorkerOfTests
from .test_cardinality import scraped, value

pytestmark = pytest.mark.slow
RUNS = 5


def test_what_a_worker_does_is_counted_there_and_what_it_is_given_at_the_node(
    tmp_path: Path, blank_postgresql: str
) -> None:
    folder = with_handlers(tmp_path)
    arguments = ("--store", blank_postgresql, "--app", "handlers_of_tests", "--metrics-port", "0")
    with (
        ServerProcess("--store", blank_postgresql, folder=folder, command="serve") as server,
        WorkerOfTests(*arguments, folder=folder) as worker,
    ):
        found = re.search(r"http://[\d.:]+", worker.wait_for_line("Metrics are at"))
        assert found is not None
        url = found[0]
        for _ in range(RUNS):
            server.client.schedule(schedule_type="INSTANT", handler="work")
        wait_until(
            lambda: value(scraped(url), 'tickwheel_attempts_total{outcome="success"}') == RUNS,
            why="the worker has ended the runs",
        )
        there, here = scraped(url), scraped(server.url)
        assert value(there, 'tickwheel_runs_total{state="SUCCEEDED"}') == RUNS
        for verb in ("begin", "complete"):
            assert value(there, f'tickwheel_commits_total{{verb="{verb}"}}') >= 1
        assert value(here, "tickwheel_attempts_total") == 0
        assert value(here, 'tickwheel_triggers_total{lane="DEFAULT"}') == RUNS
        assert value(here, 'tickwheel_lateness_seconds_count{lane="DEFAULT"}') == RUNS
        assert value(here, 'tickwheel_slo_starts_total{objective="DEFAULT"}') == RUNS
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/v1/jobs")
        worker.terminate()
        assert worker.exit_code() == 0


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    folder = with_handlers(tmp_path)
    with ServerProcess(folder=folder) as server:
        port = server.url.rpartition(":")[2]
        arguments = ("--server", server.url, "--app", "handlers_of_tests", "--metrics-port", port)
        with WorkerOfTests(*arguments, folder=folder) as worker:
            assert worker.exit_code() != 0
            worker.wait_for_line(f"127.0.0.1:{port} is taken by another program")
