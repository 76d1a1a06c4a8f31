"""Who asks for how much of late: while too much is asked, only those are refused that ask for a large part of it.

Demand counts whether it was met or not, and halves every `HALF_MS`. A tenant is modest as long as its part is
below half of an equal one. Example: one tenant asks for 10,000 jobs per second and nine for 10 each: an equal part
would be 1,009, so the nine are modest and the one is not. Two that ask for 5,000 each are both refused.
"""

from collections.abc import Iterable, Mapping
from typing import Final

HALF_MS: Final = 5_000
MOST_TENANTS: Final = 10_000
FORGOTTEN: Final = 0.1


class DemandShares:
    """Decaying counts by tenant."""

    def __init__(self) -> None:
        self._counts: dict[str, float] = {}
        self._total = 0.0
        self._halved_ms = 0

    def note(self, counts: Mapping[str, int], now_ms: int) -> None:
        """So many jobs are asked for, by tenant."""
        halves = (now_ms - self._halved_ms) // HALF_MS
        if halves > 0:
            self._halved_ms += halves * HALF_MS
            self._decay(0.5 ** min(halves, 64))
        for tenant_id, count in counts.items():
            self._counts[tenant_id] = self._counts.get(tenant_id, 0.0) + count
            self._total += count
        if len(self._counts) > MOST_TENANTS:
            self._decay(0.5)

    def is_modest(self, tenant_ids: Iterable[str]) -> bool:
        """Whether all of these ask for little, beside others."""
        others = len(self._counts) > 1
        limit = self._total / max(1, 2 * len(self._counts))
        return others and all(self._counts.get(tenant_id, 0.0) <= limit for tenant_id in tenant_ids)

    def _decay(self, factor: float) -> None:
        kept = {tenant_id: count * factor for tenant_id, count in self._counts.items()}
        self._counts = {tenant_id: count for tenant_id, count in kept.items() if count >= FORGOTTEN}
        self._total = sum(self._counts.values())
