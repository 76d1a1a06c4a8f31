"""What it costs to count: starts, claims and calls of the store, in microseconds of CPU each.

usage: python bench/metrics.py [--rounds N]      (prints JSON)
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tickwheel.adapters.system import SystemClock
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.adapters.telemetry.store_calls import StoreCalls
from tickwheel.config import Settings
from tickwheel.domain.slo import parse_objectives
from tickwheel.ports.events import AttemptsStarted, ClaimsAnswered, EventSink
from tickwheel.services.live.recent import Recent
from tickwheel.services.punctuality import Punctuality

SIZES = (1, 64, 1_024)
REPEATS = 5


class _Work:
    tenant_id = "default"


def _us(call: Callable[[], Any], rounds: int) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(rounds):
            call()
        best = min(best, (time.process_time() - began) / rounds)
    return round(best * 1e6, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2_000)
    rounds: int = parser.parse_args().rounds
    clock, objectives = SystemClock(), Settings().slo
    sinks: dict[str, EventSink] = {
        "metrics": Metrics(),
        "metrics with tenants": Metrics(tenants=("acme", "bolt")),
        "objectives": Punctuality(parse_objectives(objectives), clock, "bench"),
        "objectives of a tenant": Punctuality(parse_objectives((*objectives, "tenant:a=99%@1s")), clock, "bench"),
        "the last minute": Recent(clock),
    }
    found: dict[str, Any] = {}
    for size in SIZES:
        lateness_ms = np.arange(size, dtype=np.int64) % 900
        event = AttemptsStarted(lateness_ms, np.full(size, 2, dtype=np.int64), [_Work()] * size)
        for name, sink in sinks.items():
            found[f"{name}, {size} starts"] = _us(lambda sink=sink, event=event: sink.emit(event), rounds)  # type: ignore[misc]
    claims = ClaimsAnswered(
        verdicts=np.bincount([1] * 500, minlength=9), took_ms=3, triggers=np.bincount([2] * 500)
    )
    metrics = Metrics()
    found["metrics, 500 claims"] = _us(lambda: metrics.emit(claims), rounds)
    calls = StoreCalls(metrics)
    found["a call of the store"] = _us(lambda: calls.answered("insert", 1, 2), rounds)
    found["a scrape"] = _us(metrics.render, max(1, rounds // 100))
    print(json.dumps({"benchmark": "metrics", "us": found}))


if __name__ == "__main__":
    main()
