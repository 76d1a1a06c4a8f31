"""What a process knows of its tenants: their records, kept fresh, and the limits that they are held to here."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tickwheel.adapters.system import SystemClock
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.config import Role, Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.quotas import LimitName
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.registry import Registry
from tickwheel.services.jobs import Jobs
from tickwheel.services.ownership.membership import Standing
from tickwheel.services.ownership.ownership import Ownership
from tickwheel.services.quotas import DISABLED, Quotas, QuotaStore
from tickwheel.services.scheduler import Scheduler
from tickwheel.services.supervision import supervise
from tickwheel.services.tenants import Tenants
from tickwheel.wiring.stores import open_settings_store


class Tenancy:
    """`start` keeps the records fresh until `stop`. `ownership`: the node's side of a cluster, if it has one."""

    def __init__(
        self,
        tenants: Tenants,
        store: QuotaStore,
        clock: Clock,
        events: EventSink,
        ownership: Callable[[], Ownership | None],
    ) -> None:
        self.tenants, self._ownership = tenants, ownership
        self.quotas = Quotas(tenants, store, clock, self._api_nodes)
        self._clock, self._events = clock, events
        self._loop: asyncio.Task[None] | None = None

    def bind(self, jobs: Jobs, scheduler: Scheduler | None, metrics: Metrics) -> None:
        """Hold new jobs to the limits, and show what was refused and what waits."""
        jobs.limit_by(self.quotas)
        names = [*(name.value for name in LimitName), DISABLED]
        metrics.show("quota_refusals", lambda: {name: float(self.quotas.refused[name]) for name in names})
        if scheduler is not None:
            metrics.show("tenant_held_timers", lambda: float(len(scheduler.tenants)))

    def start(self) -> None:
        """On the running event loop. Again: nothing."""
        if self._loop is None:
            running = supervise("tenants", self.tenants.run, self._clock, self._events)
            self._loop = asyncio.create_task(running, name="tickwheel-tenants")

    async def stop(self) -> None:
        """Again: nothing."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)

    def _api_nodes(self) -> int:
        """This one, and the others that serve it and are not silent."""
        ownership = self._ownership()
        members = [] if ownership is None else ownership.members()
        others = sum(m.standing is not Standing.SILENT and Role.API in m.note.roles for m in members)
        return 1 + others


@asynccontextmanager
async def open_tenancy(settings: Settings) -> AsyncIterator[tuple[Tenants, Quotas]]:
    """Those of a store, for a command. Raises `ConfigError` and `StoreUnavailable`."""
    if settings.store.startswith("memory:"):
        raise ConfigError([FieldProblem("store", "memory: can't be looked into from another process")])
    clock = SystemClock()
    store = await open_settings_store(settings, clock)
    try:
        tenants = await open_tenants(store, clock)
        yield tenants, Quotas(tenants, store, clock)
    finally:
        await store.aclose()


async def open_tenants(registry: Registry, clock: Clock) -> Tenants:
    """The records, read once. Raises `StoreUnavailable`."""
    tenants = Tenants(registry, clock)
    await tenants.refresh()
    return tenants
