"""How many workers are needed, as a node knows it; and the same figures as gauges.

Every node that fires shows those of the whole cluster: take the maximum over nodes, not the sum.
"""

from collections.abc import Callable, Sequence

from tickwheel.adapters.telemetry.metrics import GaugeReading, Metrics
from tickwheel.domain.job import Lane
from tickwheel.domain.scaling import DRAIN_SECONDS_DEFAULT, LaneLoad
from tickwheel.ports.clock import Clock
from tickwheel.services.load import Demand, LaneNeed, Need
from tickwheel.services.ownership.ownership import Ownership
from tickwheel.services.scheduler import Scheduler


def build_demand(scheduler: Scheduler, ownership: Callable[[], Ownership | None], clock: Clock) -> Demand:
    """What this node and the others have for workers."""

    def loads() -> Sequence[Sequence[LaneLoad]]:
        others = ownership()
        return [scheduler.elsewhere.load(), *(() if others is None else others.loads())]

    return Demand(loads=loads, states=lambda: scheduler.elsewhere.watch.states, clock=clock)


def add_scaling_gauges(metrics: Metrics, demand: Demand) -> None:
    """One value per lane or transport: however many workers there are, the series are the same."""

    def gauge(name: str, text: str, label: str, read: Callable[[Need], dict[str, float]]) -> None:
        def reading() -> GaugeReading:
            values = read(demand.need(DRAIN_SECONDS_DEFAULT))
            return GaugeReading(name=f"tickwheel_{name}", help=text, values=values, label=label)

        metrics.add_gauge(reading)

    def by_lane(name: str, text: str, value: Callable[[LaneNeed], float]) -> None:
        def read(need: Need) -> dict[str, float]:
            return {lane.name: float(value(one)) for lane, one in zip(Lane, need.lanes, strict=True)}

        gauge(name, text, "lane", read)

    gauge("needed_workers", "Workers that the load needs.", "", lambda need: {"": need.all.needed_workers})
    gauge("workers", "Live workers.", "", lambda need: {"": need.workers})
    gauge("worker_slots", "Attempts that all workers can run at a time.", "", lambda need: {"": need.slots})
    gauge("worker_busy_slots", "Attempts that run at workers.", "", lambda need: {"": need.busy})
    gauge("worker_run_seconds", "Mean run time at workers.", "", lambda need: {"": need.mean_run_ms / 1000})
    by_lane("worker_needed_slots", "Slots that the load needs.", lambda one: one.needed_slots)
    by_lane("worker_backlog", "Due, and waiting for workers.", lambda one: one.backlog)
    by_lane(
        "worker_arrivals_per_second", "Came due for workers, last minute.", lambda one: one.arrivals_per_second
    )
    by_lane(
        "worker_oldest_due_seconds",
        "How long the oldest that waits for workers has been due.",
        lambda one: one.oldest_due_age_ms / 1000,
    )
