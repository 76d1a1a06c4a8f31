"""Memory per armed timer: the resident size of this process before and after arming."""

from pathlib import Path
from resource import getpagesize

import numpy as np

from tickwheel.domain.columns import TIMER
from tickwheel.domain.wheel import TimingWheel
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.wiring import system_clock

HOUR_MS = 3_600_000
BATCH = 50_000


def memory(*, timers: int, bar: Progress) -> Figures:
    """Arm timers over the coming hour, in the pages in which a slice brings them."""
    clock = system_clock()
    now_ms, rng = clock.now_ms(), np.random.default_rng(1)
    wheel = TimingWheel(now_ms)
    page = np.zeros(BATCH, TIMER)
    before_bytes = _resident_bytes()
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
    used = _resident_bytes() - before_bytes
    return {
        "timers": timers,
        "bytes_per_timer": round(used / timers, 1),
        "arm_us": round(took_ms * 1000 / timers, 3),
    }


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
