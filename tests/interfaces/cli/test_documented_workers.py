"""The workers in the reference of the pull protocol, against a real server: they do what the page says."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tickwheel import Client

from .server_process import PATIENCE_S, ServerProcess, clean_environment, wait_until

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "pull-protocol.md"
TOKEN = "a-token-of-these-tests"


def code(language: str) -> str:
    block = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    return block[1]


@contextmanager
def worker(server: ServerProcess, folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process group of its own, once the server knows it."""
    environment = {**clean_environment(), "TICKWHEEL_URL": server.url, "TICKWHEEL_TOKEN": TOKEN}
    process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
    try:
        wait_until(lambda: workers(server), why="the worker's first poll")
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def workers(server: ServerProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api(server, "/v1/workers")["workers"]
    return found


def api(server: ServerProcess, path: str) -> Any:
    request = urllib.request.Request(server.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def ended(client: Client, payload: object) -> tuple[str, str | None]:
    """How the run of a job for the handler `report` ends: its state and its error."""
    job = client.schedule(handler="report", payload=payload, retry_policy={"max_retries": 0})
    run = client.wait_for(job.job_id, timeout_seconds=PATIENCE_S)
    return run.status, run.error


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    arguments = ("--data", str(tmp_path / "data"), "--token", TOKEN)
    with ServerProcess(*arguments, folder=tmp_path, command="serve") as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url, token=TOKEN) as client:
        yield client


def leaves(server: ServerProcess, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert workers(server) == []


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("python3")), reason="the worker needs them")
def test_the_worker_in_shell(server: ServerProcess, client: Client, tmp_path: Path) -> None:
    (tmp_path / "worker.sh").write_text(code("sh"))
    command = (
        'read -r payload; echo "made of $payload"; case $payload in *bad*) echo "no paper" >&2; exit 3 ;; esac'
    )
    with worker(server, tmp_path, "sh", "worker.sh", "report", "sh", "-c", command) as process:
        assert ended(client, {"quote": 'it\'s "$x" \\n'})[0] == "SUCCEEDED"
        assert ended(client, "bad") == ("FAILED", "no paper\n")
        leaves(server, process)


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("python3")), reason="the worker needs them")
def test_the_worker_in_shell_reports_what_is_no_text(
    server: ServerProcess, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "worker.sh").write_text(code("sh"))
    with worker(server, tmp_path, "sh", "worker.sh", "report", "printf", "a\\377b"):
        job = client.schedule(handler="report", payload={})
        run = client.wait_for(job.job_id, timeout_seconds=PATIENCE_S)
        assert (run.status, client.get_run(run.run_id).result) == ("SUCCEEDED", "a\N{REPLACEMENT CHARACTER}b")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")
def test_the_worker_in_node_ends_runs_whose_report_is_refused(
    server: ServerProcess, client: Client, tmp_path: Path
) -> None:
    halved = code("js").replace("{ run: run.run_id, pages }", '"\\ud800"')
    assert '"\\ud800"' in halved
    (tmp_path / "worker.mjs").write_text(halved)
    with worker(server, tmp_path, "node", "worker.mjs"):
        assert ended(client, {"pages": 1}) == ("FAILED", "the report was refused with 400")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")
def test_the_worker_in_node(server: ServerProcess, client: Client, tmp_path: Path) -> None:
    (tmp_path / "worker.mjs").write_text(code("js"))
    with worker(server, tmp_path, "node", "worker.mjs") as process:
        jobs = [client.schedule(handler="report", payload={"pages": n}) for n in range(1, 31)]
        runs = [client.wait_for(job.job_id, timeout_seconds=PATIENCE_S) for job in jobs]
        assert {(run.status, run.attempt) for run in runs} == {("SUCCEEDED", 1)}
        assert ended(client, {"pages": 0}) == ("FAILED", "no pages")
        leaves(server, process)


SLOW = "await new Promise((done) => setTimeout(done, pages === 1 && run.attempt === 1 ? 60_000 : 1));"


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")
def test_a_worker_that_is_killed_is_taken_over_at_once(
    server: ServerProcess, client: Client, tmp_path: Path
) -> None:
    slow = code("js").replace("return { run: run.run_id, pages };", SLOW)
    assert SLOW in slow
    (tmp_path / "worker.mjs").write_text(slow)
    with worker(server, tmp_path, "node", "worker.mjs") as first:
        job = client.schedule(handler="report", payload={"pages": 1})
        wait_until(lambda: [w for w in workers(server) if w["busy"]], why="the run is under way, and told of")
        with worker(server, tmp_path, "node", "worker.mjs"):
            wait_until(lambda: len(workers(server)) == 2, why="the second worker")
            first.kill()
            killed_s = time.monotonic()
            run = client.wait_for(job.job_id, timeout_seconds=PATIENCE_S)
            assert (run.status, run.attempt) == ("SUCCEEDED", 2)
            assert time.monotonic() - killed_s < 10, "its lease would have lasted 30 s, its session 15 s"
