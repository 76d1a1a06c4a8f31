"""Benchmarks of the firing side alone, in this process: due timers to claims, claims to completions."""

from collections.abc import Callable

import numpy as np

from tickwheel.config import Settings
from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.cpu import Cpu
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures, lateness_figures, rounded
from tickwheel.interfaces.bench.plane import SINK_TARGET, Plane
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.workloads import (
    foresee_ms,
    handler_target,
    open_roomy_store,
    preload,
    store_jobs,
)
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Store
from tickwheel.wiring import is_shared, open_node, system_clock, system_randomness

CHECK_MS = 50
LIMIT_S = 600
OVERDUE_MS = 5_000
SLOTS = 4_096
"""Handlers that do nothing: as many at a time as a claim can use."""
LOAD_MARGIN = 1.5
LEAD_MS = 3_000
ARMED_PER_MS = 100
"""Timers are read and armed several times as fast, on a quiet machine."""


def _overdue(count: int) -> list[int]:
    """Due times of the last seconds, ascending."""
    now_ms = system_clock().now_ms()
    return [now_ms - OVERDUE_MS + number * OVERDUE_MS // count for number in range(count)]


async def _until(done: Callable[[], int], wanted: int, clock: Clock, bar: Progress) -> None:
    """Wait until `done` has come to `wanted`; give up after a while (the caller checks)."""
    shown, began_ms = 0, clock.monotonic_ms()
    while shown < wanted and clock.monotonic_ms() - began_ms < LIMIT_S * 1000:
        await clock.sleep_ms(CHECK_MS)
        reached = done()
        bar.update(reached - shown)
        shown = reached


async def throughput(store_url: str, count: int, bar: Progress) -> Figures:
    """Drain `count` due runs of a no-op handler: claim, call, commit. Rows and timelines are kept."""
    loaded = await store_jobs(store_url, _overdue(count), handler_target("noop"), bar)
    app = "tickwheel.interfaces.bench.recording:handlers"
    settings = Settings(store=store_url, app=app, handler_slots=SLOTS, log_level="warning")
    node = await open_node(settings)
    cpu = Cpu(store_url, node.machine.cpu_ms)
    began_ms = node.clock.monotonic_ms()
    await node.start()
    await _until(lambda: node.metrics.ended_count, count, node.clock, bar)
    took_ms = node.clock.monotonic_ms() - began_ms
    cpu_figures = cpu.figures(count)
    succeeded = node.metrics.state_count("SUCCEEDED")
    left = 0 if is_shared(store_url) else (await node.store.counts()).waiting
    await node.stop()
    if succeeded != count or left:
        raise BenchFailed(f"{succeeded} of {count} runs succeeded and {left} timers are left")
    return {
        "runs": count,
        "runs_per_s": rounded(count / took_ms * 1000),
        **cpu_figures,
        "preloaded_jobs_per_s": rounded(loaded.per_s),
    }


async def trigger(store_url: str, count: int, seconds: int, bar: Progress) -> Figures:
    """Due timers to committed claims, into a sink with unlimited credits.

    `seconds` spreads the due instants evenly, from when all is stored and armed; 0: all are overdue at the start.
    """
    clock = system_clock()
    store = await open_roomy_store(store_url, clock)
    try:
        due_ms = await _due_instants(store, clock, count, seconds, bar)
        loaded = await preload(store, due_ms, SINK_TARGET, clock, system_randomness(), bar)
        cpu, began_ms = Cpu(store_url, clock.cpu_ms), clock.now_ms()
        plane = await Plane.open(store, clock)
    except BaseException:
        await store.aclose()
        raise
    try:
        if seconds:
            await _until_armed(plane, count, int(due_ms[0]))
            began_ms = int(due_ms[0])
        await plane.until_taken(count, bar)
        cpu_figures = cpu.figures(count)
        await plane.check(count)
    finally:
        await plane.aclose()
    return {
        "timers": count,
        "rate": rounded(count / seconds) if seconds else 0,
        "triggers_per_s": rounded(count / max(1, plane.last_ms - began_ms) * 1000),
        **lateness_figures(plane.lateness_ms(began_ms=began_ms)),
        **cpu_figures,
        "load_s": rounded(loaded.took_ms / 1000),
        "preloaded_jobs_per_s": rounded(loaded.per_s),
    }


async def _due_instants(store: Store, clock: Clock, count: int, seconds: int, bar: Progress) -> Ints:
    if not seconds:
        return np.array(_overdue(count), np.int64)
    foreseen_ms = await foresee_ms(store, count, SINK_TARGET, clock, bar)
    first_ms = clock.now_ms() + int(foreseen_ms * LOAD_MARGIN) + LEAD_MS + count // ARMED_PER_MS
    due_ms: Ints = first_ms + np.arange(count, dtype=np.int64) * (seconds * 1000) // count
    return due_ms


async def _until_armed(plane: Plane, count: int, first_ms: int) -> None:
    while len(plane.side.wheel) < count and plane.clock.now_ms() < first_ms:
        await plane.clock.sleep_ms(CHECK_MS)
    if plane.clock.now_ms() >= first_ms:
        raise BenchFailed(
            "loading took so much longer than the first jobs promised that timers were due meanwhile"
        )
    await plane.clock.sleep_ms(first_ms - plane.clock.now_ms())
