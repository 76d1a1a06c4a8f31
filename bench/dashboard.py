"""What the pages of the dashboard ask for, on a store with many jobs: `python -m bench.dashboard --jobs 1000000`.

One job in twenty is recurring, by four calendars; the rest are due once within a day. Wall time, one JSON line.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import numpy as np

from tickwheel.adapters.sqlite.store import SqliteStore, open_sqlite_store
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.job import Job, Lane, ScheduleType, Spec, Target, TargetType
from tickwheel.ports.store import FirstTimer, JobOrder, JobQuery, NewJob
from tickwheel.services.live.forecasting import FRESH_MS, Forecasting

BATCH = 5_000
DAY_MS = 86_400_000
CALENDARS = ("0 * * * *", "*/15 * * * *", "30 2 * * *", "5 4 * * 1")
TARGET = Target(type=TargetType.HTTP_WEBHOOK, endpoint="https://a.example/x")
ONCE = Spec(target=TARGET)
AGAIN = tuple(Spec(target=TARGET, cron=cron) for cron in CALENDARS)
LISTS = {
    "newest": JobQuery("default"),
    "soonest due": JobQuery("default", order=JobOrder.DUE),
    "by name": JobQuery("default", name_prefix="job-99"),
    "recurring": JobQuery("default", schedule_type=ScheduleType.CRON),
}


class Hurried(SystemClock):
    """A clock that can be put ahead, so that what is kept for a while is old."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


def job(number: int, now_ms: int, due_ms: int) -> NewJob:
    job_id = now_ms.to_bytes(6, "big") + number.to_bytes(4, "big") + os.urandom(6)
    if number % 20:
        one = Job(
            job_id,
            "default",
            f"job-{number}",
            ScheduleType.DELAYED,
            Lane.DEFAULT,
            ONCE,
            "",
            now_ms,
            scheduled_ms=due_ms,
        )
    else:
        spec, due_ms = AGAIN[number // 20 % len(AGAIN)], due_ms // 60_000 * 60_000
        one = Job(
            job_id,
            "default",
            f"job-{number}",
            ScheduleType.CRON,
            Lane.DEFAULT,
            spec,
            "",
            now_ms,
            effective_ms=now_ms,
        )
    return NewJob(one, FirstTimer(due_ms, due_ms, 1))


async def fill(store: SqliteStore, count: int, now_ms: int) -> None:
    due_ms = now_ms + np.random.default_rng(7).integers(60_000, DAY_MS, count)
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        await store.insert_jobs([job(number, now_ms, int(due_ms[number])) for number in numbers])


async def measured_ms(act: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await act()
    return round((time.perf_counter() - began) * 1000, 1)


async def measure(count: int) -> dict[str, object]:
    clock = Hurried()
    with tempfile.TemporaryDirectory() as folder:
        store = await open_sqlite_store(Path(folder), clock)
        try:
            await fill(store, count, clock.now_ms())
            forecasting = Forecasting(store, clock)
            figures: dict[str, object] = {"jobs": count, "forecast_ms": await measured_ms(forecasting.look)}
            clock.ahead_ms = FRESH_MS
            figures["forecast_again_ms"] = await measured_ms(forecasting.look)
            for name, query in LISTS.items():
                figures[f"list_{name.replace(' ', '_')}_ms"] = await measured_ms(partial(store.list_jobs, query))
            figures["counts_ms"] = await measured_ms(store.counts)
            return figures
        finally:
            await store.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    print(json.dumps(asyncio.run(measure(parser.parse_args().jobs))))
