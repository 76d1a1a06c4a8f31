"""Webhooks to a receiver in a process of its own: as fast as they go, or spread over a while."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.cpu import Cpu
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures, lateness_figures, rounded
from tickwheel.interfaces.bench.poster import post_all, webhook_jobs
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer, wait_until_quiet
from tickwheel.interfaces.bench.workloads import PAYLOAD
from tickwheel.wiring import system_clock

BATCH = 1_000
CONNECTIONS = 4


class Sink:
    """The receiver's process; `module` is what it runs, `columns` how many integers that notes per request."""

    def __init__(self, folder: Path, module: str = "sink", columns: int = 2) -> None:
        self._path, self._columns = folder / "received.bin", columns
        command = [sys.executable, "-m", f"tickwheel.interfaces.bench.{module}", str(self._path)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
        assert self._process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}/hook"

    def received(self) -> Ints:
        """End it; a row per request, that begins with (scheduled ms, received ms)."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return np.frombuffer(self._path.read_bytes(), dtype=np.int64).reshape(-1, self._columns)


def webhooks(store: str, folder: Path, *, jobs: int, seconds: int, bar: Progress, processes: int = 1) -> Figures:
    """`jobs` webhooks spread evenly over `seconds`; 0 makes all of them due at one instant."""
    clock, sink = system_clock(), Sink(folder)
    try:
        with BenchServer(store, folder, processes=processes) as server:
            cpu = Cpu(store, server.cpu_ms)
            first_ms = clock.now_ms() + 3_000 + jobs // 10
            due = (first_ms + np.arange(jobs) * seconds * 1000 // jobs).tolist()
            parts = [due[start : start + BATCH] for start in range(0, jobs, BATCH)]
            bodies = (webhook_jobs(sink.endpoint, part, PAYLOAD) for part in parts)
            created = post_all(server.port, bodies, connections=CONNECTIONS * processes, on_sent=bar.update)
            if clock.now_ms() > first_ms - 500:
                raise BenchFailed("the machine is too slow to create that many jobs ahead of time")
            threading.Event().wait((due[-1] - clock.now_ms()) / 1000 + 1)
            wait_until_quiet(*server.own_ports, ended=created)
            cpu_figures = cpu.figures(max(1, created))
    finally:
        scheduled_ms, received_ms = sink.received().T
    if len(received_ms) != created or len(np.unique(received_ms)) == 0:
        raise BenchFailed(f"{created} jobs were created and {len(received_ms)} webhooks arrived")
    took_ms = int(received_ms.max()) - first_ms
    figures = lateness_figures(received_ms - scheduled_ms)
    return {
        "jobs": created,
        "processes": processes,
        "delivered": len(received_ms),
        "runs_per_s": rounded(created / took_ms * 1000),
        **figures,
        **cpu_figures,
    }
