"""Speed of the SQLite store by itself: `python bench/sqlite_store.py [--jobs N]`; the last line is flat JSON.

Inserts one-offs with a payload of 200 bytes in batches, loads their timers and work, then claims and completes
them in due order, which has nothing to do with the order of their ids. Rates are by the wall clock and include
commits; `*_cpu_us` is CPU time of all threads per job or run, which neighbours on the machine disturb less.
`--hog` keeps the interpreter lock busy in another thread, as a loaded event loop does.
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Thread
from time import perf_counter, process_time
from typing import TypeVar

import numpy as np

from tickwheel.adapters.sqlite import SqliteStore, open_sqlite_store
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.columns import CLAIM, COMPLETION, ClaimVerdict, Ints, Rows
from tickwheel.domain.ids import SHARD_COUNT, make_job_id
from tickwheel.domain.job import Job, Lane, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.outcome import RetryPolicy
from tickwheel.domain.run import FENCE_SEQUENCE_BITS, RunState
from tickwheel.ports.store import FirstTimer, NewJob

T = TypeVar("T")
SPREAD_MS = 60_000
SPEC = Spec(
    target=Target(TargetType.HTTP_WEBHOOK, endpoint="https://sink.example/hooks/orders"),
    retry=RetryPolicy(max_retries=5),
)
PAYLOAD = json.dumps({"order": "x" * 188})


def new_job(number: int, now_ms: int) -> NewJob:
    due_ms = now_ms - SPREAD_MS + number * 7_919 % SPREAD_MS
    job = Job(
        job_id=make_job_id(
            created_ms=now_ms + number // 50,
            shard=number % SHARD_COUNT,
            due_ms=due_ms,
            random48=os.urandom(6),
        ),
        tenant_id="default",
        name=f"order-{number}",
        schedule_type=ScheduleType.ONE_OFF,
        lane=Lane.DEFAULT,
        spec=SPEC,
        payload=PAYLOAD,
        created_ms=now_ms,
        updated_ms=now_ms,
        scheduled_ms=due_ms,
    )
    return NewJob(job, FirstTimer(due_ms, due_ms, 1))


async def timed(action: Callable[[], Awaitable[T]]) -> tuple[T, float, float]:
    """Result, wall seconds, CPU seconds."""
    wall, cpu = perf_counter(), process_time()
    result = await action()
    return result, perf_counter() - wall, process_time() - cpu


async def insert(store: SqliteStore, jobs: list[NewJob], batch: int) -> None:
    for start in range(0, len(jobs), batch):
        await store.insert_jobs(jobs[start : start + batch])


async def load(store: SqliteStore, page: int) -> Rows:
    pages, from_ms = [], 0
    while len(rows := await store.load_timers(from_ms, 1 << 60, page)):
        pages.append(rows)
        from_ms = int(rows["due_ms"][-1]) + 1
    return np.concatenate(pages)


async def run_all(store: SqliteStore, timers: Rows, epochs: Ints, batch: int) -> None:
    """Claim and complete, the completion of a batch together with the claim of the next one."""
    clock = SystemClock()
    completing: asyncio.Task[object] | None = None
    for start in range(0, len(timers), batch):
        part = timers[start : start + batch]
        now_ms = clock.now_ms()
        claims = np.zeros(len(part), CLAIM)
        for name in ("due_ms", "job_id", "scheduled_ms", "gen", "flags"):
            claims[name] = part[name]
        claims["max_attempts"], claims["next_ms"] = 6, -1
        raw = np.frombuffer(part["job_id"].tobytes(), np.uint8).reshape(-1, 16)
        shards = raw[:, 6].astype(np.int64) << 8 | raw[:, 7]
        claims["fence"] = epochs[shards] << FENCE_SEQUENCE_BITS | (start + np.arange(len(part)) + 1)
        answers = await store.claim(claims, now_ms, now_ms + 30_000)
        assert (answers["verdict"] == ClaimVerdict.WON).all()
        ends = np.zeros(len(part), COMPLETION)
        for name in ("due_ms", "job_id", "scheduled_ms", "gen", "flags", "fence"):
            ends[name] = claims[name]
        ends["state"], ends["attempt"], ends["retry_ms"] = RunState.SUCCEEDED, 1, -1
        ends["started_ms"] = ends["finished_ms"] = now_ms
        if completing is not None:
            await completing
        completing = asyncio.create_task(store.complete(ends, {}))
        await asyncio.sleep(0)
    if completing is not None:
        await completing


async def measure(folder: Path, args: argparse.Namespace) -> dict[str, float]:
    store = await open_sqlite_store(folder, SystemClock())
    epochs = await store.acquire("bench")
    jobs = [new_job(number, SystemClock().now_ms()) for number in range(args.jobs)]
    _, insert_s, insert_cpu = await timed(lambda: insert(store, jobs, args.insert_batch))
    timers, load_s, _ = await timed(lambda: load(store, args.jobs))
    ids = [row.tobytes() for row in timers["job_id"][:500]]
    await store.load_work(ids)
    _, work_s, _ = await timed(lambda: store.load_work(ids))
    _, run_s, run_cpu = await timed(lambda: run_all(store, timers, epochs, args.run_batch))
    counts = await store.counts()
    assert counts.waiting == 0
    await store.aclose()
    count = args.jobs
    return {
        "jobs": count,
        "jobs_per_s": round(count / insert_s),
        "insert_cpu_us": round(insert_cpu / count * 1e6, 2),
        "timers_loaded_per_s": round(count / load_s),
        "load_work_500_ms": round(work_s * 1e3, 2),
        "runs_per_s": round(count / run_s),
        "run_cpu_us": round(run_cpu / count * 1e6, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--insert-batch", type=int, default=2_000)
    parser.add_argument("--run-batch", type=int, default=500)
    parser.add_argument("--hog", action="store_true")
    args = parser.parse_args()
    stopped = False

    def burn() -> None:
        while not stopped:
            pass

    if args.hog:
        Thread(target=burn, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(measure(Path(folder), args))
        size_bytes = sum(file.stat().st_size for file in Path(folder).iterdir())
    stopped = True
    print(json.dumps({**result, "bytes_per_job": round(size_bytes / args.jobs)}))


if __name__ == "__main__":
    main()
