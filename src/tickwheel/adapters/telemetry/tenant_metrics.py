"""Series by tenant, for the tenants that settings name and no others: tenants come by requests, series stay."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from prometheus_client.core import Metric

from tickwheel.adapters.telemetry.catalogue import FAMILIES
from tickwheel.adapters.telemetry.exposition import family_of
from tickwheel.adapters.telemetry.histogram import LATENESS_BOUNDS_MS, Histogram
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.ports.events import AttemptsEnded, AttemptsStarted, RunsQueued


class TenantMetrics:
    """Counts what belongs to one of `tenants`."""

    def __init__(self, tenants: Sequence[str]) -> None:
        self._rows = {tenant_id: row for row, tenant_id in enumerate(tenants)}
        self._lateness = Histogram(FAMILIES["tenant_lateness_seconds"], tenants, LATENESS_BOUNDS_MS, 1000)
        ends = [(tenant_id, outcome.name.lower()) for tenant_id in tenants for outcome in OutcomeClass]
        self._ends = Counter[tuple[str, ...]](dict.fromkeys(ends, 0))

    def count_starts(self, event: AttemptsStarted | RunsQueued) -> None:
        """Their lateness."""
        numbers = [number for number, work in enumerate(event.works) if work.tenant_id in self._rows]
        if numbers:
            rows = np.array([self._rows[event.works[number].tenant_id] for number in numbers], dtype=np.int64)
            self._lateness.add(rows, event.lateness_ms[numbers])

    def count_ends(self, event: AttemptsEnded) -> None:
        """Their outcomes."""
        for work, outcome in zip(event.works, event.rows["outcome"].tolist(), strict=True):
            if work is not None and work.tenant_id in self._rows:
                self._ends[work.tenant_id, OutcomeClass(outcome).name.lower()] += 1

    def families(self) -> Iterator[Metric]:
        """For the exposition."""
        yield self._lateness.family()
        yield family_of("tenant_attempts", self._ends)
