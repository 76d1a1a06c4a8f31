"""Far more requests than the server can take, for a while: what it does meanwhile, and how soon it is well again.

First its capacity is measured: jobs that are due at once, from creation to the end of their run, as fast as it
answers. Then a calm stretch, then the flood: `factor` times the capacity, at fixed instants, whatever is answered;
and at once a calm stretch again. Held are: nothing but success and 429 is answered, each accepted job runs once.
"""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures, rounded
from tickwheel.interfaces.bench.poster import handler_jobs, post_all
from tickwheel.interfaces.bench.process import resident_bytes
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer, wait_until_quiet
from tickwheel.interfaces.bench.workloads import PAYLOAD
from tickwheel.ports.clock import Clock
from tickwheel.wiring import system_clock

BATCH: Final = 100
CONNECTIONS: Final = 48
TIMEOUT_S: Final = 30
CALM_SHARE: Final = 10
"""In a calm stretch comes a tenth of the capacity."""
LATE_MS: Final = 250
"""A second whose p99 is above this, and above twice the calm one, is not back to normal, nor one without a run."""
MIB: Final = 1 << 20


class Plan(NamedTuple):
    """How long the flood and each calm stretch last, and how far the flood is above the capacity."""

    seconds: int
    calm_seconds: int
    factor: int
    processes: int

    @property
    def steps(self) -> int:
        """All seconds together."""
        return self.seconds + 3 * self.calm_seconds


def overload(store: str, folder: Path, plan: Plan, bar: Progress) -> Figures:
    """See the module. Memory is that of the server's process (of several: of their parent only)."""
    clock = system_clock()
    seconds, calm_seconds, factor, processes = plan
    with BenchServer(store, folder, processes=processes) as server:
        capacity, accepted = _capacity(server, clock, calm_seconds)
        bar.update(calm_seconds)
        calm_rate = max(BATCH, int(capacity / CALM_SHARE))
        flood = Flood(server, clock)
        before = flood.send(calm_rate, calm_seconds)
        bar.update(calm_seconds)
        during = flood.send(int(capacity * factor), seconds)
        bar.update(seconds)
        after = flood.send(calm_rate, calm_seconds)
        bar.update(calm_seconds)
        accepted += flood.accepted
        wait_until_quiet(*server.own_ports, ended=accepted)
    if flood.faults:
        raise BenchFailed(f"answered neither success nor 429: {dict(flood.faults)}")
    scheduled_ms, called_ms = server.calls()
    if len(called_ms) != accepted:
        raise BenchFailed(f"{accepted} jobs were accepted and {len(called_ms)} calls were made")
    late_ms: Ints = called_ms - scheduled_ms
    calm, flooded, recovering = (
        late_ms[(scheduled_ms >= phase.began_ms) & (scheduled_ms < phase.ended_ms)]
        for phase in (before, during, after)
    )
    limit_ms = max(LATE_MS, 2 * _p99(calm))
    seconds_after = (scheduled_ms - during.ended_ms) // 1000
    late_seconds = [n for n in range(calm_seconds) if not _is_normal(late_ms[seconds_after == n], limit_ms)]
    memory = during.memory
    return {
        "capacity_per_s": rounded(capacity),
        "offered_per_s": rounded(during.offered / seconds),
        "accepted": accepted,
        "refused": during.refused,
        "errors": 0,
        "calm_p99_ms": _p99(calm),
        "flooded_p99_ms": _p99(flooded),
        "recovered_ms": (late_seconds[-1] + 1) * 1000 if late_seconds else 0,
        "recovered_p99_ms": _p99(recovering[len(recovering) // 2 :]),
        "rss_begin_mb": rounded(memory[0] / MIB),
        "rss_middle_mb": rounded(memory[len(memory) // 2] / MIB),
        "rss_end_mb": rounded(memory[-1] / MIB),
    }


class Phase(NamedTuple):
    """A stretch of requests: from the first due instant to the last answer, and what the server did with them."""

    began_ms: int
    ended_ms: int
    offered: int
    refused: int
    memory: list[int]  # twice a second


class Flood:
    """Sends batches that are due at once, at a steady rate, without waiting for answers before the next."""

    def __init__(self, server: BenchServer, clock: Clock) -> None:
        self._server, self._clock = server, clock
        self._lock = threading.Lock()
        self.accepted = self.refused = self.offered = 0
        self.faults: Counter[str] = Counter()

    def send(self, rate: int, seconds: int) -> Phase:
        """For so long."""
        began_ms = self._clock.now_ms()
        instants = iter([began_ms + n * BATCH * 1000 // rate for n in range(rate * seconds // BATCH)])
        self.offered = self.refused = 0
        memory: list[int] = []
        watcher = threading.Thread(target=self._watch, args=(began_ms + seconds * 1000, memory))
        workers = [threading.Thread(target=self._work, args=(instants,)) for _ in range(CONNECTIONS)]
        for thread in (watcher, *workers):
            thread.start()
        for thread in (watcher, *workers):
            thread.join()
        return Phase(began_ms, self._clock.now_ms(), self.offered, self.refused, memory)

    def _work(self, instants: Iterator[int]) -> None:
        connection, waited = self._connect(), threading.Event()
        while True:
            with self._lock:
                at_ms = next(instants, None)
            if at_ms is None:
                break
            waited.wait(max(0, at_ms - self._clock.now_ms()) / 1000)
            body = handler_jobs("record", [self._clock.now_ms()] * BATCH, PAYLOAD)
            try:
                self._post(connection, body)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                connection = self._connect()
                with self._lock:
                    self.faults[type(error).__name__] += 1
        connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=TIMEOUT_S)

    def _post(self, connection: http.client.HTTPConnection, body: bytes) -> None:
        connection.request("POST", "/v1/jobs/batch", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        with self._lock:
            self.offered += BATCH
            if response.status in (200, 201):
                self.accepted += answer.count(b'"job_id"')
            elif response.status == 429 and response.headers["Retry-After"]:
                self.refused += BATCH
            else:
                self.faults[str(response.status)] += 1

    def _watch(self, until_ms: int, memory: list[int]) -> None:
        waited = threading.Event()
        while self._clock.now_ms() < until_ms:
            memory.append(resident_bytes(self._server.pid))
            waited.wait(0.5)


def _capacity(server: BenchServer, clock: Clock, seconds: int) -> tuple[float, int]:
    """Jobs per second from creation to the end of their runs, and how many they were."""
    began_ms = clock.now_ms()

    def bodies() -> Iterator[bytes]:
        while (now_ms := clock.now_ms()) < began_ms + seconds * 1000:
            yield handler_jobs("record", [now_ms] * BATCH, PAYLOAD)

    created = post_all(server.port, bodies(), connections=4, on_sent=lambda count: None)
    wait_until_quiet(*server.own_ports, ended=created)
    return created / max(1, clock.now_ms() - began_ms) * 1000, created


def _is_normal(late_ms: Ints, limit_ms: int) -> bool:
    return len(late_ms) > 0 and _p99(late_ms) <= limit_ms


def _p99(late_ms: Ints) -> int:
    return int(np.percentile(late_ms, 99)) if len(late_ms) else 0
