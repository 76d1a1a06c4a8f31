"""What the audit log costs where jobs are created: `python bench/audit_log.py [--store URL] [--jobs N]`.

Jobs are created from raw requests, in batches of 1,000 and one by one by 64 callers at once, by turns with an act
and without one. A round is one of each; what is told is the median of the rounds' ratios (jobs per second with an
act by those without), of wall time and of this process's CPU time. The last line is flat JSON.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

from tickwheel.domain.requests.request import parse_job_request
from tickwheel.ports.registry import Act
from tickwheel.services.jobs import Jobs
from tickwheel.wiring import open_any_store, system_clock, system_randomness
from tickwheel.wiring.nobody import Nobody

BATCH = 1_000
CALLERS = 64
ACT = Act("key:k3v9q2m7x4tz", "job.create", "192.0.2.7")
BODY = json.dumps(
    {
        "schedule_type": "DELAYED",
        "delay_seconds": 86_400,
        "job_name": "expire-order",
        "target": {"endpoint": "https://sink.example/hooks/orders", "headers": {"X-Shop": "berlin"}},
        "payload": {"order_id": "ord-8812", "note": "x" * 160},
    }
).encode()


class Took(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float


async def batches(jobs: Jobs, count: int, act: Act | None) -> None:
    for _ in range(count // BATCH):
        answers = await jobs.create_many([BODY] * BATCH, act=act)
        assert len(answers) == BATCH


async def singles(jobs: Jobs, count: int, act: Act | None) -> None:
    async def call() -> None:
        for _ in range(count // CALLERS):
            await jobs.create(parse_job_request(BODY), act=act)

    await asyncio.gather(*(call() for _ in range(CALLERS)))


Create = Callable[[Jobs, int, Act | None], Awaitable[None]]


async def timed(create: Create, jobs: Jobs, count: int, act: Act | None) -> Took:
    wall, cpu = perf_counter(), process_time()
    await create(jobs, count, act)
    return Took(perf_counter() - wall, process_time() - cpu)


async def measure(url: str, count: int, rounds: int) -> dict[str, float]:
    clock = system_clock()
    store = await open_any_store(url, clock)
    await store.maintain(clock.now_ms())
    jobs = Jobs(store, Nobody(), clock, system_randomness())
    told: dict[str, float] = {}
    ways: tuple[tuple[str, Create, int], ...] = (("batch", batches, count), ("single", singles, count // 4))
    for name, create, some in ways:
        await create(jobs, max(BATCH, some // 10), ACT)  # what is done once
        turns = [[await timed(create, jobs, some, act) for act in (ACT, None)] for _ in range(rounds)]
        told |= {
            f"{name}_with_per_s": round(some / median(with_act.wall for with_act, _ in turns)),
            f"{name}_without_per_s": round(some / median(without.wall for _, without in turns)),
            f"{name}_with_cpu_us": round(median(with_act.cpu for with_act, _ in turns) / some * 1e6, 1),
            f"{name}_without_cpu_us": round(median(without.cpu for _, without in turns) / some * 1e6, 1),
            f"{name}_ratio": round(median(without.wall / with_act.wall for with_act, without in turns), 3),
            f"{name}_cpu_ratio": round(median(without.cpu / with_act.cpu for with_act, without in turns), 3),
        }
        print(name, *(f"{without.wall / with_act.wall:.3f}" for with_act, without in turns))
    await store.aclose()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.store or f"sqlite:{folder}/data"
        print(json.dumps(asyncio.run(measure(url, options.jobs, options.rounds))))


if __name__ == "__main__":
    main()
