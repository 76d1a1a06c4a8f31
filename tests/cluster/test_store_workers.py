"""Workers that take their work straight from PostgreSQL, as processes: shared, killed, stopped."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tickwheel import Client

from ..interfaces.cli.server_process import wait_until
from ..interfaces.cli.worker_of_tests import WorkerOfTests
from ..servers.serve import Serve

APP = """
import asyncio
from tickwheel import handler

@handler("nap")
async def nap(payload, ctx):
    print(f"begins {payload['n']} attempt {ctx.attempt}", flush=True)
    await asyncio.sleep(payload["seconds"])
    return payload["n"]
"""
LONG_S = 25


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@pytest.fixture
def client(folder: Path, blank_postgresql: str) -> Iterator[Client]:
    """Of a server without handlers."""
    server = Serve(folder, store=blank_postgresql)
    server.start()
    try:
        server.wait_until_ready()
        with Client(f"http://127.0.0.1:{server.port}") as client:
            yield client
    finally:
        server.stop()


@pytest.mark.slow
def test_two_workers_share_the_work_and_one_that_is_killed_is_replaced_at_once(
    client: Client, folder: Path, blank_postgresql: str
) -> None:
    arguments = ("--store", blank_postgresql, "--app", "app", "--grace-seconds", "1")
    with (
        WorkerOfTests(*arguments, "--name", "one", "--concurrency", "20", folder=folder) as one,
        WorkerOfTests(*arguments, "--name", "two", "--concurrency", "20", folder=folder) as two,
    ):
        one.wait_for_line("serving 1 handler: nap")
        two.wait_for_line("serving 1 handler: nap")
        short = [
            client.schedule(handler="nap", schedule_type="INSTANT", payload={"n": n, "seconds": 0.1})
            for n in range(60)
        ]
        wait_until(lambda: all(client.get(job.job_id).status == "SUCCEEDED" for job in short), why="all have run")
        assert begun(one, "attempt 1") + begun(two, "attempt 1") == 60

        long = [
            client.schedule(handler="nap", schedule_type="INSTANT", payload={"n": 100 + n, "seconds": LONG_S})
            for n in range(20)  # more than one of them has places for
        ]
        wait_until(lambda: len(longs(one)) + len(longs(two)) >= len(long), why="all have begun")
        victim, other = (one, two) if len(longs(one)) >= len(longs(two)) else (two, one)
        assert longs(other), "both have some"
        room = 14 - len(longs(other))  # of twenty places, some are kept for other lanes
        victim.kill()
        killed_s = time.monotonic()
        other.wait_for_line("attempt 2")
        print(f"the first run begins again after {time.monotonic() - killed_s:.2f} s")
        other.wait_for_line("attempt 2", count=room)
        # Its port refuses: a second on a quiet machine. Silence would take 15, the lease 30.
        assert time.monotonic() - killed_s < 10
        assert other.stop() == 0


def begun(worker: WorkerOfTests, text: str) -> int:
    return sum(text in line for line in worker.lines)


def longs(worker: WorkerOfTests) -> list[str]:
    return [line for line in worker.lines if line.startswith("begins ") and int(line.split()[1]) >= 100]
