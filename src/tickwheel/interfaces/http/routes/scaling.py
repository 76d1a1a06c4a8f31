"""How many workers are needed."""

from collections.abc import Mapping
from typing import Final

from tickwheel.domain.job import Lane
from tickwheel.domain.scaling import DRAIN_SECONDS_DEFAULT, DRAIN_SECONDS_MAX
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.wire import Answer, Refusal, ok
from tickwheel.interfaces.http.worker_bodies import SLOTS_MAX, LaneScaling, ScalingBody
from tickwheel.services.load import LaneNeed, Need

_UNSET: Final = 0


class ScalingRoutes:
    """Figures for autoscalers."""

    def __init__(self, deps: Deps) -> None:
        self._demand = deps.demand

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {("GET", "/v1/scaling"): self.scaling}

    async def scaling(self, call: Call) -> Answer:
        """The need for workers, in all and by lane."""
        query = call.query
        slots = query.integer("slots_per_worker", _UNSET, 1, SLOTS_MAX)
        drain_seconds = query.integer("drain_seconds", DRAIN_SECONDS_DEFAULT, 1, DRAIN_SECONDS_MAX)
        query.done()
        if self._demand is None or not await self._demand.look():
            raise Refusal("not_ready", "No node that fires has told this one what waits for workers.")
        return ok(scaling_body(self._demand.need(drain_seconds, slots or None), drain_seconds))


def scaling_body(need: Need, drain_seconds: int) -> ScalingBody:
    """As it is answered."""
    lanes = {lane.name: _lane(one) for lane, one in zip(Lane, need.lanes, strict=True)}
    return ScalingBody(
        needed_workers=need.all.needed_workers,
        needed_slots=need.all.needed_slots,
        backlog=need.all.backlog,
        arrivals_per_second=need.all.arrivals_per_second,
        oldest_due_age_ms=need.all.oldest_due_age_ms,
        workers=need.workers,
        slots=need.slots,
        in_flight=need.busy,
        slots_per_worker=need.slots_per_worker,
        mean_run_ms=need.mean_run_ms,
        drain_seconds=drain_seconds,
        lanes=lanes,
    )


def _lane(need: LaneNeed) -> LaneScaling:
    return LaneScaling(
        need.needed_workers,
        need.needed_slots,
        need.backlog,
        need.arrivals_per_second,
        need.oldest_due_age_ms,
    )
