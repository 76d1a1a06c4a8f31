"""Lists with many jobs behind them: first pages, deep pages and the front page's counts, while jobs come in.

Every job that was there at the start has to be met exactly once on a walk over all pages.
"""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from tickwheel.interfaces.bench.outcome import BenchFailed, Figures, rounded
from tickwheel.interfaces.bench.poster import handler_jobs, post_all
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer
from tickwheel.interfaces.bench.workloads import PAYLOAD, handler_target, store_jobs
from tickwheel.ports.clock import Clock
from tickwheel.wiring import system_clock

HOUR_MS: Final = 3_600_000
TIMEOUT_S: Final = 60
PAGE: Final = 50
WALK_PAGE: Final = 1_000
DEEP_EVERY: Final = 20
"""Pages of the walk between two measured deep pages of `PAGE` jobs."""
REPEATS: Final = 10
FILTERS: Final = ("", "&order=due", "&status=SCHEDULED", "&schedule_type=ONE_OFF", "&name_prefix=bench")
INSERT_JOBS: Final = 100
INSERT_PAUSE_S: Final = 0.1


class _Job(msgspec.Struct):
    job_id: str
    job_name: str | None


class _Page(msgspec.Struct):
    jobs: list[_Job]
    next_cursor: str | None


class Visitor:
    """One reader of the API; notes how long each answer took, by kind."""

    def __init__(self, port: int, clock: Clock) -> None:
        self._clock = clock
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        self.took_ms: dict[str, list[int]] = {"first": [], "deep": [], "walk": [], "counts": []}

    def read(self, kind: str, path: str) -> bytes:
        """GET, and note the time under `kind`."""
        began_ms = self._clock.monotonic_ms()
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        body = response.read()
        self.took_ms[kind].append(self._clock.monotonic_ms() - began_ms)
        if response.status != 200:
            raise BenchFailed(f"{path} was answered with {response.status}")
        return body

    def walk(self, bar: Progress) -> Iterator[list[_Job]]:
        """All jobs, page by page; now and then a small page is read from the same place, and the front page."""
        cursor, number = "", 0
        while True:
            page = msgspec.json.decode(self.read("walk", f"/v1/jobs?limit={WALK_PAGE}{cursor}"), type=_Page)
            yield page.jobs
            bar.update(len(page.jobs))
            if page.next_cursor is None:
                return
            cursor, number = f"&cursor={page.next_cursor}", number + 1
            if number % DEEP_EVERY == 0:
                self.read("deep", f"/v1/jobs?limit={PAGE}{cursor}")
                self.read("counts", "/")

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


async def lists(store: str, folder: Path, *, jobs: int, bar: Progress) -> Figures:
    """Store the jobs, then read lists of them over HTTP while others are created."""
    clock, over = system_clock(), threading.Event()
    due_ms = (clock.now_ms() + HOUR_MS + np.arange(jobs)).tolist()
    await store_jobs(store, due_ms, handler_target("noop"), bar)
    with BenchServer(store, folder) as server:
        created: list[int] = []

        def bodies() -> Iterator[bytes]:
            while not over.wait(INSERT_PAUSE_S):
                yield handler_jobs("noop", [due_ms[-1]] * INSERT_JOBS, PAYLOAD)

        def create() -> None:
            post_all(server.port, bodies(), connections=1, on_sent=created.append)

        inserting = threading.Thread(target=create)
        inserting.start()
        visitor = Visitor(server.port, clock)
        try:
            for _ in range(REPEATS):
                for asked in FILTERS:
                    visitor.read("first", f"/v1/jobs?limit={PAGE}{asked}")
                visitor.read("counts", "/")
            met = [job for page in visitor.walk(bar) for job in page]
        finally:
            over.set()
            inserting.join()
            visitor.close()
    _check_walk(met, jobs)
    return {"jobs": jobs, "inserted": sum(created), **_figures(visitor.took_ms)}


def _check_walk(met: list[_Job], jobs: int) -> None:
    if len({job.job_id for job in met}) != len(met):
        raise BenchFailed("the walk met a job twice")
    old = sum(job.job_name == "bench" for job in met)
    if old != jobs:
        raise BenchFailed(f"the walk met {old} of {jobs} jobs")


def _figures(took_ms: dict[str, list[int]]) -> Figures:
    figures: Figures = {}
    for kind, times in took_ms.items():
        if times:
            figures[f"{kind}_p50_ms"] = rounded(np.percentile(times, 50))
            figures[f"{kind}_max_ms"] = max(times)
    return figures
