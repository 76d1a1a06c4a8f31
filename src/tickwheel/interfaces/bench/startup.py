"""From the start of the process to the first webhook or handler call, with many jobs due within the hour."""

from pathlib import Path

import numpy as np

from tickwheel.interfaces.bench.inprocess import store_jobs
from tickwheel.interfaces.bench.outcome import Figures
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer, wait_until_quiet
from tickwheel.interfaces.bench.workloads import handler_target
from tickwheel.wiring import system_clock

HOUR_MS = 3_600_000
FIRST_MS = 30_000
"""The one job that is overdue by the time the server starts."""


async def startup(store: str, folder: Path, *, jobs: int, bar: Progress) -> Figures:
    """Store the jobs, one of them due at once, start a server and time its first call."""
    clock = system_clock()
    now_ms = clock.now_ms()
    rng = np.random.default_rng(1)
    later = (now_ms + 600_000 + rng.integers(0, HOUR_MS - 600_000, jobs - 1)).tolist()
    await store_jobs(store, later, handler_target("noop"), bar)
    await store_jobs(store, [clock.now_ms()], handler_target("record"), bar)
    began_ms = clock.now_ms()
    with BenchServer(store, folder) as server:
        wait_until_quiet(server.port, armed=jobs - 1)
    _, called_ms = server.calls()
    return {"jobs": jobs, "first_fire_ms": int(called_ms[0]) - began_ms}
