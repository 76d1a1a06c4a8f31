"""The number of series stays as it is, whatever comes through the API."""

import re
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tickwheel import JobFields
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.domain.columns import COMPLETION, empty
from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.ports.events import (
    AttemptsEnded,
    AttemptsStarted,
    HostOpened,
    RunsUnserved,
    ScheduleFailing,
    WorkerLost,
)

from ..interfaces.cli.server_process import ServerProcess, wait_until
from ..services.test_punctuality import Of, started

COUNT = 10_000
LARGEST_BYTES = 5 << 20


def scraped(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text: str = answer.read().decode()
    return text


def series(text: str) -> list[str]:
    return [line.rpartition(" ")[0] for line in text.splitlines() if line and line[0] != "#"]


def value(text: str, name: str) -> float:
    return sum(float(n) for n in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.pitfall(100)
def test_ten_thousand_jobs_tenants_and_targets_add_no_series(tmp_path: Path) -> None:
    with ServerProcess("--metrics-tenants", "tenant-7", folder=tmp_path) as server:
        wait_until(lambda: value(scraped(server.url), "tickwheel_dead_letters") == 0, why="the first count")
        before = series(scraped(server.url))
        results = server.client.schedule_many([job(number) for number in range(COUNT)])
        assert not results.refused
        wait_until(lambda: value(scraped(server.url), "tickwheel_attempts_total") >= 1_000, why="attempts end")
        text = scraped(server.url)
        assert series(text) == before
        assert len(text) < LARGEST_BYTES
        assert re.findall(r"tenant-\d+", text.replace("tenant-7", "")) == []
        assert value(text, "tickwheel_tenant_attempts_total") == 1


def job(number: int) -> JobFields:
    """Each of a tenant and for a target of its own; every tenth is due, and nobody listens there."""
    fields: JobFields = {
        "schedule_type": "INSTANT",
        "job_name": f"job-{number}",
        "tenant_id": f"tenant-{number}",
        "retry_policy": {"max_retries": 0},
        "endpoint": f"http://127.0.{number // 250}.{number % 250 + 1}:29999/x",
    }
    return fields if number % 10 == 7 else {**fields, "schedule_type": "DELAYED", "delay_seconds": 9_000}


@pytest.mark.pitfall(100)
def test_events_of_ever_new_names_add_no_series() -> None:
    metrics = Metrics(tenants=("acme",))
    before = series(metrics.render().decode())
    for number in range(COUNT):
        metrics.emit(started((number, Lane(number % 4), f"tenant-{number}")))
        metrics.emit(HostOpened(host=f"h{number}.example", cause="failing", pause_ms=9, waiting_count=1))
        metrics.emit(RunsUnserved(counts={f"handler-{number}": 1}))
        metrics.emit(ScheduleFailing(job_id=number.to_bytes(16, "big"), error=f"error {number}"))
        metrics.emit(WorkerLost(worker=f"worker-{number}", proved=True, silent_ms=1))
    text = metrics.render().decode()
    assert series(text) == before
    assert value(text, "tickwheel_lateness_seconds_count") == COUNT
    assert value(text, "tickwheel_runs_unserved_total") == COUNT
    assert value(text, "tickwheel_tenant_lateness_seconds_count") == 0


def ended(outcomes: Sequence[OutcomeClass], tenants: Sequence[str]) -> AttemptsEnded:
    rows = empty(COMPLETION, len(outcomes))
    rows["outcome"] = outcomes
    works: Any = [Of(tenant_id) for tenant_id in tenants]
    return AttemptsEnded(rows=rows, applied=np.ones(len(rows), dtype=np.bool_), notes={}, works=works)


def test_tenants_that_are_named_have_figures_of_their_own() -> None:
    metrics = Metrics(tenants=("acme", "bolt"))
    metrics.emit(started((7, Lane.HIGH, "acme"), (3_000, Lane.LOW, "other"), (90_000, Lane.LOW, "acme")))
    ok, late = OutcomeClass.SUCCESS, OutcomeClass.TIMEOUT
    metrics.emit(ended([ok, late, ok, ok], ["acme", "acme", "other", "bolt"]))
    text = metrics.render().decode()
    assert value(text, 'tickwheel_tenant_lateness_seconds_count{tenant="acme"}') == 2
    assert 'tickwheel_tenant_lateness_seconds_bucket{le="60.0",tenant="acme"} 1.0' in text
    assert 'tickwheel_tenant_attempts_total{outcome="timeout",tenant="acme"} 1.0' in text
    assert 'tickwheel_tenant_attempts_total{outcome="success",tenant="bolt"} 1.0' in text
    assert 'tenant="other"' not in text


def test_without_an_opt_in_there_is_no_tenant_anywhere() -> None:
    metrics = Metrics()
    metrics.emit(AttemptsStarted(np.array([1]), np.array([0]), [Of("acme")]))
    text = metrics.render().decode()
    assert "acme" not in text
    assert "tenant_" not in text
