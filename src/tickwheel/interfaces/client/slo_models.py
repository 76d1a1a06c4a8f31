"""What the API answers about objectives of lateness, as typed values."""

from collections.abc import Mapping
from datetime import datetime

import msgspec


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """How late starts may be and are. `burn_rates` by the span that is looked back: 5m, 30m, 1h, 6h, 3d."""

    name: str
    lane: str | None
    tenant_id: str | None
    target_percent: float
    bound_ms: int
    starts: int
    late: int
    on_time_percent: float | None
    budget_left_percent: float
    burn_rates: Mapping[str, float]
    alert: str | None


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """What one node has counted since it was started, of the last 30 days at most."""

    node: str
    counted_since: datetime
    period_days: int
    objectives: tuple[Objective, ...]
