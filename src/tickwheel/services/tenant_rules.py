"""What the records of tenants mean for the firing side: how many runs start, who is held, and shares."""

from collections.abc import Mapping

import numpy as np

from tickwheel.domain.quotas import TenantSettings
from tickwheel.domain.tenants import BUCKET_COUNT, tenant_bucket
from tickwheel.services.gates.limit_gate import LimitGate
from tickwheel.services.gates.tenant_gate import TenantGate
from tickwheel.services.plans import Planner
from tickwheel.services.ready import ReadyRing
from tickwheel.services.shares import EVEN, Floats
from tickwheel.services.tenants import Tenants


class TenantRules:
    """Tells the parts of one firing side, now and whenever a record changes."""

    def __init__(
        self, tenants: Tenants, planner: Planner, ready: ReadyRing, limits: LimitGate, gate: TenantGate
    ) -> None:
        self._tenants, self._planner, self._ready, self._limits = tenants, planner, ready, limits
        self._concurrency: object = None
        gate.follow(tenants)
        tenants.when_changed(self._settle)

    def _settle(self) -> None:
        defaults, known = self._tenants.defaults, self._tenants.known
        self._ready.set_weights(weights_of(defaults, known))
        concurrency = defaults.limits.concurrency, {name: one.limits.concurrency for name, one in known.items()}
        if concurrency == self._concurrency:
            return
        self._concurrency = concurrency
        bounded = concurrency[0] is not None or any(most is not None for most in concurrency[1].values())
        self._planner.tenant_limit = self._limit_of if bounded else None
        self._limits.look_anew()

    def _limit_of(self, tenant_id: str) -> int | None:
        return self._tenants.of(tenant_id).limits.concurrency


def weights_of(defaults: TenantSettings, known: Mapping[str, TenantSettings]) -> Floats:
    """The shares of all buckets. Of tenants that share one, the one with the largest weight speaks for it."""
    if defaults.limits.weight is None and all(one.limits.weight is None for one in known.values()):
        return EVEN
    weights = np.full(BUCKET_COUNT, defaults.limits.weight or 1.0)
    named: dict[int, float] = {}
    for tenant_id, one in known.items():
        bucket = tenant_bucket(tenant_id)
        named[bucket] = max(named.get(bucket, 0.0), one.limits.weight or 1.0)
    weights[list(named)] = list(named.values())
    return weights
