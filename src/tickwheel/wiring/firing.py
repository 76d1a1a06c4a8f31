"""The firing side from the settings."""

from collections.abc import Callable, Sequence

from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.system import SystemRandomness
from tickwheel.config import Role, Settings
from tickwheel.config.rates import handler_rates, host_rates
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.peers import Peers
from tickwheel.ports.queue import WEBHOOKS, Queue, handler_route
from tickwheel.ports.shards import ShardStore
from tickwheel.ports.store import Store
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.services.tenants import Tenants
from tickwheel.wiring.buffers import open_buffer
from tickwheel.wiring.executors import handlers_of, serves, webhooks
from tickwheel.wiring.secrets import Secrets


def build_scheduler(
    settings: Settings,
    *,
    store: Store,
    clock: Clock,
    events: EventSink,
    handlers: Handlers,
    holdings: Holdings,
    worker: str,
    shards: ShardStore | None = None,
    is_leader: Callable[[], bool] = lambda: True,
    clock_behind_ms: Callable[[], int] = lambda: 0,
    queue: Queue | None = None,
    peers: Peers | None = None,
    secrets: Secrets,
    tenants: Tenants,
) -> Scheduler:
    """Starts nothing."""
    scheduler = Scheduler(
        store=store,
        clock=clock,
        randomness=SystemRandomness(),
        events=events,
        build_webhooks=webhooks(
            settings,
            clock,
            policy_of=tenants.egress_of,
            vault=secrets.vault,
            keys_for=secrets.signing.keys_for,
        ),
        build_handlers=handlers_of(settings, clock, handlers),
        serves=serves(handlers) if settings.has(Role.WORKER) else lambda target: False,
        holdings=holdings,
        worker=worker,
        shards=shards,
        is_leader=is_leader,
        clock_behind_ms=clock_behind_ms,
        queue=queue,
        peers=peers,
        local_routes=local_routes(settings, handlers),
        buffer=open_buffer(settings, clock),
        settings=SchedulerSettings(
            lease_ms=settings.lease_seconds * 1000,
            window_ms=settings.window_seconds * 1000,
            near_ms=settings.buffer_near_seconds * 1000,
            buffer_ms=settings.buffer_hours * 3_600_000,
            armed_limit=settings.armed_limit,
            webhook_slots=settings.webhook_slots,
            webhook_host_limit=settings.webhook_host_limit,
            handler_slots=settings.handler_slots,
            retention_ms=settings.retention_days * 86_400_000,
            host_rates=host_rates(settings.host_rate),
            handler_rates=handler_rates(settings.queue_rate),
        ),
    )
    scheduler.follow(tenants)
    return scheduler


def local_routes(settings: Settings, handlers: Handlers) -> Sequence[str]:
    """What runs in this process, by route."""
    if not settings.has(Role.WORKER):
        return ()
    return (WEBHOOKS, *(handler_route(name) for name in handlers.names))
