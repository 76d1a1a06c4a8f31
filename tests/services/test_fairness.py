"""Lanes and tenants that share one process: whoever has little to run starts soon, whatever others do."""

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from tickwheel.domain.job import Lane
from tickwheel.domain.lanes import AGING_MS
from tickwheel.domain.outcome import OK
from tickwheel.ports.executor import Work
from tickwheel.ports.store import NewJob
from tickwheel.services.claim_preparation import BATCH_TIMERS, FEW_TIMERS
from tickwheel.services.scheduler import SchedulerSettings

from .world import World

RUN_MS = 100


def job_of(world: World, tenant_id: str, *, lane: Lane = Lane.DEFAULT, in_ms: int = 0) -> NewJob:
    new = world.job(in_ms=in_ms, lane=lane, handler="work")
    return replace(new, job=replace(new.job, tenant_id=tenant_id))


def started(world: World) -> Counter[str]:
    return Counter(call.work.tenant_id for call in world.calls)


@pytest.mark.pitfall(61)
@pytest.mark.parametrize(("slots", "bound_ms"), [(1, AGING_MS + 1_000), (3, AGING_MS + 1_000), (4, RUN_MS)])
async def test_a_low_run_starts_though_the_default_lane_keeps_all_slots_busy(slots: int, bound_ms: int) -> None:
    world = World(settings=SchedulerSettings(handler_slots=slots))
    world.behave = lambda work: None
    scheduler = await world.start()
    executor = world.executors[1]
    steady = [world.job(in_ms=n * RUN_MS // slots, handler="work") for n in range(slots * 200)]
    ahead = [world.job(handler="work") for _ in range(2 * slots)]
    await world.add(scheduler, *ahead, *steady)
    await world.clock.advance(1_000)
    low = world.job(handler="work", lane=Lane.LOW)
    low_ms = world.clock.now_ms()
    await world.add(scheduler, low)
    while not (late_ms := [c.started_ms - low_ms for c in world.calls if c.work.job_id == low.job.job_id]):
        assert world.clock.now_ms() - low_ms <= bound_ms, "LOW starves"
        for slot in list(executor.open):
            executor.finish(slot, OK)
        await world.clock.advance(RUN_MS)
    assert late_ms[0] <= bound_ms
    world.behave = lambda work: OK
    for slot in list(executor.open):
        executor.finish(slot, OK)
    await scheduler.drain(1_000)


async def test_a_tenant_whose_runs_hang_leaves_slots_to_the_others() -> None:
    world = World(settings=SchedulerSettings(handler_slots=64))

    def behave(work: Work) -> object:
        return None if work.tenant_id == "hangs" else OK

    world.behave = behave  # type: ignore[assignment]
    scheduler = await world.start()
    await world.add(scheduler, job_of(world, "first"), job_of(world, "hangs"))
    await world.clock.advance(100)
    await world.add(scheduler, *(job_of(world, "hangs") for _ in range(500)))
    await world.clock.advance(1_000)
    assert 30 < started(world)["hangs"] < 64 - 7 - 7 - 2, "it has 8/9 of the slots of its lane"
    for _ in range(20):
        await world.add(scheduler, *(job_of(world, f"small-{n}") for n in range(3)))
        await world.clock.advance(20)
    assert [started(world)[f"small-{n}"] for n in range(3)] == [20] * 3
    hanging = world.executors[1]
    world.behave = lambda work: OK
    for slot in list(hanging.open):
        hanging.finish(slot, OK)
    await world.clock.advance(5_000)
    assert started(world)["hangs"] == 501
    await scheduler.drain(0)


async def test_batches_are_small_while_a_light_tenant_waits_beside_a_heavy_one() -> None:
    world = World(settings=SchedulerSettings(handler_slots=5_000))
    sizes: list[int] = []
    original = world.memory.claim

    async def counting(batch: np.ndarray, now_ms: int, lease_ms: int, *, queued: bool = False) -> np.ndarray:
        sizes.append(len(batch))
        return await original(batch, now_ms, lease_ms, queued=queued)

    world.memory.claim = counting  # type: ignore[method-assign]
    scheduler = await world.start()
    await world.add(scheduler, *(job_of(world, "heavy", in_ms=100) for _ in range(3_000)))
    await world.clock.advance(1_000)
    assert max(sizes) == BATCH_TIMERS, "alone, nobody waits for a batch"
    sizes.clear()
    both = [*(job_of(world, "heavy", in_ms=100) for _ in range(3_000)), job_of(world, "light", in_ms=100)]
    await world.add(scheduler, *both)
    await world.clock.advance(1_000)
    assert started(world) == {"heavy": 6_000, "light": 1}
    assert sizes[0] == BATCH_TIMERS
    assert max(sizes[1:]) == FEW_TIMERS
    await scheduler.drain(0)
