"""How many workers are needed: what is measured, and what follows."""

import numpy as np
import pytest

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.columns import TIMER, Rows
from tickwheel.domain.job import Lane
from tickwheel.domain.scaling import LaneLoad, needed_slots, needed_workers, sum_loads
from tickwheel.ports.workers import WorkerNote, WorkerState
from tickwheel.services.load import Arrivals, Demand, SessionReading
from tickwheel.services.ownership.unresolved import Unserved
from tickwheel.testing.virtual_clock import START_MS, VirtualClock

BUSY = LaneLoad(backlog=4_000, arrivals_per_kilosecond=20_000, oldest_due_ms=START_MS - 9_000)
IDLE = LaneLoad()


def timers(count: int, due_ms: int, lane: Lane = Lane.DEFAULT) -> Rows:
    rows = np.zeros(count, dtype=TIMER)
    rows["due_ms"], rows["flags"] = due_ms, lane
    return rows


def worker(name: str = "w", **note: object) -> WorkerState:
    return WorkerState(name, WorkerNote(**note), START_MS, START_MS)  # type: ignore[arg-type]


def demand(clock: VirtualClock, *owners: list[LaneLoad], states: list[WorkerState]) -> Demand:
    return Demand(loads=lambda: owners, states=lambda: states, clock=clock)


def test_the_example_of_the_docs() -> None:
    assert needed_slots(BUSY, 300, 60) == pytest.approx(26)
    assert needed_slots(LaneLoad(arrivals_per_kilosecond=20_000), 300, 60) == pytest.approx(6)
    assert (needed_workers(26, 8), needed_workers(6, 8), needed_workers(0, 8)) == (4, 1, 0)
    assert needed_workers(24 + 1e-12, 8) == 3
    assert needed_workers(0.001, 8) == 1


def test_the_need_is_summed_over_owners_and_lanes() -> None:
    clock = VirtualClock()
    states = [worker(slots=8, busy=8, run_ms=300), worker(slots=8, busy=2, run_ms=300)]
    one = [IDLE, IDLE, LaneLoad(1_000, 5_000, START_MS - 2_000), IDLE]
    other = [LaneLoad(10, 0, START_MS - 500), IDLE, LaneLoad(3_000, 15_000, START_MS - 9_000), IDLE]
    need = demand(clock, one, other, states=states).need(60)
    assert [lane.backlog for lane in need.lanes] == [10, 0, 4_000, 0]
    assert need.lanes[Lane.DEFAULT].needed_slots == 26
    assert need.lanes[Lane.DEFAULT].oldest_due_age_ms == 9_000
    assert (need.lanes[Lane.CRITICAL].needed_workers, need.lanes[Lane.CRITICAL].oldest_due_age_ms) == (1, 500)
    assert need.lanes[Lane.LOW].needed_workers == need.lanes[Lane.LOW].oldest_due_age_ms == 0
    assert (need.all.backlog, need.all.needed_workers, need.all.oldest_due_age_ms) == (4_010, 4, 9_000)
    assert (need.workers, need.slots, need.busy, need.slots_per_worker) == (2, 16, 10, 8)


def test_without_workers_there_are_defaults_and_what_was_known_last() -> None:
    states: list[WorkerState] = []
    asked = demand(VirtualClock(), [IDLE, IDLE, BUSY, IDLE], states=states)
    need = asked.need(60)
    assert (need.mean_run_ms, need.slots_per_worker, need.all.needed_workers) == (1_000, 10, 9)
    states.append(worker(slots=4, run_ms=300))
    assert (asked.need(60).mean_run_ms, asked.need(60).all.needed_workers) == (300, 7)
    states.clear()
    assert (asked.need(60, 8).mean_run_ms, asked.need(60, 8).all.needed_workers) == (300, 4)


async def test_where_no_owner_is_known_nobody_knows_the_need() -> None:
    """An autoscaler would take "nothing waits" at its word, and stop all workers."""
    clock = VirtualClock()
    assert not await demand(clock, states=[]).look()
    assert not await demand(clock, [], states=[]).look(), "a node that fires nothing has no lanes"
    assert await demand(clock, [], [IDLE] * 4, states=[]).look()


async def test_sessions_are_read_when_somebody_asks_and_once_a_second_at_most() -> None:
    clock = VirtualClock()
    store = MemoryStore(clock)
    reading = SessionReading(store, clock)
    asked = Demand(loads=lambda: [[IDLE] * 4], states=lambda: reading.states, clock=clock, refresh=reading.refresh)
    await store.enlist_worker("w-1", WorkerNote(slots=8))
    assert asked.need(60).workers == 0
    await asked.look()
    await store.enlist_worker("w-2", WorkerNote(slots=8))
    await clock.advance(900)
    await asked.look()
    assert asked.need(60).workers == 1
    await clock.advance(100)
    await asked.look()
    assert asked.need(60).workers == 2


def test_workers_of_a_tenant_count_for_nobody_else() -> None:
    own = worker("own", slots=100, busy=100, run_ms=9_000, tenant_id="acme")
    states = [worker(slots=8, busy=2, run_ms=300), own]
    need = demand(VirtualClock(), [IDLE, IDLE, BUSY, IDLE], states=states).need(60)
    assert (need.workers, need.slots, need.busy, need.slots_per_worker, need.mean_run_ms) == (1, 8, 2, 8, 300)
    assert need.all.needed_workers == 4


def test_what_runs_keeps_its_workers() -> None:
    states = [worker(slots=2, busy=2, run_ms=600_000), worker(slots=2, busy=1, run_ms=600_000)]
    need = demand(VirtualClock(), [IDLE] * 4, states=states).need(60)
    assert (need.all.needed_slots, need.all.needed_workers) == (3, 2)
    states[:] = [worker(slots=2)]
    assert demand(VirtualClock(), [IDLE] * 4, states=states).need(60).all.needed_workers == 0


def test_a_node_of_another_version_may_say_more_lanes_or_none() -> None:
    assert sum_loads([[], [BUSY] * 9]) == [BUSY] * 4


async def test_arrivals_are_counted_over_a_minute() -> None:
    clock = VirtualClock()
    arrivals = Arrivals(clock)
    for _ in range(300):
        arrivals.note(timers(10, clock.now_ms()))
        arrivals.note(timers(1, clock.now_ms(), Lane.LOW))
        clock.step_ms(1_000)
    default, low = arrivals.per_kilosecond()[Lane.DEFAULT], arrivals.per_kilosecond()[Lane.LOW]
    assert 9_000 <= default <= 11_000
    assert 900 <= low <= 1_100
    assert arrivals.totals == [0, 0, 3_000, 300]
    clock.step_ms(61_000)
    assert arrivals.per_kilosecond() == [0, 0, 0, 0]


async def test_what_was_due_long_ago_arrived_long_ago() -> None:
    clock = VirtualClock()
    arrivals = Arrivals(clock)
    arrivals.note(timers(1_000, clock.now_ms() - 60_000))
    assert arrivals.totals == [0, 0, 0, 0]


def test_what_nobody_serves_is_counted_until_it_is_served() -> None:
    clock, unserved = VirtualClock(), Unserved()
    unserved.on_dropped = Arrivals(clock).note
    unserved.note(timers(7, START_MS, Lane.HIGH))
    assert unserved.counts() == [0, 7, 0, 0]
    clock.step_ms(6_000)
    for _ in range(3):
        unserved.note(timers(7, START_MS, Lane.HIGH))  # each pass meets them again
        assert unserved.counts() == [0, 7, 0, 0]
        unserved.end_pass()
        assert unserved.counts() == [0, 7, 0, 0]
    unserved.note(timers(2, clock.now_ms(), Lane.HIGH))
    assert unserved.counts() == [0, 9, 0, 0]
    unserved.end_pass()
    unserved.end_pass()
    assert (unserved.counts(), unserved.lowest_due_ms()) == ([0, 0, 0, 0], None)
    unserved.note(timers(7, START_MS, Lane.HIGH))
    unserved.count_anew()
    assert unserved.counts() == [0, 0, 0, 0]
