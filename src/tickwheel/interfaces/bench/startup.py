"""From the start of the process to the first webhook or handler call, with many jobs due within the hour."""

from pathlib import Path
from typing import Final

import numpy as np

from tickwheel.interfaces.bench.outcome import Figures
from tickwheel.interfaces.bench.process import ARMED, gauge, wait_until
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer, wait_until_quiet
from tickwheel.interfaces.bench.workloads import (
    Loaded,
    foresee_ms,
    handler_target,
    open_roomy_store,
    preload,
    store_jobs,
)
from tickwheel.wiring import system_clock, system_randomness

FIRST_AFTER_MS: Final = 15 * 60_000
LAST_AFTER_MS: Final = 50 * 60_000
"""When all is stored, so long until the first of them is due, and the last."""


async def store_hour(store_url: str, jobs: int, bar: Progress) -> Loaded:
    """Store jobs that are all due in the hour after that, none of them soon."""
    clock = system_clock()
    store = await open_roomy_store(store_url, clock)
    try:
        target = handler_target("noop")
        stored_ms = clock.now_ms() + await foresee_ms(store, jobs, target, clock, bar)
        offsets_ms = np.random.default_rng(1).integers(FIRST_AFTER_MS, LAST_AFTER_MS, jobs)
        return await preload(store, stored_ms + offsets_ms, target, clock, system_randomness(), bar)
    finally:
        await store.aclose()


async def time_start(store_url: str, folder: Path, *, armed: int) -> Figures:
    """Store one job that is due at once, start a server, and time its first call; then it arms the others."""
    clock = system_clock()
    await store_jobs(store_url, [clock.now_ms()], handler_target("record"), _NoProgress())
    began_ms = clock.now_ms()
    with BenchServer(store_url, folder) as server:
        wait_until(lambda: gauge(server.port, ARMED) >= armed, "the server did not arm all timers")
        wait_until_quiet(server.port, armed=armed)
        armed_ms = clock.now_ms() - began_ms
    _, called_ms = server.calls()
    return {"first_fire_ms": int(called_ms[0]) - began_ms, "start_armed_ms": armed_ms}


async def startup(store: str, folder: Path, *, jobs: int, bar: Progress) -> Figures:
    """Store the jobs, one of them due at once, start a server and time its first call."""
    loaded = await store_hour(store, jobs - 1, bar)
    return {
        "jobs": jobs,
        "load_s": round(loaded.took_ms / 1000, 1),
        **await time_start(store, folder, armed=jobs - 1),
    }


class _NoProgress:
    def update(self, n_steps: int) -> None:
        """One job is no progress."""
