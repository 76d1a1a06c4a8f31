"""Does it stay flat? The same work on two stores, one with few and one with many stored future jobs.

The rounds of the two take turns, so that what else the machine does meets both. First servers, with a steady rate
of jobs over HTTP; then the trigger plane, with bursts. Figures of the small store begin with `base_`; a ratio is
the large store's median by the small one's.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.cpu import Cpu
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures
from tickwheel.interfaces.bench.overhttp import lateness
from tickwheel.interfaces.bench.plane import Plane
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.workloads import DAY_MS, handler_target, store_jobs
from tickwheel.wiring import is_shared, open_any_store, system_clock

AHEAD_MS: Final = 2 * 3_600_000
"""What is stored lies beyond what is held in memory."""
DAYS: Final = 30
BURST_LEAD_MS: Final = 1_000
INSERTED_PER_MS: Final = 4
COMPARED: Final = (
    "late_p50_ms",
    "late_p99_ms",
    "triggers_per_s",
    "cpu_s_per_1k",
    "claim_cpu_s_per_1k",
    "claim_us",
    "first_slice_ms",
)
ASKED_FOR: Final = ("jobs", "rate", "processes")
Rounds = list[Figures]


async def growth(
    store: str,
    folder: Path,
    *,
    jobs: int,
    base_jobs: int,
    rounds: int,
    rate: int,
    seconds: int,
    burst: int,
    bar: Progress,
) -> Figures:
    """`rounds` turns of `rate` jobs/s for `seconds`, then as many bursts of `burst` timers, per store."""
    if store.startswith("memory:"):
        raise BenchFailed("it needs a store on disk: sqlite:FOLDER or postgresql://...")
    with _beside(store) as base:
        urls = (base, store)
        loaded = [
            await store_jobs(url, _future(count), handler_target("noop"), bar)
            for url, count in zip(urls, (base_jobs, jobs), strict=True)
        ]
        steady: list[Rounds] = [[], []]
        for number in range(rounds):
            for which in _turns(number):
                steady[which].append(lateness(urls[which], folder, rate=rate, seconds=seconds, bar=bar))
        bursts = await _bursts(urls, rounds, burst, bar)
    base_figures, figures = (medians([*a, *b]) for a, b in zip(steady, bursts, strict=True))
    return {
        "jobs": jobs,
        "base_jobs": base_jobs,
        **figures,
        **{f"base_{name}": value for name, value in base_figures.items()},
        **{f"{name}_ratio": ratio(figures[name], base_figures[name]) for name in COMPARED},
        "load_s": round(loaded[1].took_ms / 1000, 1),
        "preloaded_jobs_per_s": round(loaded[1].per_s, 1),
        "base_preloaded_jobs_per_s": round(loaded[0].per_s, 1),
    }


def _future(count: int) -> Ints:
    """Due instants all over the coming month, in order: they are stored several times as fast as in none."""
    first_ms = system_clock().now_ms() + AHEAD_MS
    return first_ms + np.arange(count) * (DAYS * DAY_MS // max(1, count))


def _turns(number: int) -> Sequence[int]:
    return (0, 1) if number % 2 == 0 else (1, 0)


async def _bursts(urls: Sequence[str], rounds: int, burst: int, bar: Progress) -> list[Rounds]:
    clock, planes = system_clock(), list[Plane]()
    figures: list[Rounds] = [[], []]
    try:
        for url in urls:
            planes.append(await Plane.open(await open_any_store(url, clock), clock))
        for which, plane in enumerate(planes):
            await plane.until_loaded()
            figures[which].append({"first_slice_ms": plane.slices_took_ms})
        for number in range(rounds):
            for which in _turns(number):
                figures[which].append(await _burst(planes[which], urls[which], burst, bar))
        for plane in planes:
            await plane.check(rounds * burst)
    finally:
        for plane in planes:
            await plane.aclose()
    return figures


async def _burst(plane: Plane, url: str, count: int, bar: Progress) -> Figures:
    """Timers due at one instant, stored and armed before it."""
    clock, before, before_ms = plane.clock, plane.taken, plane.claims_took_ms
    due_ms = clock.now_ms() + BURST_LEAD_MS + count // INSERTED_PER_MS
    await plane.insert([due_ms] * count)
    if clock.now_ms() >= due_ms:
        raise BenchFailed("the machine is too slow to create that many jobs ahead of time")
    await clock.sleep_ms(due_ms - clock.now_ms() - 100)
    cpu = Cpu(url, system_clock().cpu_ms)
    await plane.until_taken(before + count, bar)
    return {
        "triggers_per_s": round(count / max(1, plane.last_ms - due_ms) * 1000, 1),
        "claim_us": round((plane.claims_took_ms - before_ms) * 1000 / count, 1),
        **{f"claim_{name}": value for name, value in cpu.figures(count).items()},
    }


def medians(rounds: Rounds) -> Figures:
    """Of each number that rounds gave, the middle one; what says how much was asked for is left out."""
    values: dict[str, list[float]] = {}
    for figures in rounds:
        for name, value in figures.items():
            if not isinstance(value, str) and name not in ASKED_FOR:
                values.setdefault(name, []).append(float(value))
    return {name: round(float(np.median(found)), 4) for name, found in values.items()}


def ratio(value: float | str, base: float | str) -> float:
    """Large by small; what was too short to be measured in the small store counts as one, there and here."""
    if not float(base):
        return round(max(float(value), 1.0), 2)
    return round(float(value) / float(base), 2)


@contextmanager
def _beside(store: str) -> Iterator[str]:
    """The URL of a second store of the same kind on the same machine; a database is dropped at the end."""
    if not is_shared(store):
        yield f"{store}-base"
        return
    import psycopg
    from psycopg import sql

    parts = urlsplit(store)
    name = f"{parts.path.lstrip('/')}_base"
    with psycopg.connect(store, autocommit=True) as connection:
        try:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        except psycopg.Error as error:
            raise BenchFailed(
                f"it needs a second database beside the store and can't create it: {error}"
            ) from None
    try:
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(store, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
