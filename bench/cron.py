"""Cron evaluator against cronsim: microseconds per next occurrence, and per parse plus next.

    python bench/cron.py [--iterations 100000] [--repeats 5]

Prints one JSON object; `ratio` is ours / cronsim (below 1 = faster), from the medians of the repeats.
`--iterations 1` is the smoke run. The two take turns, so that a busy machine slows both.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import cycle, islice
from statistics import median
from typing import Any

from cronsim import CronSim

from tickwheel.domain.cron import parse_cron
from tickwheel.domain.zones import load_zone, tzdata_version

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp()) * 1000

CASES = {
    "*/5 UTC": ("*/5 * * * *", "UTC"),
    "*/5 New_York": ("*/5 * * * *", "America/New_York"),
    "30 2 New_York": ("30 2 * * *", "America/New_York"),
    "MON-FRI Berlin": ("0 9 * * MON-FRI", "Europe/Berlin"),
    "13th or FRI UTC": ("0 0 13 * FRI", "UTC"),
    "every second New_York": ("* * * * * *", "America/New_York"),
}


def our_walk(expression: str, zone: str, count: int) -> Callable[[], object]:
    def walk() -> Iterator[int]:
        return parse_cron.__wrapped__(expression, zone).iter_after(START_MS)

    return lambda: list(islice(walk(), count))


def their_walk(expression: str, zone: str, count: int) -> Callable[[], object]:
    start = START if zone == "UTC" else START.astimezone(load_zone(zone))
    return lambda: list(islice(CronSim(expression, start), count))


def parse_each_time(count: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Parse, without our cache, and find one occurrence in UTC: each expression in turn."""
    texts = list(islice(cycle(expression for expression, _ in CASES.values()), count))

    def ours() -> object:
        return [parse_cron.__wrapped__(text, "UTC").next_after(START_MS) for text in texts]

    def theirs() -> object:
        return [next(CronSim(text, START)) for text in texts]

    return ours, theirs


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(
    ours: Callable[[], object], theirs: Callable[[], object], count: int, repeats: int
) -> dict[str, float]:
    rounds = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    ours_us, theirs_us = (median(column) / count * 1e6 for column in zip(*rounds, strict=True))
    return {
        "tickwheel_us": round(ours_us, 3),
        "cronsim_us": round(theirs_us, 3),
        "ratio": round(ours_us / theirs_us, 3),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--iterations", type=int, default=100_000, help="occurrences per case (default 100000)")
    options.add_argument("--repeats", type=int, default=5, help="rounds per case; the median counts (default 5)")
    chosen = options.parse_args()
    count, repeats = max(1, chosen.iterations), max(1, chosen.repeats)
    results: dict[str, Any] = {
        name: measure(our_walk(*case, count), their_walk(*case, count), count, repeats)
        for name, case in CASES.items()
    }
    results["parse and next"] = measure(*parse_each_time(count), count, repeats)
    about = {
        "python": platform.python_version(),
        "cronsim": version("cronsim"),
        "tzdata": tzdata_version(),
        "iterations": count,
        "repeats": repeats,
    }
    print(json.dumps({"benchmark": "cron", **about, "cases": results}))


if __name__ == "__main__":
    main()
