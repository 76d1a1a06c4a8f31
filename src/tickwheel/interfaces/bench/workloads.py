"""Jobs for benchmarks, made without the request parser: what is measured comes after it."""

from collections.abc import Sequence

from tickwheel.domain.ids import SHARD_COUNT, make_job_id
from tickwheel.domain.job import Job, Lane, ScheduleType, Spec, Target, TargetType
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.store import FirstTimer, NewJob, Store

PAYLOAD = '{"order_id":"ord-8812","note":"' + "x" * 160 + '"}'
INSERT_JOBS = 5_000


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


async def preload(
    store: Store, due_ms: Sequence[int], target: Target, clock: Clock, randomness: Randomness, bar: Progress
) -> None:
    """Store one job per due time."""
    for start in range(0, len(due_ms), INSERT_JOBS):
        part = due_ms[start : start + INSERT_JOBS]
        await store.insert_jobs(make_jobs(part, target, clock, randomness))
        bar.update(len(part))
