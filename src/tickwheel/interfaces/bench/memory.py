"""Memory per armed timer, and of a server that holds none.

Per timer: the resident size of this process before and after arming. The server (owner, workers and API in one
process) is looked at after it has worked off some jobs.
"""

from pathlib import Path
from typing import Final

import numpy as np

from tickwheel.domain.columns import TIMER
from tickwheel.domain.wheel import TimingWheel
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures
from tickwheel.interfaces.bench.poster import handler_jobs, post_all
from tickwheel.interfaces.bench.process import resident_bytes
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer, wait_until_quiet
from tickwheel.interfaces.bench.workloads import PAYLOAD
from tickwheel.wiring import system_clock

HOUR_MS: Final = 3_600_000
BATCH: Final = 50_000
SERVED_BATCHES: Final = 20
SERVED_JOBS: Final = 1_000
MB: Final = 1_000_000


def memory(store: str, folder: Path, *, timers: int, bar: Progress) -> Figures:
    """Arm timers over the coming hour, in the pages in which a slice brings them; then look at a server."""
    clock = system_clock()
    now_ms, rng = clock.now_ms(), np.random.default_rng(1)
    wheel = TimingWheel(now_ms)
    page = np.zeros(BATCH, TIMER)
    before_bytes = resident_bytes()
    began_ms = clock.cpu_ms()
    for start in range(0, timers, BATCH):
        page["due_ms"] = page["scheduled_ms"] = now_ms + np.sort(rng.integers(1_000, HOUR_MS, BATCH))
        page["job_id"] = np.frombuffer(rng.bytes(16 * BATCH), "V16")
        page["gen"] = 1
        wheel.arm(page[: timers - start])
        bar.update(min(BATCH, timers - start))
    took_ms = clock.cpu_ms() - began_ms
    if len(wheel) != timers:
        raise BenchFailed(f"{len(wheel)} of {timers} timers are armed")
    used = resident_bytes() - before_bytes
    return {
        "timers": timers,
        "bytes_per_timer": round(used / timers, 1),
        "arm_us": round(took_ms * 1000 / timers, 3),
        **_server_figures(store, folder),
    }


def _server_figures(store: str, folder: Path) -> Figures:
    with BenchServer(store, folder) as server:
        started = resident_bytes(server.pid)
        body = handler_jobs("noop", [system_clock().now_ms()] * SERVED_JOBS, PAYLOAD)
        created = post_all(server.port, [body] * SERVED_BATCHES, connections=1, on_sent=lambda count: None)
        if created != SERVED_BATCHES * SERVED_JOBS:
            raise BenchFailed(f"{created} of {SERVED_BATCHES * SERVED_JOBS} jobs were created")
        wait_until_quiet(server.port)
        worked = resident_bytes(server.pid)
    return {"started_rss_mb": round(started / MB, 1), "rss_mb": round(worked / MB, 1)}
