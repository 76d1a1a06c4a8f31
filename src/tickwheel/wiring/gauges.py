"""Gauges of `/metrics` that are read from their owners at each scrape."""

from collections.abc import Callable
from typing import TypeAlias

from tickwheel.adapters.system import SystemClock
from tickwheel.adapters.telemetry.metrics import GaugeReading, Metrics
from tickwheel.domain.job import Lane
from tickwheel.domain.shedding import Why
from tickwheel.ports.audit import Standing
from tickwheel.ports.clock import Clock
from tickwheel.services.audit import AuditReport, StandingAudit
from tickwheel.services.authentication import WHYS, Authentication
from tickwheel.services.ready import KIND_HANDLER, KIND_WEBHOOK
from tickwheel.services.scheduler import Scheduler
from tickwheel.services.shedding import Shedding
from tickwheel.wiring.cluster import Cluster

AddGauge: TypeAlias = Callable[[str, str, Callable[[], float]], None]
KIND_NAMES = {KIND_WEBHOOK: "webhook", KIND_HANDLER: "handler"}


def add_gauges(metrics: Metrics, scheduler: Scheduler, clock: Clock) -> None:
    """Those of the firing side."""
    gauge = _adder(metrics)

    def backlog() -> GaugeReading:
        values = {
            f"{kind_name}_{lane.name.lower()}": float(scheduler.ready.count(kind, lane))
            for kind, kind_name in KIND_NAMES.items()
            for lane in Lane
        }
        return GaugeReading(
            name="tickwheel_backlog", help="Due and waiting for a slot.", values=values, label="queue"
        )

    def in_flight() -> GaugeReading:
        values = {name: float(len(scheduler.pools[kind].inflight)) for kind, name in KIND_NAMES.items()}
        return GaugeReading(name="tickwheel_in_flight", help="Attempts running.", values=values, label="kind")

    def oldest_due_s() -> float:
        heads = [due for kind in KIND_NAMES for due in scheduler.ready.oldest_due_ms(kind) if due is not None]
        return max(0, clock.now_ms() - min(heads)) / 1000 if heads else 0.0

    gauge("armed_timers", "Timers in the wheel.", lambda: len(scheduler.wheel))
    gauge("buffered_timers", "Timers in the buffer outside the process.", lambda: scheduler.buffering.count)
    gauge("held_timers", "Due webhooks that wait for their host.", lambda: scheduler.gate.held_count)
    gauge("limited_timers", "Due timers that wait for a slot of a limit.", lambda: len(scheduler.limits))
    gauge("parked_timers", "Due timers that are tried again after a pause.", lambda: len(scheduler.parked))
    gauge("uncommitted_completions", "Ended attempts not committed yet.", lambda: scheduler.completions.pending)
    gauge("oldest_due_seconds", "How long the oldest due timer has waited for a slot.", oldest_due_s)
    metrics.add_gauge(
        lambda: GaugeReading(
            name="tickwheel_held_by",
            help="Due runs that wait for their target, by why.",
            values=scheduler.gate.hosts.held(clock.monotonic_ms()),
            label="why",
        )
    )
    metrics.add_gauge(
        lambda: GaugeReading(
            name="tickwheel_troubled_hosts",
            help="Hosts that get fewer webhooks than allowed, by state.",
            values=scheduler.gate.hosts.states(clock.monotonic_ms()),
            label="state",
        )
    )
    metrics.add_gauge(backlog)
    metrics.add_gauge(in_flight)


def add_shedding_gauges(metrics: Metrics, shedding: Shedding) -> None:
    """Of a node that takes new jobs."""
    _adder(metrics)("shedding", "1 while new jobs are refused (429).", lambda: float(shedding.why is not None))

    def refused() -> GaugeReading:
        values = {why.value: float(shedding.refused[why]) for why in Why}
        return GaugeReading(
            name="tickwheel_shed_requests",
            help="Requests for new jobs refused so far (429).",
            values=values,
            label="why",
        )

    metrics.add_gauge(refused)


def add_access_gauges(metrics: Metrics, authentication: Authentication) -> None:
    """Of a node that asks for tokens."""

    def refused() -> GaugeReading:
        values = {why: float(authentication.refused[why]) for why in WHYS}
        return GaugeReading(
            name="tickwheel_unauthorized_requests",
            help="Requests refused so far for want of a good token (401).",
            values=values,
            label="why",
        )

    metrics.add_gauge(refused)


def add_audit_gauges(metrics: Metrics, audit: StandingAudit) -> None:
    """Of the standing check: on the node that does it, from its first lap on."""

    def reading(name: str, text: str, count: Callable[[AuditReport], int]) -> None:
        def read() -> GaugeReading:
            values = {"": float(count(audit.last))} if audit.last is not None else {}
            return GaugeReading(name=f"tickwheel_{name}", help=text, values=values)

        metrics.add_gauge(read)

    reading("unaccounted", "Jobs and runs that nothing will ever fire or end: must be 0.", lambda a: a.unaccounted)
    reading("stray_slots", "Slots of limits of concurrency that no run holds: must be 0.", lambda a: a.stray_slots)
    reading("overdue", "Jobs and runs due for over a minute and not claimed.", lambda a: a.count(Standing.OVERDUE))


def add_clock_gauges(metrics: Metrics, clock: SystemClock) -> None:
    """Of a node that goes by its machine's clock."""
    _adder(metrics)(
        "clock_behind_seconds",
        "Wall clock behind the scheduler's clock (slewed away).",
        lambda: clock.behind_ms() / 1000,
    )


def add_cluster_gauges(metrics: Metrics, cluster: Cluster) -> None:
    """Of a node that shares its store."""
    gauge = _adder(metrics)
    gauge(
        "clock_difference_seconds",
        "This machine's wall clock minus the database's.",
        lambda: cluster.clock_difference_ms / 1000,
    )
    gauge("node_fit", "1 while this node may own shards.", lambda: float(not cluster.unfit_reason()))


def _adder(metrics: Metrics) -> AddGauge:
    def gauge(name: str, text: str, read: Callable[[], float]) -> None:
        metrics.add_gauge(lambda: GaugeReading(name=f"tickwheel_{name}", help=text, values={"": read()}))

    return gauge
