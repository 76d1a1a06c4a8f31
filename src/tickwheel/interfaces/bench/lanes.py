"""How late CRITICAL runs start alone, and beside a lane LOW that is full of long runs.

Pairs of phases on one server: CRITICAL alone, then the same with far more LOW runs than there are slots, which
hold theirs. After each pair the LOW runs are told to end, so that the next one begins with an empty server.
"""

import threading
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from tickwheel.interfaces.bench.outcome import BenchFailed, Figures
from tickwheel.interfaces.bench.poster import post_all
from tickwheel.interfaces.bench.process import gauge
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer, wait_until_quiet
from tickwheel.interfaces.bench.streams import LEAD_MS, TAGS, Called, Stream, p99, post_streams, tagged_job
from tickwheel.wiring import system_clock

APP: Final = "tickwheel.interfaces.bench.tagged:handlers"
CRITICAL: Final = Stream(1, "default", "CRITICAL", 0)
LOW: Final = Stream(2, "default", "LOW", 0)
ENDED: Final = "tickwheel_attempts_total"
BATCH: Final = 1_000
SETTLE_MS: Final = 1_000
"""After the flood was created: the LOW runs have their slots by then."""


def lanes(
    store: str,
    folder: Path,
    *,
    rate: int,
    seconds: int,
    pairs: int,
    low: int,
    hold_ms: int,
    slots: int,
    bar: Progress,
) -> Figures:
    """`low` LOW runs of `hold_ms` each on `slots` slots, beside `rate` CRITICAL runs per second."""
    critical, created, ended_low = CRITICAL._replace(rate=rate), 0, 0
    with BenchServer(store, folder, app=APP, handler_slots=slots) as server:
        _phase(server, critical, 2, 99, bar)  # what is slow the first time is in no phase
        created += 2 * rate
        for pair in range(pairs):
            created += _phase(server, critical, seconds, 2 * pair, bar)
            server.told.unlink(missing_ok=True)
            created += _flood(server, low, hold_ms, 2 * pair + 1)
            before = gauge(server.port, ENDED)
            created += _phase(server, critical, seconds, 2 * pair + 1, bar)
            ended_low += int(gauge(server.port, ENDED) - before) - rate * seconds
            server.told.touch()
            wait_until_quiet(server.port, ended=created)
    called = Called(server.noted(3), created)
    alone, flooded = (
        np.concatenate([called.late_ms(CRITICAL.number, 2 * pair + flood) for pair in range(pairs)])
        for flood in (0, 1)
    )
    if len(alone) != rate * seconds * pairs or len(flooded) != len(alone):
        raise BenchFailed(f"{len(alone)} CRITICAL runs alone and {len(flooded)} beside the flood")
    return {
        "critical_alone_p99_ms": p99(alone),
        "critical_flooded_p99_ms": p99(flooded),
        "ratio": round(p99(flooded) / max(1.0, p99(alone)), 2),
        "critical_alone_max_ms": int(alone.max()),
        "critical_flooded_max_ms": int(flooded.max()),
        "critical_runs": len(flooded),
        "low_runs": low * pairs,
        "low_runs_ended": ended_low,
    }


def _phase(server: BenchServer, stream: Stream, seconds: int, phase: int, bar: Progress) -> int:
    clock = system_clock()
    first_ms = clock.now_ms() + LEAD_MS + SETTLE_MS
    created = post_streams(server.port, [stream], first_ms, seconds, phase, clock, bar)
    threading.Event().wait(max(0, first_ms + seconds * 1000 + SETTLE_MS - clock.now_ms()) / 1000)
    return created


def _flood(server: BenchServer, count: int, hold_ms: int, phase: int) -> int:
    """LOW runs, due at once; they last from half of `hold_ms` to one and a half of it, as if begun at any time."""
    due_ms, base_tag = system_clock().now_ms(), (LOW.number * 100 + phase) * TAGS
    jobs = [
        tagged_job(
            base_tag + number,
            due_ms,
            tenant_id=LOW.tenant_id,
            lane=LOW.lane,
            handler="held",
            hold_ms=hold_ms // 2 + hold_ms * number // max(1, count),
        )
        for number in np.random.default_rng(phase).permutation(count).tolist()
    ]
    bodies = [msgspec.json.encode(jobs[start : start + BATCH]) for start in range(0, count, BATCH)]
    return post_all(server.port, bodies, connections=1, on_sent=lambda created: None)
