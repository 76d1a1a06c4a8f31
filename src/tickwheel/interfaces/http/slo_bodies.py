"""How objectives are answered."""

from typing import Any, Final

import msgspec


class BurnRates(msgspec.Struct, rename={"m5": "5m", "m30": "30m", "h1": "1h", "h6": "6h", "d3": "3d"}):
    """How many times faster than allowed the error budget was used up, by the span that is looked back."""

    m5: float
    m30: float
    h1: float
    h6: float
    d3: float


class ObjectiveBody(msgspec.Struct):
    """One objective, and how it stands. `alert`: which of the rules its burn rates meet (null: none)."""

    name: str
    lane: str | None
    tenant_id: str | None
    target_percent: float
    bound_ms: int
    starts: int
    late: int
    on_time_percent: float | None
    budget_left_percent: float
    burn_rates: BurnRates
    alert: str | None


class SloBody(msgspec.Struct):
    """What one node has counted, since it was started; of the last `period_days` at most."""

    node: str
    counted_since: str
    period_days: int
    objectives: list[ObjectiveBody]


SLO_TYPES: Final[tuple[Any, ...]] = (SloBody,)
"""What the OpenAPI document describes from here."""
