"""What is known of a store that takes no writes, though a small one may still go through."""

import asyncio

import pytest

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.adapters.telemetry.store_calls import StoreCalls
from tickwheel.domain.columns import COMPLETION, empty
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.ports.events import StoreRefusing
from tickwheel.services.store_writes import CALM_MS, QUIET_MS, StoreWrites
from tickwheel.testing.faulty_store import FaultPlan, FaultyStore
from tickwheel.testing.virtual_clock import VirtualClock
from tickwheel.wiring.measured_store import measured

from .world import Events, World

FULL = StoreUnavailable("the disk is full")


def watched(clock: VirtualClock) -> tuple[StoreWrites, Events]:
    writes, told = StoreWrites(clock), Events()
    writes.tell(told)
    return writes, told


async def test_it_is_told_once_when_it_begins_and_once_when_it_is_over() -> None:
    clock = VirtualClock()
    writes, told = watched(clock)
    writes.taken()
    writes.refused(FULL)
    await clock.advance(3_000)
    writes.refused(StoreUnavailable("still"))
    await clock.advance(CALM_MS - 1)
    writes.taken()
    assert writes.refusal == "the disk is full"  # a small one may fit where large ones don't
    await clock.advance(1)
    writes.taken()
    writes.taken()
    assert writes.refusal == ""
    assert told.seen == [
        StoreRefusing(refuses=True, error="the disk is full"),
        StoreRefusing(refuses=False, after_ms=3_000 + CALM_MS),
    ]


async def test_where_nobody_writes_the_check_says_when_it_is_over() -> None:
    clock = VirtualClock()
    writes, _ = watched(clock)
    checks, is_full = list[int](), True

    async def check() -> None:
        checks.append(clock.now_ms())
        if is_full:
            raise FULL

    running = asyncio.create_task(writes.run(check))
    writes.refused(FULL)
    await clock.advance(QUIET_MS - 1_000)
    assert not checks
    await clock.advance(2_000)
    assert checks
    assert writes.refusal
    is_full = False
    await clock.advance(QUIET_MS + 2_000)
    assert writes.refusal == ""
    before = len(checks)
    await clock.advance(60_000)
    assert len(checks) == before
    running.cancel()


async def test_writes_of_jobs_claims_and_ends_are_what_counts() -> None:
    clock = VirtualClock()
    writes, _ = watched(clock)
    faulty = FaultyStore(MemoryStore(clock), FaultPlan(seed=1, refuse_rate=1.0, lose_answer_rate=0.0))
    store = measured(faulty, StoreCalls(Metrics()), clock, writes)
    job = World(clock=clock).job()
    with pytest.raises(StoreUnavailable):
        await store.insert_jobs([job])
    assert writes.refusal
    faulty.healed = True
    await clock.advance(CALM_MS)
    await store.check()
    await store.complete(empty(COMPLETION), {})
    assert writes.refusal  # neither of them wrote anything to speak of
    await store.insert_jobs([job])
    assert writes.refusal == ""
