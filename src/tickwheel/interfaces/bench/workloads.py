"""Jobs for benchmarks, made without the request parser: what is measured comes after it."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.ids import SHARD_COUNT, make_job_id
from tickwheel.domain.job import Job, Lane, ScheduleType, Spec, Target, TargetType
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.store import FirstTimer, NewJob, Store
from tickwheel.wiring import open_any_store, system_clock, system_randomness

PAYLOAD = '{"order_id":"ord-8812","note":"' + "x" * 160 + '"}'
INSERT_JOBS: Final = 5_000
INSERTS_UNDER_WAY: Final = 3
"""As many as PostgreSQL's store has connections for."""
PROBE_JOBS: Final = 20_000
PROBE_SHARE: Final = 40
"""A fortieth of the jobs is stored first, to learn how long the others will take."""
DAY_MS: Final = 86_400_000
RETRIES: Final = 10
RETRY_MS: Final = 500


def sized_payload(size_bytes: int) -> str:
    """A payload of about that size."""
    return PAYLOAD if size_bytes <= len(PAYLOAD) else '{"note":"' + "x" * (size_bytes - 11) + '"}'


def handler_target(name: str) -> Target:
    """One of the handlers in `recording`."""
    return Target(type=TargetType.HANDLER, name=name)


def make_jobs(due_ms: Sequence[int], target: Target, clock: Clock, randomness: Randomness) -> list[NewJob]:
    """One one-off job per due time, with a payload of about 200 bytes."""
    now_ms, spec = clock.now_ms(), Spec(target=target)
    noise = randomness.random_bytes(6 * len(due_ms))
    jobs = []
    for number, due in enumerate(due_ms):
        job_id = make_job_id(
            created_ms=now_ms,
            shard=number % SHARD_COUNT,
            due_ms=due,
            random48=noise[6 * number : 6 * number + 6],
        )
        job = Job(
            job_id=job_id,
            tenant_id="default",
            name="bench",
            schedule_type=ScheduleType.ONE_OFF,
            lane=Lane.DEFAULT,
            spec=spec,
            payload=PAYLOAD,
            created_ms=now_ms,
            updated_ms=now_ms,
            effective_ms=now_ms,
            scheduled_ms=due,
        )
        jobs.append(NewJob(job=job, timer=FirstTimer(due, due, 1)))
    return jobs


class Loaded(NamedTuple):
    """How many jobs were stored, and in which time."""

    jobs: int
    took_ms: int

    @property
    def per_s(self) -> float:
        """Jobs per second."""
        return self.jobs / max(1, self.took_ms) * 1000


async def preload(
    store: Store,
    due_ms: Sequence[int] | Ints,
    target: Target,
    clock: Clock,
    randomness: Randomness,
    bar: Progress,
    change: Callable[[int, NewJob], NewJob] = lambda number, new: new,
) -> Loaded:
    """Store one job per due time, by the store's way for many at a time, a few batches under way."""
    due, began_ms = np.asarray(due_ms, np.int64), clock.monotonic_ms()

    async def insert(starts: Iterator[int]) -> None:
        for start in starts:
            part = due[start : start + INSERT_JOBS].tolist()
            jobs = make_jobs(part, target, clock, randomness)
            await _insert(store, [change(number, new) for number, new in enumerate(jobs, start)], clock)
            bar.update(len(part))

    starts = iter(range(0, len(due), INSERT_JOBS))
    await asyncio.gather(*(insert(starts) for _ in range(INSERTS_UNDER_WAY)))
    return Loaded(len(due), clock.monotonic_ms() - began_ms)


async def _insert(store: Store, jobs: Sequence[NewJob], clock: Clock) -> None:
    """A database that takes seconds to answer is only slow: what is stored already is not stored again."""
    for _ in range(RETRIES):
        try:
            await store.insert_jobs(jobs)
        except (OutcomeUnknown, StoreUnavailable):
            await clock.sleep_ms(RETRY_MS)
        else:
            return
    await store.insert_jobs(jobs)


async def open_roomy_store(store_url: str, clock: Clock) -> Store:
    """With room for jobs of the coming months, as a server makes it at its start."""
    store = await open_any_store(store_url, clock)
    try:
        await store.maintain(clock.now_ms())
    except BaseException:
        await store.aclose()
        raise
    return store


async def store_jobs(store_url: str, due_ms: Sequence[int] | Ints, target: Target, bar: Progress) -> Loaded:
    """The same with a store of its own, which is closed again."""
    clock = system_clock()
    store = await open_roomy_store(store_url, clock)
    try:
        return await preload(store, due_ms, target, clock, system_randomness(), bar)
    finally:
        await store.aclose()


async def foresee_ms(store: Store, count: int, target: Target, clock: Clock, bar: Progress) -> int:
    """About how long it will take to store `count` jobs; some are stored to learn it, due in a day."""
    probe = min(count, max(PROBE_JOBS, count // PROBE_SHARE))
    due_ms = clock.now_ms() + DAY_MS + np.arange(probe)
    loaded = await preload(store, due_ms, target, clock, system_randomness(), bar)
    return loaded.took_ms * count // max(1, probe)
