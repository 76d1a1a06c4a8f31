"""How many workers are needed, as a node knows it; and the same figures as gauges.

Every node that fires shows those of the whole cluster: take the maximum over nodes, not the sum. Others answer
when they are asked, and show no gauges.
"""

from collections.abc import Callable, Sequence

from tickwheel.adapters.telemetry.exposition import Values
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.domain.job import Lane
from tickwheel.domain.scaling import DRAIN_SECONDS_DEFAULT, LaneLoad
from tickwheel.ports.clock import Clock
from tickwheel.ports.workers import WorkerStore
from tickwheel.services.load import Demand, LaneNeed, Need, SessionReading
from tickwheel.services.ownership.ownership import Ownership
from tickwheel.services.scheduler import Scheduler


def build_demand(
    scheduler: Scheduler | None, ownership: Callable[[], Ownership | None], store: WorkerStore, clock: Clock
) -> Demand:
    """What this node, if it fires, and the others have for workers."""

    def of_others() -> Sequence[Sequence[LaneLoad]]:
        others = ownership()
        return () if others is None else others.loads()

    if scheduler is None:
        reading = SessionReading(store, clock)
        return Demand(loads=of_others, states=lambda: reading.states, clock=clock, refresh=reading.refresh)
    elsewhere = scheduler.elsewhere
    return Demand(
        loads=lambda: [elsewhere.load(), *of_others()], states=lambda: elsewhere.watch.states, clock=clock
    )


def add_scaling_gauges(metrics: Metrics, demand: Demand) -> None:
    """One value per lane or transport: however many workers there are, the series are the same."""

    def show(name: str, read: Callable[[Need], Values]) -> None:
        metrics.show(name, lambda: read(demand.need(DRAIN_SECONDS_DEFAULT)))

    def by_lane(name: str, value: Callable[[LaneNeed], float]) -> None:
        def read(need: Need) -> Values:
            return {lane.name: float(value(one)) for lane, one in zip(Lane, need.lanes, strict=True)}

        show(name, read)

    show("needed_workers", lambda need: need.all.needed_workers)
    show("workers", lambda need: need.workers)
    show("worker_slots", lambda need: need.slots)
    show("worker_busy_slots", lambda need: need.busy)
    show("worker_run_seconds", lambda need: need.mean_run_ms / 1000)
    by_lane("worker_needed_slots", lambda one: one.needed_slots)
    by_lane("worker_backlog", lambda one: one.backlog)
    by_lane("worker_arrivals_per_second", lambda one: one.arrivals_per_second)
    by_lane("worker_oldest_due_seconds", lambda one: one.oldest_due_age_ms / 1000)
