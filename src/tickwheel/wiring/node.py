"""A running node from the settings: one process with its store, its firing side and its use cases."""

import os
import secrets
import socket
from collections.abc import Callable

from tickwheel.adapters.handlers.loading import load_handlers
from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.adapters.telemetry.console import Console
from tickwheel.adapters.telemetry.fanout import Fanout
from tickwheel.adapters.telemetry.logs import LogSink, configure_logs
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.config import Settings
from tickwheel.ports.events import EventSink
from tickwheel.ports.store import Store
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.jobs import Jobs
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.runs import Runs
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.wiring.executors import handlers_of, serves, signing_keys_of, webhooks
from tickwheel.wiring.gauges import add_gauges
from tickwheel.wiring.stores import open_store, store_url


class Node:
    """One process: the store, the firing side and the use cases. `start` begins firing, `stop` drains."""

    def __init__(
        self,
        *,
        settings: Settings,
        store: Store,
        scheduler: Scheduler,
        clock: SystemClock,
        randomness: SystemRandomness,
        metrics: Metrics,
        handlers: Handlers,
        worker: str,
    ) -> None:
        self.settings, self.store, self.scheduler = settings, store, scheduler
        self.clock, self.metrics, self.handlers, self.worker = clock, metrics, handlers, worker
        self.jobs = Jobs(store=store, owner=scheduler, clock=clock, randomness=randomness)
        self.runs = Runs(store=store, owner=scheduler, clock=clock)
        self.dead_letters = DeadLetters(store=store, owner=scheduler, clock=clock)

    def start(self) -> None:
        """Begin to fire."""
        self.scheduler.start()

    async def stop(self) -> None:
        """Drain within the grace time, then close the store."""
        await self.scheduler.drain(self.settings.grace_seconds * 1000)
        await self.store.aclose()


async def open_node(
    settings: Settings, *, write_line: Callable[[str], None] | None = None, colors: bool = False
) -> Node:
    """Build everything on the running event loop; fires nothing yet.

    `write_line` gets one line per attempt (the console of `dev`). Raises `ConfigError` and `StoreUnavailable`.
    """
    signing_keys = signing_keys_of(settings.webhook_secret)
    handlers = load_handlers(settings.app)
    configure_logs(log_format=settings.log_format, log_level=settings.log_level)
    clock, randomness, metrics = SystemClock(), SystemRandomness(), Metrics()
    sinks: list[EventSink] = [metrics, LogSink()]
    if write_line is not None:
        sinks.append(Console(write=write_line, clock=clock, colors=colors))
    events = Fanout(sinks)
    store = await open_store(store_url(settings), clock)
    try:
        worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        holdings = Holdings(await store.acquire(worker))
        scheduler = Scheduler(
            store=store,
            clock=clock,
            randomness=randomness,
            events=events,
            build_webhooks=webhooks(settings, clock, signing_keys),
            build_handlers=handlers_of(settings, clock, handlers),
            serves=serves(handlers),
            holdings=holdings,
            worker=worker,
            clock_behind_ms=clock.behind_ms,
            settings=SchedulerSettings(
                lease_ms=settings.lease_seconds * 1000,
                window_ms=settings.window_seconds * 1000,
                armed_limit=settings.armed_limit,
                webhook_slots=settings.webhook_slots,
                webhook_host_limit=settings.webhook_host_limit,
                handler_slots=settings.handler_slots,
                retention_ms=settings.retention_days * 86_400_000,
            ),
        )
    except BaseException:
        await store.aclose()
        raise
    add_gauges(metrics, scheduler, clock)
    return Node(
        settings=settings,
        store=store,
        scheduler=scheduler,
        clock=clock,
        randomness=randomness,
        metrics=metrics,
        handlers=handlers,
        worker=worker,
    )
