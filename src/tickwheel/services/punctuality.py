"""Counts starts against the objectives, since this process began; in memory, for a node may forget it.

A start is counted when it happens, as on time or late. What waits still is in no share yet: backlog and the oldest
due timer show that.

By lane a batch costs two numpy calls per objective. Tenants are looked at start by start, and only where an
objective names one.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from tickwheel.domain.columns import Bools
from tickwheel.domain.slo import Counted, Objective, Rule, Tally, Window, alarming, budget_left, burn_rate
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import AttemptsStarted, Event, RunsQueued


class Attainment(msgspec.Struct, frozen=True):
    """How one objective stands."""

    objective: Objective
    counted: Counted  # of the period
    budget_left: float
    burn_rates: dict[Window, float]
    rule: Rule | None  # that is met: somebody should look


class Punctuality:
    """An `EventSink` over the starts of one node."""

    def __init__(self, objectives: Sequence[Objective], clock: Clock, node: str) -> None:
        self._clock, self.objectives, self.node = clock, tuple(objectives), node
        self.since_ms = clock.now_ms()
        self._tallies = [Tally(clock.monotonic_ms()) for _ in objectives]
        self._by_tenant = any(objective.tenant_id is not None for objective in objectives)
        self._totals = [Counted(0, 0) for _ in objectives]

    def emit(self, event: Event) -> None:
        if isinstance(event, AttemptsStarted | RunsQueued):
            self._count(event)

    def totals(self) -> Sequence[Counted]:
        """By objective, since the process began."""
        return tuple(self._totals)

    def attainments(self) -> list[Attainment]:
        """All, in the order of the settings."""
        now_ms = self._clock.monotonic_ms()
        return [
            self._attainment(objective, tally, now_ms)
            for objective, tally in zip(self.objectives, self._tallies, strict=True)
        ]

    def _attainment(self, objective: Objective, tally: Tally, now_ms: int) -> Attainment:
        target = objective.target_ppm
        rates: dict[Window, float] = {
            one: burn_rate(tally.over(one, now_ms), target) for one in Window if one is not Window.PERIOD
        }
        counted = tally.over(Window.PERIOD, now_ms)
        return Attainment(objective, counted, budget_left(counted, target), rates, alarming(rates))

    def _count(self, event: AttemptsStarted | RunsQueued) -> None:
        now_ms = self._clock.monotonic_ms()
        tenants = np.array([work.tenant_id for work in event.works]) if self._by_tenant else None
        for number, objective in enumerate(self.objectives):
            chosen: Bools = np.ones(len(event.lane), dtype=np.bool_)
            if objective.lane is not None:
                chosen = event.lane == objective.lane
            if objective.tenant_id is not None and tenants is not None:
                chosen = chosen & (tenants == objective.tenant_id)
            starts = int(np.count_nonzero(chosen))
            if starts:
                late = int(np.count_nonzero(event.lateness_ms[chosen] > objective.bound_ms))
                counted, total = Counted(starts, late), self._totals[number]
                self._tallies[number].note(counted, now_ms)
                self._totals[number] = Counted(total.starts + starts, total.late + late)
