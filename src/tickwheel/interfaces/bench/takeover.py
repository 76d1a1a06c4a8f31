"""With an hour full of timers: how soon a killed node's shards fire on time again, and how soon a start fires.

Two nodes on PostgreSQL hold about half of the timers each, and fire a steady rate of webhooks besides. One gets
kill -9. *On time again*: per shard that it held, from the kill to the first webhook that comes no later than those
before the kill did. Then all is stopped, and one server starts on the same store. On SQLite there is only the
start.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.arrivals import LATE_MS, Arrivals, Fault
from tickwheel.interfaces.bench.detailed_sink import COLUMNS
from tickwheel.interfaces.bench.nodes import Nodes
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures
from tickwheel.interfaces.bench.process import ARMED, gauge, wait_until
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.startup import store_hour, time_start
from tickwheel.interfaces.bench.traffic import LEAD_MS, Created, Traffic
from tickwheel.interfaces.bench.webhooks import Sink
from tickwheel.ports.clock import Clock
from tickwheel.wiring import is_shared, system_clock

SETTLE_S: Final = 5.0
AFTER_S: Final = 2 * LEAD_MS / 1000
"""So long after the kill, jobs are created: the node that is left gives them ids in the shards that it took."""
CALM_SHARE: Final = 99
BEFORE_MS: Final = 500
"""What is due so shortly before the kill may have met it."""
LEAST_PART: Final = 0.3
"""Of all shards, two nodes have about half each: by chance rarely less than four tenths."""


async def takeover(
    store: str, folder: Path, *, jobs: int, rate: int, bar: Progress, settle_s: float = SETTLE_S
) -> Figures:
    """`jobs` timers in the coming hour; on PostgreSQL a node is killed, `settle_s` after both stand."""
    loaded = await store_hour(store, jobs, bar)
    figures: Figures = {"jobs": jobs, "load_s": round(loaded.took_ms / 1000, 1)}
    if is_shared(store):
        figures |= _kill_one(store, folder, jobs, rate, settle_s)
    return {**figures, **await time_start(store, folder, armed=jobs)}


def _kill_one(store: str, folder: Path, jobs: int, rate: int, settle_s: float) -> Figures:
    clock, sink = system_clock(), Sink(folder, "detailed_sink", COLUMNS)
    try:
        with Nodes(store, folder, 2, fault="kill") as nodes:
            ports = [server.port for server in nodes.servers]
            wait_until(lambda: _share_timers(ports, jobs), "the nodes did not share the timers")
            traffic = Traffic(ports, sink.endpoint, rate, clock)
            traffic.start()
            try:
                _wait(LEAD_MS / 1000 + settle_s)
                traffic.leave(0)
                at_ms = clock.now_ms()
                nodes.break_one(0)
                armed_ms = _time_arming(ports[1], jobs, clock) - at_ms
                _wait(AFTER_S)
            finally:
                traffic.end()
            _wait(LEAD_MS / 1000 + 1)
            wait_until(lambda: gauge(ports[1], ARMED) <= jobs, "webhooks were still waiting")
    finally:
        rows = sink.received()
    fault = Fault(0, at_ms, at_ms + LEAD_MS, slow_due_ms=0)
    return {**_figures(traffic, fault, rows), "all_armed_ms": armed_ms}


def _figures(traffic: Traffic, fault: Fault, rows: Ints) -> Figures:
    arrivals, lost = Arrivals(rows), 0
    for one in traffic.created:
        lost += int((arrivals.first_ms(np.array(one.keys, np.int64)) < 0).sum())
    lost += int((arrivals.first_ms(np.array(traffic.late_keys, np.int64)) < 0).sum())
    if lost or arrivals.early:
        raise BenchFailed(f"{lost} acknowledged jobs never arrived, {arrivals.early} came early")
    if traffic.failures:
        raise BenchFailed(f"a request to the other node failed: {traffic.failures[0]}")
    keys, shards, due_ms = (np.concatenate(column) for column in zip(*map(_columns, traffic.created), strict=True))
    mine = _columns(traffic.created[fault.node])
    of_killed = np.isin(shards, mine[1])
    calm = due_ms < fault.at_ms - BEFORE_MS
    if not calm.any():
        raise BenchFailed("nothing came before the kill")
    usual_ms = int(np.percentile((arrivals.first_ms(keys) - due_ms)[calm], CALM_SHARE))
    again = arrivals.punctual_again_ms(
        fault.at_ms, max(LATE_MS, usual_ms), keys[of_killed], shards[of_killed], due_ms[of_killed]
    )
    effect = arrivals.effect(fault, *mine)
    if not (again >= 0).any():
        raise BenchFailed(
            f"no shard of the killed node was on time again; the longest wait was {effect.gap_ms} ms"
        )
    return {
        "webhooks": len(rows),
        "killed_shards": len(again),
        "calm_late_p99_ms": usual_ms,
        "resumed_ms": effect.resumed_ms,
        "gap_ms": effect.gap_ms,
        "on_time_first_ms": int(again[again >= 0].min()),
        "on_time_p50_ms": int(np.median(again[again >= 0])),
        "on_time_all_ms": int(again[again >= 0].max()),
        "shards_not_on_time": int((again < 0).sum()),
    }


def _columns(created: Created) -> tuple[Ints, Ints, Ints]:
    columns = created.keys, created.shards, created.due_ms
    keys, shards, due_ms = (np.array(values, np.int64) for values in columns)
    return keys, shards, due_ms


def _share_timers(ports: Sequence[int], jobs: int) -> bool:
    """Both hold their part, and together all. (What a node gave away stays in its wheel until it is due.)"""
    armed = [gauge(port, ARMED) for port in ports]
    return sum(armed) >= jobs and min(armed) >= jobs * LEAST_PART


def _time_arming(port: int, jobs: int, clock: Clock) -> int:
    """When the node that is left holds all timers."""
    wait_until(lambda: gauge(port, ARMED) >= jobs, "the other node did not arm all timers")
    return clock.now_ms()


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
