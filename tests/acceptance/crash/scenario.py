"""One crash test: server, sink, load, killer, and then the checker."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...servers.serve import Serve
from .api import Api
from .checker import Verdict, check
from .load import Load, Plan

SETTLE_LIMIT_S = 90
OPEN_STATES = ("SCHEDULED", "CLAIMED", "DISPATCHED", "RUNNING")


class Server(Serve):
    """A node on SQLite, with its database in the folder."""


def crash_test(
    folder: Path, *, jobs: int, kills: int, seconds: float, seed: int, tell: Callable[[str], object]
) -> Verdict:
    """Run it and give the verdict; `folder` keeps the data and the logs."""
    sink_log = folder / "sink.jsonl"
    sink = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("sink.py")), str(sink_log)],
        stdout=subprocess.PIPE,
        text=True,
    )
    server = Server(folder)
    try:
        assert sink.stdout is not None
        load = Load([server.port], int(sink.stdout.readline()), jobs, seconds, seed)
        server.start()
        server.wait_until_ready()
        loading = threading.Thread(target=load.run)
        loading.start()
        _kill_and_start(server, kills, seconds, seed, tell)
        loading.join()
        tell(f"{len(load.plan.kinds)} jobs acknowledged, {len(load.plan.cancelled_ms)} cancelled; settling")
        with Api(server.port) as api:
            stop_crons(api, load.plan.crons)
            settle(api, load.plan)
            return check(api, load.plan, sink_log)
    finally:
        server.stop()
        sink.kill()
        sink.wait()
        if sink.stdout is not None:
            sink.stdout.close()


def _kill_and_start(server: Server, kills: int, seconds: float, seed: int, tell: Callable[[str], object]) -> None:
    rng = random.Random(seed)
    for number in range(kills):
        time.sleep(rng.random() * 2 * max(0.2, seconds / kills - 0.7))
        server.kill()
        tell(f"kill {number + 1} of {kills}")
        server.start()
        server.wait_until_ready()


def stop_crons(api: Api, crons: Sequence[str]) -> None:
    """No more occurrences from now on."""
    for job_id in crons:
        status, answer = api.call("POST", f"/v1/jobs/{job_id}/pause")
        assert status == 200, answer


def settle(api: Api, plan: Plan) -> None:
    """Wait until no run is open."""
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < deadline:
        jobs = api.pages("/v1/jobs", "jobs")
        if not any(job["status"] in OPEN_STATES for job in jobs if job["job_id"] in plan.kinds):
            break
        time.sleep(0.3)
    for job_id in plan.crons:
        while time.monotonic() < deadline:
            runs = api.pages(f"/v1/jobs/{job_id}/runs", "runs")
            if not any(run["status"] in OPEN_STATES for run in runs):
                break
            time.sleep(0.3)
    # What is still open then is reported by the checker as lost.
