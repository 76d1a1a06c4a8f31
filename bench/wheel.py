"""Cost and memory of the timing wheel: `python bench/wheel.py [--timers N]` prints one flat JSON object.

Each part runs in a fresh process. For the expiry the timers lie four hours ahead, so that every one starts in the
hours and crosses all levels; time then advances as a ticker does it, to `next_wake_ms`. Times are CPU times of the
process, so that neighbours on the machine don't count.
"""

import argparse
import gc
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from resource import getpagesize
from time import process_time_ns

import numpy as np

from tickwheel.domain.columns import TIMER, Ints, Rows
from tickwheel.domain.wheel import TICK_MS, TimingWheel
from tickwheel.domain.wheel_slots import HOUR_MS

START_MS = 1_900_000_800_000
BATCH_ROWS = 125_000
DENSE_PER_SECOND = 50_000
PAGE_ROWS = 20_000


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def batches(count: int, begin_ms: int, span_ms: int, seed: int) -> Iterator[Rows]:
    """`count` timers with random ids and due times, in the batches in which a slice load brings them."""
    rng = np.random.default_rng(seed)
    for at in range(0, count, BATCH_ROWS):
        rows = np.zeros(min(BATCH_ROWS, count - at), TIMER)
        rows["due_ms"] = rng.integers(begin_ms, begin_ms + span_ms, len(rows))
        rows["scheduled_ms"] = rows["due_ms"]
        rows["job_id"] = np.frombuffer(rng.bytes(16 * len(rows)), "V16")
        rows["gen"] = 1
        yield rows


def arm_all(wheel: TimingWheel, arrivals: Iterator[Rows]) -> int:
    """Nanoseconds spent in `arm`."""
    spent = 0
    for rows in arrivals:
        begin = process_time_ns()
        wheel.arm(rows)
        spent += process_time_ns() - begin
    return spent


def advance_all(wheel: TimingWheel, now_ms: int, limit: int | None) -> tuple[Ints, int]:
    """Advance tick by tick until the wheel is empty: nanoseconds of each call, and timers returned."""
    spent: list[int] = []
    fired = 0
    while (wake_ms := wheel.next_wake_ms()) is not None:
        now_ms = max(now_ms + TICK_MS, -(-wake_ms // TICK_MS) * TICK_MS)
        begin = process_time_ns()
        rows = wheel.advance(now_ms, limit)
        spent.append(process_time_ns() - begin)
        fired += len(rows)
    return np.array(spent), fired


def memory(timers: int) -> dict[str, float]:
    """The default slice of a node: everything due within the coming hour."""
    arm_all(TimingWheel(START_MS), batches(BATCH_ROWS, START_MS, HOUR_MS, 0))
    gc.collect()
    before = rss_bytes()
    wheel = TimingWheel(START_MS)
    arm_ns = arm_all(wheel, batches(timers, START_MS, HOUR_MS, 1))
    gc.collect()
    return {
        "bytes_per_timer": round((rss_bytes() - before) / len(wheel), 2),
        "arm_bulk_ns": round(arm_ns / timers, 1),
    }


def single_arms(timers: int) -> dict[str, float]:
    """One timer per call, spread over ten minutes."""
    wheel = TimingWheel(START_MS)
    singles = [
        row for rows in batches(min(timers, 200_000), START_MS, 600_000, 2) for row in np.split(rows, len(rows))
    ]
    begin = process_time_ns()
    for row in singles:
        wheel.arm(row)
    return {"arm_single_ns": round((process_time_ns() - begin) / len(singles), 1)}


def expiry(timers: int, name: str, span_ms: int, limit: int | None = None) -> dict[str, float]:
    """Everything from four hours ahead down to the last row, with all cascades."""
    wheel = TimingWheel(START_MS)
    arm_all(wheel, batches(timers, START_MS + 4 * HOUR_MS, span_ms, 3))
    spent, fired = advance_all(wheel, START_MS, limit)
    if fired != timers:
        raise SystemExit(f"{name}: {fired} of {timers} timers came back")
    return {
        f"{name}_expire_ns": round(float(spent.sum()) / timers, 1),
        f"{name}_advance_count": len(spent),
        f"{name}_advance_mean_us": round(float(spent.mean()) / 1e3, 1),
        f"{name}_advance_p99_us": round(float(np.percentile(spent, 99)) / 1e3, 1),
        f"{name}_advance_max_ms": round(float(spent.max()) / 1e6, 2),
    }


def dense(timers: int) -> dict[str, float]:
    """50,000 timers per second."""
    return expiry(timers, "dense", max(1_000, timers * 1_000 // DENSE_PER_SECOND))


def burst(timers: int) -> dict[str, float]:
    """A fifth of them, all due in the same second, fetched in pages."""
    return expiry(max(1, timers // 5), "burst", 1_000, PAGE_ROWS)


def hour(timers: int) -> dict[str, float]:
    """A tenth of them in a tenth of an hour: few rows in each of 72,000 ticks."""
    return expiry(max(1, timers // 10), "hour", HOUR_MS // 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timers", type=int, default=5_000_000)
    timers = parser.parse_args().timers
    answer: dict[str, float] = {"timers": timers}
    for part in (memory, single_arms, dense, burst, hour):
        # a fresh process each: memory that an earlier part has freed would hide what the next one takes
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            answer |= process.submit(part, timers).result()
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
