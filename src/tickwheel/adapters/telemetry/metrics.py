"""Prometheus metrics, counted by columns and rendered when scraped.

What there is stands in `catalogue`. Events are counted here, batch by batch; all else is read from its owner
at scrape time (`show`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tickwheel.adapters.telemetry.catalogue import FAMILIES, Kind
from tickwheel.adapters.telemetry.exposition import Values, family_of
from tickwheel.adapters.telemetry.histogram import LATENESS_BOUNDS_MS, Histogram
from tickwheel.adapters.telemetry.tenant_metrics import TenantMetrics
from tickwheel.domain.columns import ClaimVerdict, CompletionCause, Ints
from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.events import (
    AttemptsEnded,
    AttemptsStarted,
    AuditEnded,
    BufferFailed,
    ChainMended,
    ClaimsAnswered,
    ClockStepped,
    Deposed,
    Event,
    HostOpened,
    LeadershipChanged,
    LoopFailed,
    MemberLost,
    MembershipFrozen,
    NotificationEnded,
    RunsQueued,
    RunsUnserved,
    ScheduleFailing,
    ShardsLeft,
    ShardsTaken,
    TimersLoaded,
    WorkerLost,
)

_KNOWN: Final[Mapping[str, Sequence[str]]] = {
    "attempts": [outcome.name.lower() for outcome in OutcomeClass],
    "runs": [
        state.name for state in (RunState.SCHEDULED, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
    ],
    "claims": [verdict.name.lower() for verdict in ClaimVerdict],
    "triggers": [lane.name for lane in Lane],
    "leases_lost": ["expired", "proved_dead"],
    "loop_failures": ["slices", "feed", "ticker", "claims", "completion", "heartbeats", "reaper"],  # and others
    "buffer_failures": ["add", "read", "drop", "lost"],
    "hosts_opened": ["failing", "retry_after"],
    "workers_lost": ["proved_dead", "silent"],
    "shards_taken": ["free", "takeover", "own"],
    "shards_left": ["handed_over", "lost"],
    "members_lost": ["proved_dead", "silent"],
    "notifications": ["sent", "failed", "dropped"],
}
"""Counters by one label, and the values that are there from the start: `rate` needs the zero before the first."""
_PLAIN: Final = (
    "stale_completions",
    "runs_unserved",
    "timers_loaded",
    "schedule_failures",
    "depositions",
    "clock_steps_back",
    "lost_events",
    "chains_mended",
)
_TOLD: Final = ("membership_frozen", "leader")
"""Gauges that events tell."""


class Metrics(Collector):
    """An `EventSink` that counts, and the text of `/metrics`.

    `process` labels every series: of several processes behind one address, a scrape meets now one, now another.
    `tenants` have series of their own.
    """

    def __init__(self, process: str = "", tenants: Sequence[str] = ()) -> None:
        self._process = process
        self._lateness = Histogram(
            FAMILIES["lateness_seconds"], [lane.name for lane in Lane], LATENESS_BOUNDS_MS, 1000
        )
        self._by_label = {name: Counter[str](dict.fromkeys(known, 0)) for name, known in _KNOWN.items()}
        self._plain = Counter[str](dict.fromkeys((*_PLAIN, *_TOLD), 0))
        self._tenants = TenantMetrics(tenants) if tenants else None
        self._unaccounted = 0  # of the last lap of the standing check
        self._shown: list[tuple[str, Callable[[], Values]]] = []
        self._histograms = [self._lateness]
        self._machine = ProcessCollector(registry=None)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def show(self, name: str, read: Callable[[], Values]) -> None:
        """Show what `read` gives at each scrape as the counter or gauge of that name."""
        if FAMILIES[name].kind is Kind.HISTOGRAM:
            raise ValueError(f"{name} is a histogram")
        self._shown.append((name, read))

    def show_histogram(self, histogram: Histogram) -> None:
        """Show these as well."""
        self._histograms.append(histogram)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self._registry)

    @property
    def ended_count(self) -> int:
        """Attempts that ended so far."""
        return sum(self._by_label["attempts"].values())

    def state_count(self, state: str) -> int:
        """Runs that were moved to this state at the end of an attempt."""
        return self._by_label["runs"][state]

    def emit(self, event: Event) -> None:
        match event:
            case AttemptsStarted() | RunsQueued():
                self._lateness.add(event.lane, event.lateness_ms)
                if self._tenants is not None:
                    self._tenants.count_starts(event)
            case AttemptsEnded():
                self._count_ended(event)
                if self._tenants is not None:
                    self._tenants.count_ends(event)
            case ClaimsAnswered():
                self._count_claims(event)
            case TimersLoaded():
                self._plain["timers_loaded"] += event.count
            case BufferFailed():
                self._by_label["buffer_failures"][event.what] += event.buckets
            case LoopFailed():
                self._by_label["loop_failures"][event.loop] += 1
            case ScheduleFailing():
                self._plain["schedule_failures"] += 1
            case ChainMended():
                self._plain["chains_mended"] += 1
            case HostOpened():
                self._by_label["hosts_opened"][event.cause] += 1
            case RunsUnserved():
                self._plain["runs_unserved"] += sum(event.counts.values())
            case ClockStepped():
                self._plain["clock_steps_back"] += 1
            case AuditEnded():
                self._plain["lost_events"] += max(0, event.unaccounted - self._unaccounted)
                self._unaccounted = event.unaccounted
            case NotificationEnded():
                self._by_label["notifications"][event.outcome] += 1
            case _:
                self._count_membership(event)

    def _count_membership(self, event: Event) -> None:
        match event:
            case ShardsTaken():
                self._by_label["shards_taken"][event.cause] += event.count
            case ShardsLeft():
                self._by_label["shards_left"][event.cause] += event.count
            case MemberLost():
                self._by_label["members_lost"]["proved_dead" if event.proved else "silent"] += 1
            case WorkerLost():
                self._by_label["workers_lost"]["proved_dead" if event.proved else "silent"] += 1
            case Deposed():
                self._plain["depositions"] += 1
            case MembershipFrozen():
                self._plain["membership_frozen"] = int(event.frozen)
            case LeadershipChanged():
                self._plain["leader"] = int(event.leads)

    def _count_claims(self, event: ClaimsAnswered) -> None:
        verdicts, triggers = self._by_label["claims"], self._by_label["triggers"]
        for verdict in np.flatnonzero(event.verdicts).tolist():
            verdicts[ClaimVerdict(verdict).name.lower()] += int(event.verdicts[verdict])
        for lane in np.flatnonzero(event.triggers).tolist():
            triggers[Lane(lane).name] += int(event.triggers[lane])

    def _count_ended(self, event: AttemptsEnded) -> None:
        self._plain["stale_completions"] += event.stale_count
        outcomes, states = self._by_label["attempts"], self._by_label["runs"]
        for outcome, count in _tally(event.rows["outcome"]):
            outcomes[OutcomeClass(outcome).name.lower()] += count
            if outcome == OutcomeClass.LOST:
                self._count_lost(event)
        for state, count in _tally(event.rows["state"][event.applied]):
            states[RunState(state).name] += count

    def _count_lost(self, event: AttemptsEnded) -> None:
        lost = event.applied & (event.rows["outcome"] == OutcomeClass.LOST)
        proved = int(np.count_nonzero(event.rows["cause"][lost] == CompletionCause.DEAD_OWNER))
        self._by_label["leases_lost"]["proved_dead"] += proved
        self._by_label["leases_lost"]["expired"] += int(np.count_nonzero(lost)) - proved

    def collect(self) -> Iterator[Metric]:
        """Called by prometheus_client at each scrape."""
        for family in self._families():
            if self._process:
                family.samples = [
                    sample._replace(labels={**sample.labels, "process": self._process})
                    for sample in family.samples
                ]
            yield family

    def _families(self) -> Iterator[Metric]:
        for histogram in self._histograms:
            yield histogram.family()
        for name, counts in self._by_label.items():
            yield family_of(name, counts)
        for name, count in self._plain.items():
            yield family_of(name, count)
        if self._tenants is not None:
            yield from self._tenants.families()
        for name, read in self._shown:
            yield family_of(name, read())
        yield from self._machine.collect()


def _tally(column: Ints) -> list[tuple[int, int]]:
    counts = np.bincount(column)
    return [(int(value), int(counts[value])) for value in np.flatnonzero(counts)]
