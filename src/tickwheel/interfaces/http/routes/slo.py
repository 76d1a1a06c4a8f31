"""How the objectives of lateness stand."""

from collections.abc import Mapping
from typing import Final

from tickwheel.domain.slo import PARTS, PERIOD_MS, Window
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.slo_bodies import BurnRates, ObjectiveBody, SloBody
from tickwheel.interfaces.http.tenants import tenant_filter
from tickwheel.interfaces.http.wire import Answer, Refusal, iso_text, ok
from tickwheel.services.punctuality import Attainment

_SHOWN: Final = (Window.FIVE_MINUTES, Window.HALF_HOUR, Window.HOUR, Window.SIX_HOURS, Window.THREE_DAYS)


class SloRoutes:
    """Whoever has a token of one tenant sees the objectives of that tenant only."""

    def __init__(self, deps: Deps) -> None:
        self._punctuality = deps.punctuality

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {("GET", "/v1/slo"): self.slo}

    async def slo(self, call: Call) -> Answer:
        """The objectives of all, or of a tenant."""
        tenant_id = tenant_filter(call)
        call.query.done()
        if self._punctuality is None:
            raise Refusal("not_ready", "This node fires nothing; ask one with the role scheduler.")
        found = self._punctuality.attainments()
        body = SloBody(
            node=self._punctuality.node,
            counted_since=iso_text(self._punctuality.since_ms),
            period_days=PERIOD_MS // 86_400_000,
            objectives=[_body(one) for one in found if tenant_id in (None, one.objective.tenant_id)],
        )
        return ok(body)


def _body(one: Attainment) -> ObjectiveBody:
    objective, (starts, late) = one.objective, one.counted
    return ObjectiveBody(
        name=objective.name,
        lane=None if objective.lane is None else objective.lane.name,
        tenant_id=objective.tenant_id,
        target_percent=objective.target_ppm * 100 / PARTS,
        bound_ms=objective.bound_ms,
        starts=starts,
        late=late,
        on_time_percent=round((starts - late) * 100 / starts, 4) if starts else None,
        budget_left_percent=round(one.budget_left * 100, 4),
        burn_rates=BurnRates(*(round(one.burn_rates[window], 4) for window in _SHOWN)),
        alert=None if one.rule is None else one.rule.name,
    )
