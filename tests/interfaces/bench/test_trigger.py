"""The trigger benchmark measures claims and nothing else, and finds out when a result is not what it should be."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from tickwheel.domain.columns import Bools, Rows
from tickwheel.domain.run import RunState
from tickwheel.interfaces.bench import inprocess
from tickwheel.interfaces.bench import plane as plane_module
from tickwheel.interfaces.bench.outcome import BenchFailed
from tickwheel.interfaces.bench.plane import Plane
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Run, Store
from tickwheel.services.heartbeats import RUNNING_AFTER_MS
from tickwheel.wiring import open_any_store, system_clock

COUNT = 300


class Bar:
    def __init__(self) -> None:
        self.steps = 0

    def update(self, n_steps: int) -> None:
        self.steps += n_steps


@pytest.fixture
def clock() -> Clock:
    return system_clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    store = await open_any_store(f"sqlite:{tmp_path / 'store'}", clock)
    yield store
    await store.aclose()


async def fire(plane: Plane, count: int) -> None:
    await plane.until_loaded()
    await plane.insert([plane.clock.now_ms()] * count)
    await plane.until_taken(count, Bar())


async def test_a_claim_is_the_only_write_of_a_run(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts that never end would be marked RUNNING, and renewed."""

    async def renew(batch: Rows) -> Bools:
        raise AssertionError("a lease was renewed")

    monkeypatch.setattr(store, "renew", renew)
    plane = await Plane.open(store, clock)
    try:
        await fire(plane, COUNT)
        await clock.sleep_ms(2 * RUNNING_AFTER_MS)
        await plane.check(COUNT)
        assert not any(len(pool.inflight) or sum(pool.slots.used) for pool in plane.side.pools)
    finally:
        await plane.side.drain(0)


async def test_a_run_too_few_is_found(store: Store, clock: Clock) -> None:
    plane = await Plane.open(store, clock)
    try:
        await fire(plane, COUNT)
        with pytest.raises(BenchFailed, match=r"301 timers gave 300 runs; claims: 300 WON\."):
            await plane.check(COUNT + 1)
    finally:
        await plane.side.drain(0)


async def test_a_run_that_was_written_again_is_found(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = store.find_runs

    async def find_running(keys: Sequence[tuple[bytes, int]]) -> Sequence[Run | None]:
        return [run and msgspec.structs.replace(run, state=RunState.RUNNING) for run in await find(keys)]

    plane = await Plane.open(store, clock)
    try:
        await fire(plane, COUNT)
        monkeypatch.setattr(store, "find_runs", find_running)
        with pytest.raises(BenchFailed, match="the ledger does not hold the claim"):
            await plane.check(COUNT)
    finally:
        await plane.side.drain(0)


async def test_overdue_timers_count_from_the_start(tmp_path: Path) -> None:
    bar = Bar()
    figures = await inprocess.trigger(f"sqlite:{tmp_path / 'store'}", COUNT, 0, bar)
    assert figures["timers"] == COUNT
    assert figures["rate"] == 0
    assert bar.steps == 2 * COUNT
    assert 0 <= float(figures["late_max_ms"]) < inprocess.OVERDUE_MS
    assert {"triggers_per_s", "late_p50_ms", "late_p99_ms", "cpu_s_per_1k", "load_s"} <= figures.keys()


async def test_timers_over_seconds_are_fired_at_their_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for the first of them is no stall."""
    monkeypatch.setattr(plane_module, "STALL_MS", inprocess.LEAD_MS // 3)
    figures = await inprocess.trigger(f"sqlite:{tmp_path / 'store'}", COUNT, 1, Bar())
    assert figures["rate"] == COUNT
    assert 0 < float(figures["triggers_per_s"]) <= COUNT * 1.1


async def test_timers_that_came_due_while_they_were_loaded_make_it_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inprocess, "LEAD_MS", -1_000)
    with pytest.raises(BenchFailed, match="loading took"):
        await inprocess.trigger(f"sqlite:{tmp_path / 'store'}", COUNT, 1, Bar())
