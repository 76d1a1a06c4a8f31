"""Benchmarks of the firing side alone, in this process: due timers to claims, claims to completions."""

from collections.abc import Callable, Sequence

from tickwheel.config import Settings
from tickwheel.domain.job import Target, TargetType
from tickwheel.interfaces.bench.cpu import Cpu
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures, rounded
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.workloads import handler_target, preload
from tickwheel.ports.clock import Clock
from tickwheel.ports.executor import Work
from tickwheel.wiring import (
    is_shared,
    open_any_store,
    open_node,
    start_with_unlimited_credits,
    system_clock,
    system_randomness,
)

CHECK_MS = 50
LIMIT_S = 600
OVERDUE_MS = 5_000
SLOTS = 4_096
"""Handlers that do nothing: as many at a time as a claim can use."""


class Sink:
    """An executor that takes everything and never ends: what is measured is the way up to it."""

    def __init__(self) -> None:
        self.taken = 0

    def start(self, works: Sequence[Work]) -> None:
        self.taken += len(works)

    def cancel(self, slots: Sequence[int]) -> None:
        """Nothing runs here."""

    async def aclose(self, grace_ms: int) -> None:
        """Nothing to wait for."""


async def store_jobs(store_url: str, due_ms: Sequence[int], target: Target, bar: Progress) -> float:
    """Store one job per due time; gives jobs/s."""
    clock, randomness = system_clock(), system_randomness()
    store = await open_any_store(store_url, clock)
    try:
        began_ms = clock.monotonic_ms()
        await preload(store, due_ms, target, clock, randomness, bar)
        return len(due_ms) / max(1, clock.monotonic_ms() - began_ms) * 1000
    finally:
        await store.aclose()


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
    preloaded_per_s = await store_jobs(store_url, _overdue(count), handler_target("noop"), bar)
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
        "preloaded_jobs_per_s": rounded(preloaded_per_s),
    }


async def trigger(store_url: str, count: int, bar: Progress) -> Figures:
    """Due timers to committed claims, into a sink that takes everything."""
    target = Target(type=TargetType.HTTP_WEBHOOK, endpoint="http://sink/")
    preloaded_per_s = await store_jobs(store_url, _overdue(count), target, bar)
    clock = system_clock()
    store = await open_any_store(store_url, clock)
    sink = Sink()
    cpu = Cpu(store_url, clock.cpu_ms)
    began_ms = clock.monotonic_ms()
    scheduler = await start_with_unlimited_credits(store, clock, lambda report: sink, slots=count * 2)
    await _until(lambda: sink.taken, count, clock, bar)
    took_ms = clock.monotonic_ms() - began_ms
    cpu_figures = cpu.figures(count)
    await scheduler.drain(0)
    await store.aclose()
    if sink.taken != count:
        raise BenchFailed(f"{sink.taken} of {count} timers were claimed")
    return {
        "timers": count,
        "triggers_per_s": rounded(count / took_ms * 1000),
        **cpu_figures,
        "preloaded_jobs_per_s": rounded(preloaded_per_s),
    }
