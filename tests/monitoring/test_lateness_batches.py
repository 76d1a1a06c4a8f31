"""Metrics, objectives and the last minute count batches of starts as counting start by start does."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pytest

from tickwheel.adapters.telemetry.histogram import LATENESS_BOUNDS_MS
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.domain.job import Lane
from tickwheel.domain.slo import Counted, Objective, parse_objectives
from tickwheel.domain.vitals import LaneVitals
from tickwheel.ports.events import AttemptsStarted, RunsQueued
from tickwheel.services.live.recent import Recent
from tickwheel.services.punctuality import Punctuality
from tickwheel.testing.virtual_clock import VirtualClock

from ..services.test_punctuality import started

OBJECTIVES: Final = ("CRITICAL=99.9%@100ms", "HIGH=99%@1234ms", "DEFAULT=99%@1s", "LOW/tenant:a=99%@25ms")
QUARTERS_MS: Final = sorted({int(1.25**power) for power in range(64)})
NEAR_BOUNDS_MS: Final = [bound + off for bound in (*LATENESS_BOUNDS_MS, *QUARTERS_MS, 1_234) for off in (-1, 0, 1)]
NOTHING: Final = [0] * len(Lane)

Start = tuple[int, Lane, str]


def batches(seed: int) -> Iterator[list[Start]]:
    """Of one start up to a thousand, at and beside all bounds, in one lane and in several."""
    random = np.random.default_rng(seed)
    for size in (1, 1, 2, 7, 64, 1_000):
        for lane_count in (1, len(Lane)):
            lateness_ms = random.choice(NEAR_BOUNDS_MS, size).tolist()
            lanes = random.choice(random.permutation(len(Lane))[:lane_count], size).tolist()
            tenants = random.choice(["a", "b", "c"], size).tolist()
            yield list(zip(lateness_ms, map(Lane, lanes), tenants, strict=True))


def queued(starts: Sequence[Start]) -> RunsQueued:
    event: AttemptsStarted = started(*starts)
    return RunsQueued(event.lateness_ms, event.lane, event.works)


@pytest.mark.parametrize("seed", range(4))
def test_metrics_of_batches(seed: int) -> None:
    metrics, starts = Metrics(tenants=("a", "b")), list[Start]()
    for number, batch in enumerate(batches(seed)):
        metrics.emit(queued(batch) if number % 3 == 0 else started(*batch))
        starts += batch
    text = metrics.render().decode()
    for lane in Lane:
        assert_histogram(text, f'lateness_seconds{{lane="{lane.name}"', [ms for ms, of, _ in starts if of is lane])
    for tenant_id in ("a", "b"):
        lateness_ms = [ms for ms, _, of in starts if of == tenant_id]
        assert_histogram(text, f'tenant_lateness_seconds{{tenant="{tenant_id}"', lateness_ms)


def assert_histogram(text: str, series: str, lateness_ms: Sequence[int]) -> None:
    name, label = series.split("{")
    bucket = rf'^tickwheel_{name}_bucket{{(?=.*{label}).*le="([^"]+)".*}} (\S+)$'
    found = {float(bound): float(count) for bound, count in re.findall(bucket, text, re.MULTILINE)}
    bounds_ms = [*LATENESS_BOUNDS_MS, float("inf")]
    assert found == {bound / 1_000: sum(ms <= bound for ms in lateness_ms) for bound in bounds_ms}
    assert f"tickwheel_{name}_sum{{{label}}} {sum(lateness_ms) / 1_000}\n" in text


@pytest.mark.parametrize("seed", range(4))
def test_objectives_of_batches(seed: int) -> None:
    punctuality, starts = Punctuality(parse_objectives(OBJECTIVES), VirtualClock(), "here"), list[Start]()
    for number, batch in enumerate(batches(seed)):
        punctuality.emit(queued(batch) if number % 3 == 0 else started(*batch))
        starts += batch
    expected = [counted(objective, starts) for objective in punctuality.objectives]
    assert list(punctuality.totals()) == expected
    assert [one.counted for one in punctuality.attainments()] == expected


def counted(objective: Objective, starts: Sequence[Start]) -> Counted:
    lane, tenant_id = objective.lane, objective.tenant_id
    chosen = [ms for ms, lane_of, of in starts if lane in (None, lane_of) and tenant_id in (None, of)]
    return Counted(len(chosen), sum(ms > objective.bound_ms for ms in chosen))


@pytest.mark.parametrize("seed", range(4))
def test_the_last_minute_of_batches(seed: int) -> None:
    recent, starts = Recent(VirtualClock()), list[Start]()
    for batch in batches(seed):
        recent.emit(started(*batch))
        starts += batch
    for lane, found in zip(Lane, recent.lanes(NOTHING, NOTHING), strict=True):
        ordered = sorted(ms for ms, of, _ in starts if of is lane)
        assert found == LaneVitals(
            len(ordered), percentile_ms(ordered, 50), percentile_ms(ordered, 99), ordered[-1]
        )


def percentile_ms(ordered: Sequence[int], share: int) -> int:
    """The bound next above it, but no more than the greatest."""
    place = bisect_left(QUARTERS_MS, ordered[-(-len(ordered) * share // 100) - 1])
    return min(QUARTERS_MS[min(place, len(QUARTERS_MS) - 1)], ordered[-1])
