"""Benchmarks through the front door: a server in its own process, jobs over HTTP, times noted by its handlers."""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.cpu import Cpu
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures, lateness_figures, rounded
from tickwheel.interfaces.bench.poster import handler_job, handler_jobs, post_all
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer, wait_until_quiet
from tickwheel.interfaces.bench.singles import post_singles
from tickwheel.interfaces.bench.workloads import PAYLOAD, sized_payload
from tickwheel.wiring import system_clock

HOUR_MS = 3_600_000
CONNECTIONS = 4
SLICE_MS = 100
LEAD_MS = 2_000
"""Jobs are created this long before they are due."""


def ingest(
    store: str,
    folder: Path,
    *,
    jobs: int,
    batch: int,
    payload_bytes: int,
    keys: bool,
    bar: Progress,
    processes: int = 1,
) -> Figures:
    """Batches over HTTP, each one durable commit, due in an hour; with `keys` each job has an idempotency key."""
    clock = system_clock()
    due_ms, payload = [clock.now_ms() + HOUR_MS] * batch, sized_payload(payload_bytes)

    def bodies(count: int) -> Iterable[bytes]:
        if not keys:
            return [handler_jobs("noop", due_ms, payload)] * count
        return (handler_jobs("noop", due_ms, payload, keys=f"{uuid4()}") for _ in range(count))

    with BenchServer(store, folder, processes=processes) as server:
        post_all(server.port, bodies(1), connections=1, on_sent=lambda count: None)
        cpu, began_ms = Cpu(store, server.cpu_ms), clock.monotonic_ms()
        created = post_all(
            server.port, bodies(jobs // batch), connections=CONNECTIONS * processes, on_sent=bar.update
        )
        took_ms, cpu_figures = clock.monotonic_ms() - began_ms, cpu.figures(max(1, created))
    if created != jobs // batch * batch:
        raise BenchFailed(f"{created} of {jobs} jobs were created")
    return {
        "jobs": created,
        "processes": processes,
        "batch": batch,
        "jobs_per_s": rounded(created / took_ms * 1000),
        **cpu_figures,
    }


def ingest_single(
    store: str, folder: Path, *, jobs: int, connections: int, bar: Progress, processes: int = 1
) -> Figures:
    """One job per request, each a durable commit of its own, from many connections that wait for their answers."""
    clock = system_clock()
    body = msgspec.json.encode(handler_job("noop", clock.now_ms() + HOUR_MS, PAYLOAD))
    with BenchServer(store, folder, processes=processes) as server:
        post_singles(server.port, body, jobs=connections, connections=connections, on_sent=lambda count: None)
        cpu, began_ms = Cpu(store, server.cpu_ms), clock.monotonic_ms()
        created = post_singles(server.port, body, jobs=jobs, connections=connections, on_sent=bar.update)
        took_ms, cpu_figures = clock.monotonic_ms() - began_ms, cpu.figures(jobs)
    if created != jobs:
        raise BenchFailed(f"{created} of {jobs} jobs were created")
    rate = rounded(created / took_ms * 1000)
    return {"jobs": created, "processes": processes, "connections": connections, "jobs_per_s": rate, **cpu_figures}


def lateness(
    store: str,
    folder: Path,
    *,
    rate: int,
    seconds: int,
    bar: Progress,
    connections: int = 1,
    processes: int = 1,
) -> Figures:
    """A steady rate of jobs, each created two seconds before it is due, to the commit of its completion."""
    clock = system_clock()
    with BenchServer(store, folder, processes=processes) as server:
        first_ms = clock.now_ms() + LEAD_MS + 500

        cpu = Cpu(store, server.cpu_ms)

        def bodies() -> Iterator[bytes]:
            waited = threading.Event()
            for number in range(seconds * 1000 // SLICE_MS):
                from_ms = first_ms + number * SLICE_MS
                due = (from_ms + np.arange(rate * SLICE_MS // 1000) * 1000 // rate).tolist()
                waited.wait(max(0, from_ms - LEAD_MS - clock.now_ms()) / 1000)
                yield handler_jobs("record", due, PAYLOAD)

        created = post_all(server.port, bodies(), connections=connections * processes, on_sent=bar.update)
        _wait(lambda: clock.now_ms() > first_ms + seconds * 1000)
        wait_until_quiet(*server.own_ports, ended=created)
        took_ms, cpu_figures = clock.now_ms() - first_ms, cpu.figures(max(1, created))
    lateness_ms = _lateness(server, created)
    per_s = rounded(created / took_ms * 1000)
    figures = lateness_figures(lateness_ms)
    return {"jobs": created, "processes": processes, "rate": rate, "runs_per_s": per_s, **figures, **cpu_figures}


def burst(store: str, folder: Path, *, jobs: int, bar: Progress) -> Figures:
    """Many jobs due in the same instant, created well before it."""
    clock, batch = system_clock(), min(jobs, 2_000)
    with BenchServer(store, folder) as server:
        due_ms = clock.now_ms() + 15_000 + jobs // 5
        body = handler_jobs("record", [due_ms] * batch, PAYLOAD)
        created = post_all(server.port, [body] * (jobs // batch), connections=CONNECTIONS, on_sent=bar.update)
        if clock.now_ms() > due_ms - 1_000:
            raise BenchFailed("the machine is too slow to create that many jobs ahead of time")
        _wait(lambda: clock.now_ms() > due_ms + 2_000)
        wait_until_quiet(server.port, ended=created)
    lateness_ms = _lateness(server, created)
    drained_ms = max(1, int(lateness_ms.max()))
    rate = rounded(created / drained_ms * 1000)
    return {"jobs": created, **lateness_figures(lateness_ms), "drained_ms": drained_ms, "runs_per_s": rate}


def _lateness(server: BenchServer, created: int) -> Ints:
    scheduled_ms, called_ms = server.calls()
    if len(called_ms) != created:
        raise BenchFailed(f"{created} jobs were created and {len(called_ms)} calls were made")
    difference: Ints = called_ms - scheduled_ms
    return difference


def _wait(over: Callable[[], bool]) -> None:
    waited = threading.Event()
    while not over():
        waited.wait(0.05)
