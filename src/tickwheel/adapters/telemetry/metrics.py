"""Prometheus metrics, counted by columns and rendered when scraped.

Labels are lanes, states, verdicts, outcome classes and loop names only: the number of series does not grow with
jobs, tenants or workers. Gauges are read from their owner at scrape time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tickwheel.domain.columns import ClaimVerdict, Ints
from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.events import (
    AttemptsEnded,
    AttemptsStarted,
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
    RunsUnserved,
    ScheduleFailing,
    ShardsLeft,
    ShardsTaken,
    TimersLoaded,
)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LATENESS_BOUNDS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000)


class GaugeReading(msgspec.Struct, frozen=True):
    """Values of one gauge: label value -> number ("" when it has no label)."""

    name: str
    help: str
    values: Mapping[str, float]
    label: str = ""


class Metrics(Collector):
    """An `EventSink` that counts, and the text of `/metrics`.

    `process` labels every series: of several processes behind one address, a scrape meets now one, now another.
    """

    def __init__(self, process: str = "") -> None:
        self._process = process
        self._lateness = np.zeros((len(Lane), len(LATENESS_BOUNDS_MS) + 1), dtype=np.int64)
        self._lateness_sum_ms = np.zeros(len(Lane), dtype=np.int64)
        self._outcomes: Counter[str] = Counter()
        self._states: Counter[str] = Counter()
        self._verdicts = np.zeros(len(ClaimVerdict), dtype=np.int64)
        self._counts: Counter[str] = Counter()
        self._loops: Counter[str] = Counter()
        self._opened: Counter[str] = Counter()
        self._buffer_failures: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._lost_members: Counter[str] = Counter()
        self._now: Counter[str] = Counter()  # gauges that events tell
        self._gauges: list[Callable[[], GaugeReading]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def add_gauge(self, read: Callable[[], GaugeReading]) -> None:
        """Show what `read` gives at each scrape."""
        self._gauges.append(read)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self._registry)

    @property
    def ended_count(self) -> int:
        """Attempts that ended so far."""
        return sum(self._outcomes.values())

    def state_count(self, state: str) -> int:
        """Runs that were moved to this state at the end of an attempt."""
        return self._states[state]

    def emit(self, event: Event) -> None:
        match event:
            case AttemptsStarted():
                self._count_started(event)
            case AttemptsEnded():
                self._count_ended(event)
            case ClaimsAnswered():
                self._verdicts += event.verdicts
                self._counts["claim_batches"] += 1
                self._counts["claim_ms"] += event.took_ms
            case TimersLoaded():
                self._counts["timers_loaded"] += event.count
            case BufferFailed():
                self._buffer_failures[event.what] += event.buckets
            case LoopFailed():
                self._loops[event.loop] += 1
            case ScheduleFailing():
                self._counts["schedule_failures"] += 1
            case ChainMended():
                self._counts["chains_mended"] += 1
            case HostOpened():
                self._opened[event.cause] += 1
            case RunsUnserved():
                self._counts["runs_unserved"] += sum(event.counts.values())
            case ClockStepped():
                self._counts["clock_steps_back"] += 1
            case _:
                self._count_membership(event)

    def _count_membership(self, event: Event) -> None:
        match event:
            case ShardsTaken():
                self._taken[event.cause] += event.count
                self._now["shards_held"] = event.held_count
            case ShardsLeft():
                self._left[event.cause] += event.count
                self._now["shards_held"] = event.held_count
            case MemberLost():
                self._lost_members["proved_dead" if event.proved else "silent"] += 1
            case Deposed():
                self._counts["deposed"] += 1
            case MembershipFrozen():
                self._now["membership_frozen"] = int(event.frozen)
            case LeadershipChanged():
                self._now["leads"] = int(event.leads)

    def _count_started(self, event: AttemptsStarted) -> None:
        columns = np.searchsorted(LATENESS_BOUNDS_MS, event.lateness_ms, side="left")
        np.add.at(self._lateness, (event.lane, columns), 1)
        np.add.at(self._lateness_sum_ms, event.lane, event.lateness_ms)

    def _count_ended(self, event: AttemptsEnded) -> None:
        self._counts["stale"] += event.stale_count
        for outcome, count in _tally(event.rows["outcome"]):
            self._outcomes[OutcomeClass(outcome).name.lower()] += count
        for state, count in _tally(event.rows["state"][event.applied]):
            self._states[RunState(state).name] += count

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
        yield self._lateness_family()
        yield _counter("tickwheel_attempts", "Attempts that ended, by outcome.", self._outcomes, "outcome")
        yield _counter(
            "tickwheel_runs", "Runs moved at the end of an attempt, by new state.", self._states, "state"
        )
        verdicts = {v.name.lower(): int(self._verdicts[v]) for v in ClaimVerdict}
        yield _counter("tickwheel_claims", "Claims, by verdict.", verdicts, "verdict")
        yield _counter("tickwheel_loop_failures", "Errors that a loop survived.", self._loops, "loop")
        yield _counter(
            "tickwheel_buffer_failures",
            "Minute buckets that were refused or lacked timers.",
            self._buffer_failures,
            "what",
        )
        opened = {cause: self._opened[cause] for cause in ("failing", "retry_after")}
        yield _counter("tickwheel_hosts_opened", "Times that a host was left alone, by cause.", opened, "cause")
        yield _counter("tickwheel_shards_taken", "Shards taken; each has a new epoch.", self._taken, "cause")
        yield _counter("tickwheel_shards_left", "Shards given away or lost.", self._left, "cause")
        yield _counter(
            "tickwheel_members_lost", "Nodes that this one declared dead.", self._lost_members, "evidence"
        )
        for key, name, text in _PLAIN_GAUGES:
            gauge = GaugeMetricFamily(name, text)
            gauge.add_metric([], self._now[key])
            yield gauge
        for key, name, text in _PLAIN_COUNTERS:
            yield _counter(name, text, {"": self._counts[key]}, "")
        seconds = self._counts["claim_ms"] / 1000
        yield _counter("tickwheel_claim_seconds", "Time spent waiting for claim batches.", {"": seconds}, "")
        for read in self._gauges:
            reading = read()
            family = GaugeMetricFamily(
                reading.name, reading.help, labels=[reading.label] if reading.label else None
            )
            for label_value, number in reading.values.items():
                family.add_metric([label_value] if reading.label else [], number)
            yield family

    def _lateness_family(self) -> Metric:
        family = HistogramMetricFamily(
            "tickwheel_lateness_seconds", "Start of the attempt minus its due time.", labels=["lane"]
        )
        for lane in Lane:
            cumulated = np.cumsum(self._lateness[lane]).tolist()
            bounds = [str(bound / 1000) for bound in LATENESS_BOUNDS_MS] + ["+Inf"]
            buckets = list(zip(bounds, cumulated, strict=True))
            family.add_metric([lane.name], buckets, self._lateness_sum_ms[lane] / 1000)
        return family


_PLAIN_COUNTERS: Final = (
    ("claim_batches", "tickwheel_claim_batches", "Claim transactions."),
    ("timers_loaded", "tickwheel_timers_loaded", "Timers read from the store into the wheel."),
    ("stale", "tickwheel_stale_completions", "Completions refused because another attempt holds the run."),
    ("schedule_failures", "tickwheel_schedule_failures", "Due occurrences whose schedule could not be planned."),
    ("chains_mended", "tickwheel_chains_mended", "Recurring jobs whose next timer was lost or double: a fault."),
    ("runs_unserved", "tickwheel_runs_unserved", "Due runs of handlers that are not registered here."),
    ("clock_steps_back", "tickwheel_clock_steps_back", "Times that the machine's clock was set back."),
    ("deposed", "tickwheel_depositions", "Times that other nodes declared this one dead."),
)
_PLAIN_GAUGES: Final = (
    ("shards_held", "tickwheel_shards_held", "Shards whose timers this node fires; of a cluster only."),
    ("membership_frozen", "tickwheel_membership_frozen", "1 while the coordinator can't be reached."),
    ("leads", "tickwheel_leader", "1 on the node that does the chores for all."),
)


def _tally(column: Ints) -> list[tuple[int, int]]:
    counts = np.bincount(column)
    return [(int(value), int(counts[value])) for value in np.flatnonzero(counts)]


def _counter(name: str, text: str, values: Mapping[str, float], label: str) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label] if label else None)
    for label_value, number in values.items():
        family.add_metric([label_value] if label else [], number)
    return family
