"""How late the runs of nine small tenants start alone, and beside a tenant with a flood of due runs.

The flood is stored before the server starts, due at one instant; the nine run alone until then, and beside the
flood from then on, on the same server.
"""

import threading
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from tickwheel.domain.job import Lane
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures
from tickwheel.interfaces.bench.process import ARMED, gauge, wait_until
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer, wait_until_quiet
from tickwheel.interfaces.bench.streams import LEAD_MS, TAGS, Called, Stream, p99, post_streams
from tickwheel.interfaces.bench.workloads import handler_target, open_roomy_store, preload
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import NewJob
from tickwheel.wiring import system_clock, system_randomness

APP: Final = "tickwheel.interfaces.bench.tagged:handlers"
SMALL_TENANTS: Final = 9
FLOOD: Final = 0
ALONE, BESIDE, FIRST = 0, 1, 99
STORED_PER_MS: Final = 10
"""Jobs are stored several times as fast, on a quiet machine."""
START_MS: Final = 10_000
SETTLE_MS: Final = 2_000


async def fairness(store: str, folder: Path, *, jobs: int, rate: int, seconds: int, bar: Progress) -> Figures:
    """`jobs` runs of one tenant are due at once; nine others have `rate` runs per second each."""
    clock = system_clock()
    flood_ms = clock.now_ms() + jobs // STORED_PER_MS + START_MS + (seconds + 2) * 1000 + 2 * SETTLE_MS
    await _store_flood(store, jobs, flood_ms, clock, bar)
    streams = [Stream(n + 1, f"small-{n + 1}", "DEFAULT", rate) for n in range(SMALL_TENANTS)]
    with BenchServer(store, folder, app=APP) as server:
        wait_until(lambda: gauge(server.port, ARMED) >= jobs, "the server did not arm the flood")
        first_ms = flood_ms - (seconds + 2) * 1000 - SETTLE_MS
        if clock.now_ms() > first_ms - LEAD_MS:
            raise BenchFailed("storing and arming the flood took so long that it is due already; try fewer --jobs")
        created = jobs + post_streams(server.port, streams, first_ms, 2, FIRST, clock, bar)
        created += post_streams(server.port, streams, first_ms + 2_000, seconds, ALONE, clock, bar)
        created += post_streams(server.port, streams, flood_ms, seconds, BESIDE, clock, bar)
        threading.Event().wait(max(0, flood_ms + seconds * 1000 - clock.now_ms()) / 1000)
        wait_until_quiet(server.port, ended=created)
    noted = server.noted(3)
    called = Called(noted, created)
    alone, beside = ([called.late_ms(stream.number, phase) for stream in streams] for phase in (ALONE, BESIDE))
    flood = noted[noted[:, 0] // TAGS == FLOOD]
    drained_ms = int(flood[:, 2].max()) - flood_ms
    all_alone, all_beside = p99(np.concatenate(alone)), p99(np.concatenate(beside))
    worst = max(range(SMALL_TENANTS), key=lambda n: p99(beside[n]) / max(1.0, p99(alone[n])))
    return {
        "jobs": jobs,
        "small_runs": sum(map(len, beside)),
        "alone_p99_ms": all_alone,
        "flooded_p99_ms": all_beside,
        "ratio": round(all_beside / max(1.0, all_alone), 2),
        "worst_alone_p99_ms": p99(alone[worst]),
        "worst_flooded_p99_ms": p99(beside[worst]),
        "worst_ratio": round(p99(beside[worst]) / max(1.0, p99(alone[worst])), 2),
        "flooded_max_ms": max(int(late.max()) for late in beside),
        "flood_drained_ms": drained_ms,
        "flood_runs_per_s": round(jobs / max(1, drained_ms) * 1000, 1),
    }


async def _store_flood(store_url: str, jobs: int, due_ms: int, clock: Clock, bar: Progress) -> None:
    def tagged(number: int, new: NewJob) -> NewJob:
        payload = msgspec.json.encode({"tag": FLOOD * TAGS + number, "hold_ms": 0}).decode()
        job = msgspec.structs.replace(new.job, tenant_id="large", lane=Lane.DEFAULT, payload=payload)
        return msgspec.structs.replace(new, job=job)

    store = await open_roomy_store(store_url, clock)
    try:
        due = np.full(jobs, due_ms, np.int64)
        await preload(store, due, handler_target("tagged"), clock, system_randomness(), bar, tagged)
    finally:
        await store.aclose()
