"""One step: one workload of one peer on an empty server, checked, as flat figures."""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench.peers.calls import check_calls, lateness, read_calls
from bench.peers.catalogue import Peer, Runtime
from bench.peers.cpu import trees_cpu_s
from bench.peers.install import Toolchain
from bench.peers.process import StepFailed, StepSkipped, run_program
from bench.peers.servers import Servers, Store

Figures = dict[str, float]
PAD: Final = "x" * 160
"""Makes a payload of about 200 bytes, as Tickwheel's own benchmarks have."""
GRACE_S: Final = 15
TICKWHEEL_COMMANDS: Final = {
    "ingest": "ingest",
    "single": "ingest-single",
    "burst": "burst",
    "steady": "lateness",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything. Lead: how long before their time the jobs of burst are created at the latest.

    `limit_s`: of a step. Programs give up then and say how far they got; `GRACE_S` later they are ended.
    """

    jobs: int = 200_000
    burst: int = 20_000
    burst_lead_ms: int = 10_000
    rate: int = 500
    seconds: int = 10
    steady_lead_ms: int = 2_000
    limit_s: int = 90

    def count(self, workload: str, share: int = 1) -> int:
        """Jobs of a workload, or the n-th part of them."""
        jobs = {
            "drain": self.jobs,
            "ingest": self.jobs // 2,
            "single": self.jobs // 20,
            "burst": self.burst,
            "steady": self.rate * self.seconds,
        }[workload]
        return max(1, jobs // share)


QUICK: Final = Sizes(jobs=1_000, burst=200, burst_lead_ms=4_000, rate=100, seconds=1, limit_s=60)


class Step:
    """Runs steps, one after the other."""

    def __init__(self, servers: Servers, tools: Toolchain, sizes: Sizes) -> None:
        self._servers, self._tools, self._sizes = servers, tools, sizes

    def run(self, peer: Peer, workload: str) -> Figures:
        """StepFailed when the peer fails or has not done each job exactly once."""
        jobs = self._sizes.count(workload, peer.share(workload))
        with self._servers.store(peer.server) as store, tempfile.TemporaryDirectory() as folder:
            if peer.runtime is Runtime.TICKWHEEL and workload != "drain":
                return self._run_tickwheel(workload, jobs, store)
            if peer.runtime is Runtime.TICKWHEEL:
                peer = replace(peer, program="tickwheel_drain")
            config = self._config(peer, workload, jobs, store, folder)
            watch = CpuWatch(store)
            result = run_program(
                [*self._tools.command(peer), "main", config],
                limit_s=self._sizes.limit_s + GRACE_S,
                on_mark=watch.mark,
            )
            if peer.runtime is Runtime.TICKWHEEL:
                return {"per_s": result["runs_per_s"], "cpu_s_per_1k": watch.used_s / jobs * 1000}
            return _peer_figures(workload, jobs, result, watch, Path(folder))

    def _config(self, peer: Peer, workload: str, jobs: int, store: Store, folder: str) -> str:
        sizes = self._sizes
        return json.dumps(
            {
                "workload": workload,
                "url": store.url,
                "folder": folder,
                "jobs": jobs,
                "batch": min(peer.batch, jobs),
                "workers": peer.workers,
                "rate": sizes.rate,
                "lead_ms": sizes.burst_lead_ms * peer.lead if workload == "burst" else sizes.steady_lead_ms,
                "limit_s": sizes.limit_s,
                "pad": PAD,
                "settings": dict(peer.settings),
            }
        )

    def _run_tickwheel(self, workload: str, jobs: int, store: Store) -> Figures:
        command = TICKWHEEL_COMMANDS[workload]
        program = [sys.executable, "-m", "tickwheel", "bench"]
        if subprocess.run([*program, command, "--help"], capture_output=True, check=False).returncode:
            raise StepSkipped(f"there is no `tickwheel bench {command}`")
        sizes = ["--jobs", str(jobs)]
        if workload == "steady":
            sizes = ["--rate", str(self._sizes.rate), "--seconds", str(self._sizes.seconds)]
        if workload == "ingest":
            sizes += ["--batch", str(min(1_000, jobs))]
        limit_s = self._sizes.limit_s + GRACE_S
        result = run_program([*program, command, *sizes, "--store", store.url, "--json"], limit_s=limit_s)
        if workload in ("ingest", "single"):
            return {"per_s": result["jobs_per_s"]}
        return {name: value for name, value in result.items() if name.startswith("late_")}


class CpuWatch:
    """What program and server used between the marks `loaded` and `done`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.used_s = 0.0

    def mark(self, name: str, pid: int) -> None:
        """Look at the clocks."""
        if name == "loaded":
            self._store.settle()
            self.used_s = -trees_cpu_s(pid, self._store.pid)
        elif name == "done":
            self.used_s += trees_cpu_s(pid, self._store.pid)


def _peer_figures(workload: str, jobs: int, result: dict[str, Any], watch: CpuWatch, folder: Path) -> Figures:
    if workload in ("ingest", "single"):
        if result["stored"] != jobs:
            raise StepFailed(f"{result['stored']} of {jobs} jobs are in the store")
        return {"per_s": jobs / result["took_ms"] * 1000}
    calls = read_calls(folder)
    check_calls(calls, jobs)
    if workload == "drain":
        return {"per_s": jobs / result["took_ms"] * 1000, "cpu_s_per_1k": watch.used_s / jobs * 1000}
    return lateness(calls)


def sizes_from(sizes: Sizes, **given: int | None) -> Sizes:
    """`sizes` with what was given instead."""
    return Sizes(**{**asdict(sizes), **{name: value for name, value in given.items() if value is not None}})
