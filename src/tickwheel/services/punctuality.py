"""Counts starts against the objectives, since this process began; in memory, for a node may forget it.

A start is counted when it happens, as on time or late. What waits still is in no share yet: backlog and the oldest
due timer show that. Late starts that a target brought about itself (`held_hosts`) are in no share either.

Lanes cost a few numpy calls per batch, whatever its length. Tenants are looked at start by start, and only where
an objective names one.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from tickwheel.domain.columns import Bools, Ints
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.slo import Counted, Objective, Rule, Tally, Window, alarming, budget_left, watched_rate
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import AttemptsStarted, Event, HostClosed, HostOpened, OfTenant, RunsQueued
from tickwheel.services.held_hosts import HeldHosts


class Attainment(msgspec.Struct, frozen=True):
    """How one objective stands."""

    objective: Objective
    counted: Counted  # of the period
    budget_left: float
    burn_rates: dict[Window, float]
    rule: Rule | None  # that is met: somebody should look
    late: dict[Window, int]


class Punctuality:
    """An `EventSink` over the starts of one node."""

    def __init__(self, objectives: Sequence[Objective], clock: Clock, node: str) -> None:
        self._clock, self.objectives, self.node = clock, tuple(objectives), node
        self.since_ms, self._began_ms = clock.now_ms(), clock.monotonic_ms()
        self._held = HeldHosts(clock)
        self._tallies = [Tally(clock.monotonic_ms()) for _ in objectives]
        numbered = list(enumerate(objectives))
        self._of_tenants = [(number, one) for number, one in numbered if one.tenant_id is not None]
        self._of_lanes = [
            (number, int(one.lane)) for number, one in numbered if one.lane is not None and one.tenant_id is None
        ]
        self._bounds_ms = np.zeros(LANE_COUNT, dtype=np.int64)
        for number, lane in self._of_lanes:
            self._bounds_ms[lane] = objectives[number].bound_ms
        self._least_ms = min((one.bound_ms for one in objectives), default=0)
        self._totals = [Counted(0, 0) for _ in objectives]

    def emit(self, event: Event) -> None:
        if isinstance(event, AttemptsStarted | RunsQueued):
            self._count(event)
        elif isinstance(event, HostOpened | HostClosed):
            self._held.hear(event)

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
        target, watched_ms = objective.target_ppm, now_ms - self._began_ms
        spans: list[Window] = [one for one in Window if one is not Window.PERIOD]
        seen = {one: tally.over(one, now_ms) for one in spans}
        rates = {one: watched_rate(seen[one], target, one, watched_ms) for one in spans}
        late = {one: seen[one].late for one in spans}
        counted = tally.over(Window.PERIOD, now_ms)
        rule = alarming(rates, late, watched_ms)
        return Attainment(objective, counted, budget_left(counted, target), rates, rule, late)

    def _count(self, event: AttemptsStarted | RunsQueued) -> None:
        lane, lateness_ms, works = event.lane, event.lateness_ms, event.works
        if (mine := self._held.others(works, lateness_ms, self._least_ms)) is not None:
            lane, lateness_ms = lane[mine], lateness_ms[mine]
            works = [work for work, is_mine in zip(works, mine.tolist(), strict=True) if is_mine]
        now_ms = self._clock.monotonic_ms()
        starts = np.bincount(lane, minlength=LANE_COUNT).tolist()
        late = np.bincount(lane[lateness_ms > self._bounds_ms[lane]], minlength=LANE_COUNT).tolist()
        for number, one in self._of_lanes:
            if starts[one]:
                self._note(number, Counted(starts[one], late[one]), now_ms)
        if self._of_tenants:
            self._count_tenants(lane, lateness_ms, works, now_ms)

    def _count_tenants(self, lane: Ints, lateness_ms: Ints, works: Sequence[OfTenant], now_ms: int) -> None:
        tenants = np.array([work.tenant_id for work in works])
        for number, objective in self._of_tenants:
            chosen: Bools = tenants == objective.tenant_id
            if objective.lane is not None:
                chosen = chosen & (lane == objective.lane)
            starts = int(np.count_nonzero(chosen))
            if starts:
                late = int(np.count_nonzero(lateness_ms[chosen] > objective.bound_ms))
                self._note(number, Counted(starts, late), now_ms)

    def _note(self, number: int, counted: Counted, now_ms: int) -> None:
        self._tallies[number].note(counted, now_ms)
        total = self._totals[number]
        self._totals[number] = Counted(total.starts + counted.starts, total.late + counted.late)
