"""What of `/metrics` is read from its owners at each scrape."""

from collections.abc import Callable
from typing import TypeAlias

from tickwheel.adapters.system import SystemClock
from tickwheel.adapters.telemetry.exposition import Values
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.job import Lane
from tickwheel.domain.shedding import Why
from tickwheel.ports.audit import Standing
from tickwheel.ports.clock import Clock
from tickwheel.services.audit import AuditReport, StandingAudit
from tickwheel.services.authentication import WHYS, Authentication
from tickwheel.services.live.pulse import oldest_held_ms
from tickwheel.services.ready import KIND_HANDLER, KIND_WEBHOOK
from tickwheel.services.scheduler import Scheduler
from tickwheel.services.shedding import Shedding
from tickwheel.services.totals import Totals
from tickwheel.wiring.cluster import Cluster

Figure: TypeAlias = tuple[str, Callable[[], Values]]
"""A name of the catalogue, and where its value is read."""
KIND_NAMES = {KIND_WEBHOOK: "webhook", KIND_HANDLER: "handler"}


def add_gauges(metrics: Metrics, scheduler: Scheduler, clock: Clock) -> None:
    """Those of the firing side."""

    def backlog() -> dict[tuple[str, ...], float]:
        return {
            (kind_name, lane.name): float(scheduler.ready.count(kind, lane))
            for kind, kind_name in KIND_NAMES.items()
            for lane in Lane
        }

    def in_flight() -> Values:
        return {name: float(len(scheduler.pools[kind].inflight)) for kind, name in KIND_NAMES.items()}

    def oldest_due_s() -> float:
        heads = [due for kind in KIND_NAMES for due in scheduler.ready.oldest_due_ms(kind) if due is not None]
        return max(0, clock.now_ms() - min(heads)) / 1000 if heads else 0.0

    def oldest_held_s() -> float:
        due_ms = oldest_held_ms(scheduler)
        return 0.0 if due_ms is None else max(0, clock.now_ms() - due_ms) / 1000

    figures: tuple[Figure, ...] = (
        ("armed_timers", lambda: len(scheduler.wheel)),
        ("buffered_timers", lambda: scheduler.buffering.count),
        ("held_timers", lambda: scheduler.gate.held_count),
        ("limited_timers", lambda: len(scheduler.limits)),
        ("parked_timers", lambda: len(scheduler.parked)),
        ("uncommitted_completions", lambda: scheduler.completions.pending),
        ("oldest_due_seconds", oldest_due_s),
        ("oldest_held_seconds", oldest_held_s),
        ("held_by", lambda: scheduler.gate.hosts.held(clock.monotonic_ms())),
        ("troubled_hosts", lambda: scheduler.gate.hosts.states(clock.monotonic_ms())),
        ("backlog", backlog),
        ("in_flight", in_flight),
        ("shards", lambda: SHARD_COUNT),
        ("shards_held", lambda: len(scheduler.holdings.shards())),
    )
    _show(metrics, *figures)


def add_shedding_gauges(metrics: Metrics, shedding: Shedding) -> None:
    """Of a node that takes new jobs."""
    _show(
        metrics,
        ("shedding", lambda: float(shedding.why is not None)),
        ("shed_requests", lambda: {why.value: float(shedding.refused[why]) for why in Why}),
    )


def add_access_gauges(metrics: Metrics, authentication: Authentication) -> None:
    """Of a node that asks for tokens."""
    refused = authentication.refused
    metrics.show("unauthorized_requests", lambda: {why: float(refused[why]) for why in WHYS})


def add_audit_gauges(metrics: Metrics, audit: StandingAudit) -> None:
    """Of the standing check: on the node that does it, from its first lap on."""

    def show(name: str, count: Callable[[AuditReport], int]) -> None:
        metrics.show(name, lambda: dict[str, float]() if audit.last is None else float(count(audit.last)))

    show("unaccounted", lambda report: report.unaccounted)
    show("stray_slots", lambda report: report.stray_slots)
    show("overdue", lambda report: report.count(Standing.OVERDUE))


def add_total_gauges(metrics: Metrics, totals: Totals) -> None:
    """Of the store and the queue: on the node that counts them."""

    def queue_depth() -> Values:
        depths = totals.depths
        return {} if depths is None else {lane.name: float(depths[lane]) for lane in Lane}

    metrics.show("queue_depth", queue_depth)
    for name, field in (("jobs", "jobs"), ("waiting_timers", "waiting"), ("dead_letters", "dead_letters")):
        metrics.show(name, _total(totals, field))


def _total(totals: Totals, field: str) -> Callable[[], Values]:
    return lambda: dict[str, float]() if totals.counts is None else float(getattr(totals.counts, field))


def add_clock_gauges(metrics: Metrics, clock: SystemClock) -> None:
    """Of a node that goes by its machine's clock."""
    metrics.show("clock_behind_seconds", lambda: clock.behind_ms() / 1000)


def add_cluster_gauges(metrics: Metrics, cluster: Cluster, scheduler: Scheduler | None) -> None:
    """Of a node that shares its store."""
    _show(
        metrics,
        ("clock_difference_seconds", lambda: cluster.clock_difference_ms / 1000),
        ("node_fit", lambda: float(not cluster.unfit_reason())),
    )
    if scheduler is not None:
        metrics.show("feed_lag_seconds", lambda: 0.0 if scheduler.feed is None else scheduler.feed.lag_ms() / 1000)


def _show(metrics: Metrics, *figures: Figure) -> None:
    for name, read in figures:
        metrics.show(name, read)
