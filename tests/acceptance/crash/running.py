"""Kill -9 with thousands of runs under way: the next start takes every one of them up again, within seconds.

The handler writes its process's id with each call, so the verdict needs nothing of the product but its answers.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .api import Api
from .scenario import Server

BATCH = 500
START_LIMIT_S = 60
HANDLERS = """
import asyncio
import os
from pathlib import Path

from tickwheel import handler

HERE = Path(__file__).parent


@handler("hold")
async def hold(payload, ctx):
    with (HERE / "calls.log").open("a") as log:
        log.write(f"{os.getpid()} {ctx.run_id} {ctx.fencing_token}\\n")
    while not (HERE / "go").exists():
        await asyncio.sleep(0.5)
"""


@dataclass
class Recovery:
    """What was seen; `seconds` from the start after the kill until the last run was held by the new process."""

    running_before: int
    seconds: float
    left_with_the_dead: int
    ends: dict[str, int]
    called_once: int
    token_fell: int

    @property
    def clean(self) -> bool:
        return not (self.left_with_the_dead or self.called_once or self.token_fell) and self.ends.keys() == {
            "SUCCEEDED"
        }


def kill_while_running(folder: Path, *, runs: int, tell: Callable[[str], object]) -> Recovery:
    """Start `runs` runs that don't end, kill the server, start it again and see what becomes of them."""
    folder.mkdir(exist_ok=True)
    (folder / "holders.py").write_text(HANDLERS)
    slots = runs * 3 // 2  # some are reserved for other lanes
    server = Server(folder, "--app", "holders", "--handler-slots", str(slots))
    api = Api(server.port)
    try:
        server.start()
        server.wait_until_ready()
        ids = _create(api, runs)
        before = _wait_for_holders(folder, server.pid, runs)
        tell(f"{before} runs under way; kill -9")
        dead = server.pid
        server.kill()
        began = time.monotonic()
        server.start()
        server.wait_until_ready()
        _wait_for_holders(folder, server.pid, runs)
        seconds = time.monotonic() - began
        held = api.pages("/v1/jobs?status=RUNNING", "jobs") + api.pages("/v1/jobs?status=DISPATCHED", "jobs")
        left = [job for job in held if f"-{dead}-" in (job["current_lease_worker_id"] or "")]
        tell(f"{len(held)} under way again after {seconds:.1f} s; {len(left)} left with the dead process")
        (folder / "go").touch()
        ends = _ends(api, ids)
    finally:
        api.close()
        server.stop()
    return _verdict(folder, before, seconds, len(left), ends)


def _create(api: Api, runs: int) -> list[str]:
    job = {"schedule_type": "INSTANT", "target": {"type": "HANDLER", "name": "hold"}}
    ids: list[str] = []
    while len(ids) < runs:
        status, answer = api.call("POST", "/v1/jobs/batch", [job] * min(BATCH, runs - len(ids)))
        assert status == 200, answer
        ids += [item["job_id"] for item in answer["results"]]
    return ids


def _wait_for_holders(folder: Path, pid: int, runs: int) -> int:
    """Until that process holds all runs."""
    deadline, log, count = time.monotonic() + START_LIMIT_S, folder / "calls.log", 0
    while count < runs and time.monotonic() < deadline:
        time.sleep(0.05)
        count = sum(line.startswith(f"{pid} ") for line in log.read_text().splitlines()) if log.exists() else 0
    return count


def _ends(api: Api, ids: list[str]) -> dict[str, int]:
    """How many jobs have which status, once none is under way any more."""
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        states: dict[str, int] = {}
        for job in api.pages("/v1/jobs", "jobs"):
            states[job["status"]] = states.get(job["status"], 0) + 1
        if states.keys() == {"SUCCEEDED"} or time.monotonic() > deadline:
            assert sum(states.values()) == len(ids), "a job was lost"
            return states
        time.sleep(0.2)


def _verdict(folder: Path, before: int, seconds: float, left: int, ends: dict[str, int]) -> Recovery:
    tokens: dict[str, list[int]] = {}
    for line in (folder / "calls.log").read_text().splitlines():
        _, run_id, token = line.split()
        tokens.setdefault(run_id, []).append(int(token))
    fell = sum(1 for seen in tokens.values() if seen != sorted(set(seen)))
    return Recovery(before, seconds, left, ends, sum(1 for seen in tokens.values() if len(seen) < 2), fell)
