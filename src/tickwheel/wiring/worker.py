"""A worker process from the settings: its source of work, its executors, its heart.

By HTTP it needs a server and a token. With the store it is a session there, has a clock that follows the store's,
takes hints from the queue, and listens on a peer port, so that the owners of shards notice at once when it dies.
It is no member of the cluster and owns nothing.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Final

import structlog

from tickwheel.adapters.handlers.loading import load_handlers
from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.peers import TcpPeers
from tickwheel.adapters.pull import HttpCalls, HttpSource
from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.adapters.telemetry.fanout import Fanout
from tickwheel.adapters.telemetry.logs import LogSink, configure_logs
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.adapters.telemetry.store_calls import StoreCalls
from tickwheel.config import Settings, WorkerOptions
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.job import TargetType
from tickwheel.domain.latency_gradient import LatencyGradient
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.remote_work import WorkSource
from tickwheel.ports.workers import WorkerNote
from tickwheel.services.ownership.node_note import process_name
from tickwheel.services.remote.store_source import StoreSource
from tickwheel.services.remote.worker_loop import BuildExecutor, WorkerLoop
from tickwheel.services.store_clock import StoreClock, StoreClockWatch
from tickwheel.services.supervision import supervise
from tickwheel.services.tenants import Tenants
from tickwheel.wiring.accelerators import with_brief_leases
from tickwheel.wiring.cluster import advertised_host
from tickwheel.wiring.executors import handlers_of, signing_keys_of, webhooks
from tickwheel.wiring.measured_store import measured
from tickwheel.wiring.node import node_name
from tickwheel.wiring.queues import open_queue, queue_url
from tickwheel.wiring.secrets import Secrets, open_secrets
from tickwheel.wiring.shared_store import is_shared, open_shared_store
from tickwheel.wiring.stores import shown_store
from tickwheel.wiring.tenants import open_tenants
from tickwheel.wiring.tracing import open_tracing

RANDOM_BYTES: Final = 8
HANDLERS_PER_SERVER: Final = 500
"""Names that one poll may carry."""


class WorkerProcess:
    """One worker on the running event loop."""

    def __init__(
        self,
        loop: WorkerLoop,
        *,
        name: str,
        handlers: Sequence[str],
        where: str,
        metrics: Metrics,
        closers: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        self.loop, self.name, self.handlers, self.where = loop, name, tuple(handlers), where
        self.metrics = metrics
        self._closers = closers

    async def start(self) -> None:
        """Enlist, and begin to take work. Raises what keeps it from that; then it is closed."""
        try:
            await self.loop.start()
        except BaseException:
            await self.aclose()
            raise

    async def stop(self, grace_ms: int) -> None:
        """Take nothing more, let what runs end within that time, hand back the rest, leave."""
        try:
            await self.loop.drain(grace_ms)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Let go of everything. Again: nothing."""
        closers, self._closers = self._closers, ()
        for close in closers:
            await close()


async def open_worker(
    settings: Settings, options: WorkerOptions, handlers: Handlers | None = None, *, with_logs: bool = True
) -> WorkerProcess:
    """Build it; takes no work yet. Raises `ConfigError` and `StoreUnavailable`.

    `handlers` are those of the settings' app unless given. `with_logs`: set up the process's log.
    """
    chosen = _handlers(settings, options, handlers)
    if with_logs:
        speaker = (options.name or node_name()) if settings.log_format == "json" else ""
        configure_logs(log_format=settings.log_format, log_level=settings.log_level, node=speaker)
    parts = _Parts(settings, options, chosen)
    return await (parts.over_http() if options.servers else parts.with_store())


def _handlers(settings: Settings, options: WorkerOptions, handlers: Handlers | None) -> Handlers:
    if handlers is None and not settings.app:
        if not options.webhooks:
            message = "is missing: name the module with your handlers (--app app:app), or do webhooks (--webhooks)"
            raise ConfigError([FieldProblem("app", message)])
        return Handlers()
    chosen = load_handlers(settings.app) if handlers is None else handlers
    if len(chosen) > HANDLERS_PER_SERVER and options.servers:
        message = f"registers {len(chosen)} handlers; a worker over HTTP serves {HANDLERS_PER_SERVER} at most"
        raise ConfigError([FieldProblem("app", message)])
    if not len(chosen) and not options.webhooks:
        raise ConfigError([FieldProblem("handlers", 'are none; write @handler("name") before a function')])
    return chosen


class _Parts:
    """What both kinds of workers are made of."""

    def __init__(self, settings: Settings, options: WorkerOptions, handlers: Handlers) -> None:
        self._settings, self._options, self._handlers = settings, options, handlers
        self._name = options.name or node_name()
        self._metrics = Metrics()
        self._metrics.show("build_info", lambda: {version("tickwheel"): 1.0})
        self._logs = LogSink(tells_attempts=settings.log_level == "debug")
        self._events: EventSink = Fanout([self._logs, self._metrics])

    async def over_http(self) -> WorkerProcess:
        clock = SystemClock()
        source = HttpSource(
            HttpCalls(self._options.servers, token=self._options.token, trust=self._options.trust),
            handlers=self._handlers.names,
            webhooks=self._options.webhooks,
            clock=clock,
            events=self._events,
        )
        loop = self._loop(source, clock, self._note(via="http"))
        return self._process(loop, ", ".join(self._options.servers), [source.aclose])

    async def with_store(self) -> WorkerProcess:
        if not is_shared(self._settings.store):
            raise ConfigError([FieldProblem("store", _ONE_PROCESS)])
        machine = SystemClock()
        clock = StoreClock(machine=machine, wall_ms=machine.wall_ms)
        shared, warnings = await open_shared_store(self._settings, clock)
        store = measured(shared, StoreCalls(self._metrics), clock)
        tracing = open_tracing(self._settings, clock, self._name)
        tracing.show(self._metrics)
        self._events = Fanout([self._logs, self._metrics, *tracing.sinks])
        tracing.start(partial(supervise, "traces", tracing.run, clock, self._events))
        closers: list[Callable[[], Awaitable[object]]] = [tracing.aclose, store.aclose]
        try:
            for warning in warnings:
                structlog.get_logger().warning("store.unsafe", warning=warning)
            await clock.synchronise(store)
            clock.refuse_when_off()
            queue = open_queue(queue_url(self._settings), self._settings, clock)
            queue = with_brief_leases(queue, self._settings, clock)
            closers.insert(0, queue.aclose)
            process = process_name(self._name, SystemRandomness().random_bytes(RANDOM_BYTES))
            peers = TcpPeers(host=self._settings.host, advertise=advertised_host(self._settings), clock=clock)
            address = await peers.open(process, lambda: None)
            closers.insert(0, peers.aclose)
            watch = StoreClockWatch(clock=clock, store=store, events=self._events)
            closers.insert(0, _keep_running("store clock", watch.run, clock, self._events))
            source = StoreSource(
                store=store,
                queue=queue,
                clock=clock,
                randomness=SystemRandomness(),
                events=self._events,
                process=process,
                handlers=self._handlers.names,
                webhooks=self._options.webhooks,
                lease_ms=self._settings.lease_seconds * 1000,
                tenant_id=self._options.tenant_id,
            )
            opened = await open_secrets(self._settings, store, clock, self._events)
            opened.start()
            closers.insert(0, opened.stop)
            tenants = await open_tenants(store, clock)
            closers.insert(0, _keep_running("tenants", tenants.run, clock, self._events))
            loop = self._loop(source, clock, self._note(via="store", address=address), opened, tenants)
        except BaseException:
            for close in closers:
                await close()
            raise
        return self._process(loop, shown_store(self._settings), closers)

    def _note(self, *, via: str, address: str = "") -> WorkerNote:
        return WorkerNote(
            name=self._name,
            version=version("tickwheel"),
            handlers=self._handlers.names,
            webhooks=self._options.webhooks,
            slots=self._options.high,
            via=via,
            address=address,
            tenant_id=self._options.tenant_id,
        )

    def _loop(
        self,
        source: WorkSource,
        clock: Clock,
        note: WorkerNote,
        opened: Secrets | None = None,
        tenants: Tenants | None = None,
    ) -> WorkerLoop:
        low, high = self._options.low, self._options.high
        # Executors never get more than the slots at the same time.
        settings = dataclasses.replace(self._settings, handler_slots=high, webhook_slots=high)
        build: dict[TargetType, BuildExecutor] = {}
        if len(self._handlers):
            build[TargetType.HANDLER] = handlers_of(settings, clock, self._handlers)
        if self._options.webhooks:
            build[TargetType.HTTP_WEBHOOK] = _webhooks(settings, clock, opened, tenants)
        return WorkerLoop(
            source=source,
            clock=clock,
            events=self._events,
            note=note,
            build=build,
            prefetch=self._options.prefetch,
            gradient=LatencyGradient(low, high) if low < high else None,
        )

    def _process(
        self, loop: WorkerLoop, where: str, closers: Sequence[Callable[[], Awaitable[object]]]
    ) -> WorkerProcess:
        return WorkerProcess(
            loop,
            name=self._name,
            handlers=self._handlers.names,
            where=where,
            metrics=self._metrics,
            closers=closers,
        )


def _webhooks(settings: Settings, clock: Clock, opened: Secrets | None, tenants: Tenants | None) -> BuildExecutor:
    """Over HTTP a worker gets headers in the clear, and the keys of a tenant with each run; and its own egress
    policy holds for all tenants.
    """
    if opened is None or tenants is None:
        return webhooks(settings, clock, signing_keys_of(settings.webhook_secret))
    keys_for, policy_of = opened.signing.keys_for, tenants.egress_of
    return webhooks(settings, clock, policy_of=policy_of, vault=opened.vault, keys_for=keys_for)


def _keep_running(
    name: str, loop: Callable[[], Awaitable[None]], clock: Clock, events: EventSink
) -> Callable[[], Awaitable[object]]:
    running = asyncio.create_task(supervise(name, loop, clock, events), name=f"tickwheel-{name.replace(' ', '-')}")

    async def close() -> None:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    return close


_ONE_PROCESS: Final = (
    "a worker apart needs a store that processes share (postgresql://…); one on SQLite belongs to its server, "
    "so take work from that server: --server http://127.0.0.1:8080"
)
