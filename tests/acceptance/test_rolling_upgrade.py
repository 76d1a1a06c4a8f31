"""Nodes are replaced one by one, by those of the next commit: clients of the others notice nothing."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from ..postgresql_faults.load import SteadyLoad
from ..servers.postgresql import PostgresServer
from ..servers.postgresql_binaries import NoPostgres, find_binaries
from ..servers.serve import Serve, start_all
from ..servers.waiting import wait_until
from .crash.chaos import sink_process

ROOT = Path(__file__).parents[2]
NODES = 3
PATIENCE_S = 60
NEEDED = "src/tickwheel/adapters/postgresql/store.py"
"""Without it, a commit is too old to run on PostgreSQL."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.xdist_group("processes")]


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the commit before this one."""
    asked = subprocess.run(["git", "archive", "HEAD^", "src"], cwd=ROOT, capture_output=True, check=False)
    if asked.returncode:
        pytest.skip("no commit before this one in this checkout: nothing to upgrade from")
    folder = tmp_path_factory.mktemp("previous")
    with tarfile.open(fileobj=BytesIO(asked.stdout)) as archive:
        archive.extractall(folder, filter="data")
    if not (folder / NEEDED).exists():
        pytest.skip("the commit before this one does not run on PostgreSQL: nothing to upgrade from")
    return folder


def test_a_rolling_upgrade_fails_no_request_of_the_other_nodes(tmp_path: Path, previous: Path) -> None:
    try:
        find_binaries()
    except NoPostgres as error:
        pytest.skip(str(error))
    log = tmp_path / "sink.jsonl"
    with PostgresServer() as server, sink_process(log) as sink_port:
        url = server.create_database("cluster")
        nodes = [Serve(tmp_path, store=url, name=f"old-{n}", checkout=previous) for n in range(NODES)]
        loads: list[SteadyLoad] = []
        try:
            start_all(nodes[:1])
            start_all(nodes[1:])
            for number in range(NODES):
                others = [node.port for n, node in enumerate(nodes) if n != number]
                with SteadyLoad(others, sink_port, prefix=f"round-{number}-") as load:
                    loads.append(load)
                    wait_until_it_runs(load)
                    assert nodes[number].stop() == 0
                    nodes[number] = Serve(tmp_path, store=url, name=f"new-{number}")
                    start_all([nodes[number]])
            for load in loads:
                failed = [answer for answer in load.answers if answer.status != 201]
                assert not failed, f"{len(failed)} of {len(load.answers)} failed: {failed[:3]}"
            for load in loads:
                ports = [node.port for node in nodes]
                verdict = load.verdict(log, ports=ports)
                assert verdict.clean, str(verdict)
        finally:
            for node in nodes:
                if node.runs:
                    node.kill()


def wait_until_it_runs(load: SteadyLoad) -> None:
    wait_until(lambda: len(load.plan.kinds) > 50, PATIENCE_S, "the load runs")
