"""How long shards stand still when their node is killed, frozen, cut off from the store, or stopped as planned.

Nodes on one PostgreSQL fire a steady rate of webhooks. Again and again one of them is broken; what the receiver
noted tells how late the runs of its shards came (see `arrivals`). Clients speak to the other nodes meanwhile: not
one of their requests may fail. At the end every acknowledged job must have arrived.
"""

import threading
from pathlib import Path
from typing import Final

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.arrivals import Arrivals, Fault
from tickwheel.interfaces.bench.detailed_sink import COLUMNS
from tickwheel.interfaces.bench.nodes import Nodes
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures, lateness_figures
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import wait_until_quiet
from tickwheel.interfaces.bench.traffic import LEAD_MS, Traffic
from tickwheel.interfaces.bench.webhooks import Sink
from tickwheel.ports.clock import Clock
from tickwheel.wiring import system_clock

SETTLE_S: Final = 5.0
"""Before each fault: shards have found their places, and jobs are due all over them."""
BROKEN_S: Final = 3.5
SLOW_RUNS: Final = 20
SLOW_AHEAD_MS: Final = 1_000
LATE_SHARE: Final = 0.05
"""So many jobs may be acknowledged too late to be measured, on a machine that is busy."""


def failover(
    store: str,
    folder: Path,
    *,
    fault: str,
    times: int,
    rate: int,
    nodes: int,
    bar: Progress,
    settle_s: float = SETTLE_S,
    nodes_type: type[Nodes] = Nodes,
) -> Figures:
    """Break one of `nodes` nodes `times` times, in turn, each time after `settle_s`.

    `nodes_type` may break something else with them.
    """
    if not store.startswith(("postgresql:", "postgres:")):
        raise BenchFailed(
            "it needs nodes that share a store: give it an empty database by --store postgresql://..."
        )
    clock, sink = system_clock(), Sink(folder, "detailed_sink", COLUMNS)
    faults: list[Fault] = []
    try:
        with nodes_type(store, folder, nodes, fault=fault) as cluster:
            traffic = Traffic([server.port for server in cluster.servers], sink.endpoint, rate, clock)
            traffic.start()
            try:
                for number in range(times):
                    _wait(settle_s)
                    faults.append(_break_once(cluster, traffic, clock, number % nodes, slow=fault == "kill"))
                    bar.update(1)
            finally:
                traffic.end()
            _wait(LEAD_MS / 1000 + 1)
            for server in cluster.servers:
                wait_until_quiet(server.port)
    finally:
        rows = sink.received()
    return _figures(traffic, faults, rows)


def _break_once(cluster: Nodes, traffic: Traffic, clock: Clock, node: int, *, slow: bool) -> Fault:
    slow_due_ms = clock.now_ms() + SLOW_AHEAD_MS if slow else 0
    if slow:
        traffic.create(node, "/slow", [slow_due_ms] * SLOW_RUNS)
    _wait(2 * SLOW_AHEAD_MS / 1000)
    traffic.leave(node)
    at_ms = clock.now_ms()
    cluster.break_one(node)
    _wait(BROKEN_S)
    cluster.mend(node)
    traffic.return_to(node)
    return Fault(node, at_ms, at_ms + LEAD_MS, slow_due_ms)


def _figures(traffic: Traffic, faults: list[Fault], rows: Ints) -> Figures:
    arrivals = Arrivals(rows)
    created = [
        (np.array(one.keys, np.int64), np.array(one.shards, np.int64), np.array(one.due_ms, np.int64))
        for one in traffic.created
    ]
    keys, due_ms = (np.concatenate([one[at] for one in created]) for at in (0, 2))
    first_ms = arrivals.first_ms(keys)
    late_ms = arrivals.first_ms(np.array(traffic.late_keys, np.int64))
    _check(traffic, arrivals, int((first_ms < 0).sum() + (late_ms < 0).sum()), len(keys))
    calm = np.ones(len(keys), dtype=bool)
    for fault in faults:
        calm &= (due_ms < fault.at_ms) | (due_ms > fault.until_ms)
    effects = [arrivals.effect(fault, *created[fault.node]) for fault in faults]
    bystanders = [
        arrivals.effect(fault, *created[node]).gap_ms
        for fault in faults
        for node in range(len(created))
        if node != fault.node
    ]
    figures = lateness_figures((first_ms - due_ms)[calm])
    return {
        "faults": len(faults),
        "jobs": len(keys),
        "created_late": len(traffic.late_keys),
        "lost": 0,
        "requests": traffic.requests,
        "failed_requests": len(traffic.failures),
        **_middle_and_worst("gap", [effect.gap_ms for effect in effects]),
        **_middle_and_worst("resumed", [effect.resumed_ms for effect in effects]),
        **_middle_and_worst("rerun", [effect.rerun_ms for effect in effects]),
        "bystanders_worst_ms": max(bystanders),
        "all_gaps_ms": " ".join(str(effect.gap_ms) for effect in effects),
        **{f"calm_{name}": value for name, value in figures.items()},
        "first_failure": traffic.failures[0] if traffic.failures else "",
    }


def _check(traffic: Traffic, arrivals: Arrivals, lost: int, measured: int) -> None:
    if lost:
        raise BenchFailed(f"{lost} acknowledged jobs never arrived")
    if arrivals.early:
        raise BenchFailed(f"{arrivals.early} webhooks came early")
    if len(traffic.late_keys) > measured * LATE_SHARE:
        raise BenchFailed(f"{len(traffic.late_keys)} jobs were created too late: the machine is too slow")


def _middle_and_worst(name: str, values: list[int]) -> Figures:
    seen = [value for value in values if value >= 0]
    if not seen:
        return {}
    return {f"{name}_median_ms": round(float(np.median(seen))), f"{name}_worst_ms": max(seen)}


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
