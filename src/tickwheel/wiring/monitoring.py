"""What watches a node: its metrics, its objectives, and what is counted for them now and then."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from tickwheel.adapters.system import SystemClock
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.adapters.telemetry.store_calls import StoreCalls
from tickwheel.config import Settings
from tickwheel.domain.slo import PARTS, Counted, Objective, parse_objectives
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.queue import Queue
from tickwheel.services.audit import StandingAudit
from tickwheel.services.authentication import Authentication
from tickwheel.services.load import Demand
from tickwheel.services.punctuality import Punctuality
from tickwheel.services.remote.routes import Routes
from tickwheel.services.scheduler import Scheduler
from tickwheel.services.shedding import Shedding
from tickwheel.services.store_writes import StoreWrites
from tickwheel.services.supervision import supervise
from tickwheel.services.totals import Totals
from tickwheel.wiring.cluster import Cluster
from tickwheel.wiring.gauges import (
    add_access_gauges,
    add_audit_gauges,
    add_clock_gauges,
    add_cluster_gauges,
    add_gauges,
    add_shedding_gauges,
    add_total_gauges,
)
from tickwheel.wiring.scaling import add_scaling_gauges
from tickwheel.wiring.stores import AuditedStore
from tickwheel.wiring.tracing import open_tracing


class Monitoring:
    """Made before everything else. `sinks` hear of all events; `watch` is told the parts of the node."""

    def __init__(self, settings: Settings, clock: Clock, *, name: str, process: str, version: str) -> None:
        self._clock = clock
        self.metrics = Metrics(process, settings.metrics_tenants)
        self.calls = StoreCalls(self.metrics)
        self.writes = StoreWrites(clock)
        self.punctuality = Punctuality(parse_objectives(settings.slo), clock, name)
        self.tracing = open_tracing(settings, clock, name)
        self.sinks: Sequence[EventSink] = (self.metrics, self.punctuality, *self.tracing.sinks)
        self._counting: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
        self._loops: list[asyncio.Task[None]] = []
        self._exporting: Callable[[], Coroutine[Any, Any, None]] = self.tracing.run
        self.metrics.show("build_info", lambda: {version: 1.0})

    def watch(
        self,
        *,
        store: AuditedStore,
        queue: Queue,
        scheduler: Scheduler | None,
        cluster: Cluster | None,
        events: EventSink,
        is_leader: Callable[[], bool],
        shedding: Shedding,
        authentication: Authentication,
        demand: Demand,
    ) -> None:
        """Show what these know."""
        metrics, clock = self.metrics, self._clock
        add_shedding_gauges(metrics, shedding)
        add_access_gauges(metrics, authentication)
        self.writes.tell(events)
        watch = partial(self.writes.run, store.check)
        self._counting = [("writes", partial(supervise, "writes", watch, clock, events))]
        self.tracing.show(metrics)
        self._exporting = partial(supervise, "traces", self.tracing.run, clock, events)
        if cluster is not None:
            add_cluster_gauges(metrics, cluster, scheduler)
        elif isinstance(clock, SystemClock):
            add_clock_gauges(metrics, clock)
        if scheduler is not None:
            add_gauges(metrics, scheduler, clock)
            add_objectives(metrics, self.punctuality)
            add_scaling_gauges(metrics, demand)
            self._count(store, queue, scheduler.elsewhere.routes, events, is_leader)

    def _count(
        self,
        store: AuditedStore,
        queue: Queue,
        routes: Routes,
        events: EventSink,
        is_leader: Callable[[], bool],
    ) -> None:
        """What the node that leads counts for all."""
        clock = self._clock
        totals = Totals(
            store=store, queue=queue, routes=lambda: list(routes.served()), clock=clock, is_leader=is_leader
        )
        audit = StandingAudit(store=store, clock=clock, events=events, is_leader=is_leader)
        add_total_gauges(self.metrics, totals)
        add_audit_gauges(self.metrics, audit)
        self._counting += [
            ("totals", partial(supervise, "totals", totals.run, clock, events)),
            ("audit", partial(supervise, "audit", audit.run, clock, events)),
        ]

    def start(self) -> None:
        """Begin to count, and to export spans."""
        self.tracing.start(self._exporting)
        self._loops = [asyncio.create_task(run(), name=f"tickwheel-{name}") for name, run in self._counting]

    async def stop(self) -> None:
        """Again: nothing."""
        loops, self._loops = self._loops, []
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)

    async def aclose(self) -> None:
        """Last of all: what ended until now is exported."""
        await self.stop()
        await self.tracing.aclose()


def add_objectives(metrics: Metrics, punctuality: Punctuality) -> None:
    """One series per objective, however many starts."""
    objectives = punctuality.objectives

    def show(name: str, value: Callable[[Objective, Counted], float]) -> None:
        metrics.show(
            name,
            lambda: {
                objective.name: value(objective, total)
                for objective, total in zip(objectives, punctuality.totals(), strict=True)
            },
        )

    show("slo_starts", lambda objective, total: total.starts)
    show("slo_late", lambda objective, total: total.late)
    show("slo_target_ratio", lambda objective, total: objective.target_ppm / PARTS)
    show("slo_bound_seconds", lambda objective, total: objective.bound_ms / 1000)
