"""What sealed headers cost: `python bench/sealing.py [--jobs N] [--rounds N]`, N jobs being whole thousands.

One server on SQLite and one receiver. By turns webhooks are created, all due at one instant, and delivered: with
two headers that are sealed, and with two of the same length that are stored as they are (Accept-Language, Pragma).
Values are the same in all jobs (`shared`: what batches mostly have), or another in each job (`distinct`: no cache
helps). Ratios are medians over rounds: sealed to plain of webhooks per second, plain to sealed of the server's CPU
time, so that less than 1 is dearer in both. The last line is flat JSON.
"""

import argparse
import json
import tempfile
import threading
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from tickwheel.interfaces.bench.poster import post_all
from tickwheel.interfaces.bench.server import BenchServer, wait_until_quiet
from tickwheel.interfaces.bench.webhooks import Sink
from tickwheel.interfaces.bench.workloads import PAYLOAD
from tickwheel.wiring import system_clock

BATCH = 1_000
CONNECTIONS = 4
SEALED = ("Authorization", "X-Api-Key")
PLAIN = ("Accept-Language", "Pragma")
VALUE = "0123456789abcdef0123456789abcdef"


class Took(NamedTuple):
    """Of one burst: CPU in microseconds per job, and webhooks per second."""

    ingest_cpu_us: float
    fire_cpu_us: float
    per_s: float


def body(endpoint: str, names: tuple[str, str], first: int, due_ms: int, distinct: bool) -> bytes:
    raw = msgspec.Raw(PAYLOAD.encode())

    def job(number: int) -> dict[str, object]:
        value = f"{VALUE}{number if distinct else 0:08d}"
        target = {"type": "HTTP_WEBHOOK", "endpoint": endpoint, "headers": dict.fromkeys(names, value)}
        return {"schedule_type": "ONE_OFF", "run_at_epoch_ms": due_ms, "target": target, "payload": raw}

    return msgspec.json.encode([job(first + number) for number in range(BATCH)])


class Bench:
    """The server, its receiver, and what was sent so far."""

    def __init__(self, server: BenchServer, sink: Sink) -> None:
        self._server, self._sink, self._clock = server, sink, system_clock()
        self._sent = 0
        self.bursts: list[tuple[int, int]] = []  # (due, jobs)

    def burst(self, names: tuple[str, str], jobs: int, distinct: bool) -> tuple[float, float]:
        """CPU of creating and of delivering them, in microseconds per job."""
        due_ms = self._clock.now_ms() + 8_000 + jobs
        firsts = range(self._sent, self._sent + jobs, BATCH)
        bodies = [body(self._sink.endpoint, names, first, due_ms, distinct) for first in firsts]
        used_ms = self._server.cpu_ms()
        post_all(self._server.port, bodies, connections=CONNECTIONS, on_sent=lambda count: None)
        created_ms = self._server.cpu_ms()
        assert self._clock.now_ms() < due_ms - 500, "the machine is too slow to create that many ahead of time"
        threading.Event().wait((due_ms - self._clock.now_ms()) / 1000)
        waited_ms = self._server.cpu_ms()
        self._sent += jobs
        wait_until_quiet(self._server.port, ended=self._sent)
        self.bursts.append((due_ms, jobs))
        return (created_ms - used_ms) / jobs * 1000, (self._server.cpu_ms() - waited_ms) / jobs * 1000


def measure(folder: Path, jobs: int, rounds: int) -> dict[str, float]:
    sink = Sink(folder)
    cpu: list[tuple[float, float]] = []
    with BenchServer(f"sqlite:{folder / 'store'}", folder) as server:
        bench = Bench(server, sink)
        bench.burst(SEALED, BATCH, True)
        for number in range(rounds):
            kinds = [(names, distinct) for distinct in (False, True) for names in (PLAIN, SEALED)]
            for names, distinct in kinds if number % 2 == 0 else reversed(kinds):
                cpu.append(bench.burst(names, jobs, distinct))
    received = sink.received()
    found: dict[tuple[bool, bool], list[Took]] = {}
    for number, ((due_ms, count), (ingest, fire)) in enumerate(zip(bench.bursts[1:], cpu, strict=True)):
        arrived = received[received[:, 0] == due_ms, 1]
        assert len(arrived) == count, f"{count} were due and {len(arrived)} arrived"
        place = number % 4 if number // 4 % 2 == 0 else 3 - number % 4
        took = Took(ingest, fire, count / max(1, int(arrived.max()) - due_ms) * 1000)
        found.setdefault((place >= 2, place % 2 == 1), []).append(took)
    told: dict[str, float] = {"jobs": jobs, "rounds": rounds}
    for distinct, word in ((False, "shared"), (True, "distinct")):
        pairs = list(zip(found[distinct, False], found[distinct, True], strict=True))
        for name in Took._fields:
            told[f"{word}_plain_{name}"] = round(median(getattr(plain, name) for plain, _ in pairs), 1)
            told[f"{word}_sealed_{name}"] = round(median(getattr(sealed, name) for _, sealed in pairs), 1)
        told[f"{word}_ratio_per_s"] = round(median(s.per_s / p.per_s for p, s in pairs), 3)
        told[f"{word}_ratio_ingest_cpu"] = round(median(p.ingest_cpu_us / s.ingest_cpu_us for p, s in pairs), 3)
        told[f"{word}_ratio_fire_cpu"] = round(median(p.fire_cpu_us / s.fire_cpu_us for p, s in pairs), 3)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=8_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), options.jobs, options.rounds)))


if __name__ == "__main__":
    main()
