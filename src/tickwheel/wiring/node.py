"""A running node from the settings: one process with its store, its firing side and its use cases.

Alone on an embedded store it holds all shards. On PostgreSQL it shares them with others (`cluster`), or, with the
role api alone, it is a member that holds none and fires nothing.

Order of the start: the store is admitted and its clock taken over, then the node becomes a member, then it takes
shards. Order of the end (`drain`): shards are handed over while work goes on, attempts get the rest of the grace
time, what ended is committed, and only then the node leaves.
"""

import os
import socket
from collections.abc import Callable
from importlib.metadata import version
from secrets import token_hex
from typing import Final

import structlog

from tickwheel.adapters.handlers.loading import load_handlers
from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.peers import TcpPeers
from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.adapters.telemetry.console import Console
from tickwheel.adapters.telemetry.fanout import Fanout
from tickwheel.adapters.telemetry.logs import LogSink, configure_logs
from tickwheel.config import Role, Settings
from tickwheel.domain.job import Target
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.owner import Owner
from tickwheel.ports.queue import Queue
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.ingest import every_shard
from tickwheel.services.jobs import Jobs
from tickwheel.services.known_keys import KnownKeys
from tickwheel.services.live.overview import Lookout
from tickwheel.services.live.pulse import Pulse
from tickwheel.services.live.recent import Recent
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.ownership import Ownership
from tickwheel.services.runs import Runs
from tickwheel.services.scheduler import Scheduler
from tickwheel.services.shedding import Behind, BehindWatch, Shedding
from tickwheel.services.store_clock import StoreClock
from tickwheel.services.tenants import Tenants
from tickwheel.wiring.accelerators import open_known_keys, with_brief_leases
from tickwheel.wiring.access import Access
from tickwheel.wiring.cluster import Cluster
from tickwheel.wiring.executors import target_guard
from tickwheel.wiring.explaining import Explaining
from tickwheel.wiring.exposure import exposure_of
from tickwheel.wiring.firing import build_scheduler
from tickwheel.wiring.measured_store import measured
from tickwheel.wiring.monitoring import Monitoring
from tickwheel.wiring.nobody import Nobody
from tickwheel.wiring.notifying import Notifying
from tickwheel.wiring.queues import open_queue, queue_url
from tickwheel.wiring.scaling import build_demand
from tickwheel.wiring.secrets import Secrets, open_secrets
from tickwheel.wiring.shared_store import open_shared_store
from tickwheel.wiring.stores import AuditedStore, open_store, store_url
from tickwheel.wiring.tenants import Tenancy, open_tenants
from tickwheel.wiring.worker_desk import build_desk

HAND_OVER_MS: Final = 5_000
"""How long a node that stops tries to give its shards to the others; `leave` gives up what remains."""


class Node:
    """One process: the store, the firing side and the use cases."""

    def __init__(
        self,
        *,
        settings: Settings,
        store: AuditedStore,
        scheduler: Scheduler | None,
        cluster: Cluster | None,
        clock: Clock,
        machine: SystemClock,
        monitoring: Monitoring,
        handlers: Handlers,
        worker: str,
        events: EventSink,
        queue: Queue,
        known_keys: KnownKeys | None,
        secrets: Secrets,
        tenants: Tenants,
        recent: Recent,
        name: str,
    ) -> None:
        self._events = events
        self.explaining: Explaining | None = None
        self.settings, self.store, self.scheduler, self.cluster = settings, store, scheduler, cluster
        self.clock, self.machine, self.metrics = clock, machine, monitoring.metrics
        self.handlers, self.worker = handlers, worker
        owner: Owner = Nobody() if scheduler is None else scheduler
        held = every_shard if cluster is None else cluster.holdings.shards
        insert_jobs = None if known_keys is None else known_keys.insert_jobs
        self.jobs = Jobs(store, owner, clock, SystemRandomness(), held, insert_jobs)
        self.shedding = Shedding(
            clock=clock,
            events=events,
            uncommitted=(lambda: 0) if scheduler is None else lambda: scheduler.completions.pending,
            behind=Behind if scheduler is None else BehindWatch(scheduler.ready, scheduler.pools, clock),
        )
        self.jobs.shed_by(self.shedding)
        self.jobs.refuse_by(target_guard(settings, tenants.egress_of))
        self.tenancy = Tenancy(tenants, store, clock, events, self._ownership)
        self.tenancy.bind(self.jobs, scheduler, monitoring.metrics)
        self.secrets = secrets
        self.jobs.seal_by(secrets.sealing)
        self.runs = Runs(store=store, owner=owner, clock=clock)
        self.dead_letters = DeadLetters(store=store, owner=owner, clock=clock)
        self._queue, self._known_keys = queue, known_keys
        self.access = Access(settings, store, clock, events, _leads(cluster))
        self.notifying = Notifying(settings, store, clock, events, tenants.egress_of, secrets, _leads(cluster))
        if scheduler is not None:
            self.notifying.watch(monitoring.punctuality, monitoring.metrics)
        self.demand = build_demand(scheduler, self._ownership, store, clock)
        self.monitoring = monitoring
        monitoring.watch(
            store=store,
            queue=queue,
            scheduler=scheduler,
            cluster=cluster,
            events=events,
            is_leader=_leads(cluster),
            shedding=self.shedding,
            authentication=self.access.authentication,
            demand=self.demand,
        )
        pulse = Pulse(
            recent,
            scheduler,
            ownership=self._ownership,
            is_leader=_leads(cluster),
            name=name,
            version=version("tickwheel"),
            roles=settings.roles,
        )
        self.lookout = Lookout(pulse, store, clock, monitoring.writes)
        if cluster is not None:
            cluster.vitals = pulse.vitals
        self.workers = build_desk(settings, store, queue, clock, events, scheduler, tenants.egress_of)

    def _ownership(self) -> Ownership | None:
        return None if self.cluster is None else self.cluster.ownership

    @property
    def serves_api(self) -> bool:
        """Whether the whole API is to be had here."""
        return self.settings.has(Role.API)

    @property
    def in_flight_count(self) -> int:
        """Attempts that run here."""
        return 0 if self.scheduler is None else sum(len(pool.inflight) for pool in self.scheduler.pools)

    def waits_for(self, target: Target, tenant_id: str) -> str | None:
        """Why due runs of this target are held back here for that tenant, in one word."""
        if self.scheduler is None:
            return None
        gate, elsewhere = self.scheduler.gate, self.scheduler.elsewhere
        held = None if elsewhere.has_own(target, tenant_id) else gate.waits_for(target)
        return self.scheduler.waits_for(tenant_id) or held or elsewhere.waits_for(target, tenant_id)

    def unfit_reason(self) -> str:
        """Why this node should get no requests, or nothing."""
        return "" if self.cluster is None else self.cluster.unfit_reason()

    async def start(self) -> None:
        """Begin to fire."""
        if self.cluster is not None:
            await self.cluster.start()
        self.shedding.start()
        self.access.start()
        self.secrets.start()
        self.tenancy.start()
        self.notifying.start()
        if self.serves_api:
            self.workers.start()
        if self.scheduler is not None:
            self.scheduler.start()
        self.monitoring.start()
        if self.explaining is not None:
            self.explaining.start()

    async def drain(self) -> None:
        """Hand everything over and let running work end, within the grace time."""
        grace_ms = self.settings.grace_seconds * 1000
        began_ms = self.clock.monotonic_ms()
        self.workers.stop_polls()
        self.lookout.close()
        await self.shedding.stop()
        await self.monitoring.stop()
        await self.notifying.stop()
        if self.explaining is not None:
            await self.explaining.stop()
        if self.cluster is not None:
            await self.cluster.hand_over(min(grace_ms, HAND_OVER_MS))
        if self.scheduler is not None:
            await self.scheduler.drain(max(0, began_ms + grace_ms - self.clock.monotonic_ms()))
        if self.cluster is not None:
            await self.cluster.leave()

    async def aclose(self) -> None:
        """Let go of the store and the queue, and of the coordinator if `drain` did not come to it."""
        if self.cluster is not None:
            await self.cluster.aclose()
        await self.access.stop()
        await self.secrets.stop()
        await self.notifying.stop()
        await self.monitoring.aclose()
        await self.tenancy.stop()
        await self.workers.close()
        await self._queue.aclose()
        if self._known_keys is not None:
            await self._known_keys.aclose()
        await self.store.aclose()

    async def stop(self) -> None:
        """Drain, then close."""
        await self.drain()
        await self.aclose()


def _leads(cluster: Cluster | None) -> Callable[[], bool]:
    return (lambda: True) if cluster is None else cluster.is_leader


def node_name() -> str:
    """What a node is called that nobody gave a name: its machine, and its process there."""
    return f"{socket.gethostname()}-{os.getpid()}"


async def open_node(
    settings: Settings,
    *,
    write_line: Callable[[str], None] | None = None,
    colors: bool = False,
    name: str = "",
    process: str = "",
) -> Node:
    """Build everything on the running event loop; fires nothing yet.

    `write_line` gets one line per attempt (the console of `dev`). One of several processes of a server has a
    `name` for its logs and for other nodes, and `process` labels its metrics. Raises `ConfigError` and
    `StoreUnavailable`.
    """
    handlers = load_handlers(settings.app)
    speaker = name or (node_name() if settings.log_format == "json" else "")  # people know it
    configure_logs(log_format=settings.log_format, log_level=settings.log_level, node=speaker)
    machine = SystemClock()
    clock = StoreClock(machine=machine, wall_ms=machine.wall_ms) if settings.clustered else machine
    whole_name = name or node_name()
    monitoring = Monitoring(settings, clock, name=whole_name, process=process, version=version("tickwheel"))
    sinks: list[EventSink] = [*monitoring.sinks, LogSink(tells_attempts=settings.log_level == "debug")]
    if write_line is not None:
        sinks.append(Console(write=write_line, clock=clock, colors=colors))
    recent = Recent(clock)
    explaining = Explaining(clock)
    events = Fanout([*sinks, recent, explaining.book])
    parts = _Parts(settings, machine, monitoring, handlers, events, whole_name, recent)
    node = await (parts.alone(machine) if not isinstance(clock, StoreClock) else parts.in_cluster(clock))
    whose = node.store, node.scheduler, node.cluster
    node.explaining = explaining.bind(settings, *whose, events, whole_name, node.waits_for)
    node.lookout.pulse.book = explaining.book
    try:
        await node.access.open(ask_for_tokens=settings.auth)
    except BaseException:
        await node.aclose()
        raise
    return node


class _Parts:
    """What both kinds of nodes are made of."""

    def __init__(
        self,
        settings: Settings,
        machine: SystemClock,
        monitoring: Monitoring,
        handlers: Handlers,
        events: EventSink,
        name: str,
        recent: Recent,
    ) -> None:
        self._settings, self._machine, self._recent = settings, machine, recent
        self._monitoring = monitoring
        self._handlers, self._events = handlers, events
        self._name, self._worker = name, f"{name}-{token_hex(4)}"

    async def alone(self, clock: SystemClock) -> Node:
        """A node that holds all shards of its store."""
        settings = self._settings
        embedded = await open_store(store_url(settings), clock, auto_migrate=settings.auto_migrate)
        exposed, remedy = exposure_of(settings)
        if exposed:
            structlog.get_logger().warning("store.unsafe", warning=f"{exposed}; run: {remedy}")
        store = measured(embedded, self._monitoring.calls, clock, self._monitoring.writes)
        try:
            queue = open_queue(queue_url(self._settings), self._settings, clock)
            holdings = Holdings(await store.acquire(self._worker))
            opened = await open_secrets(self._settings, store, clock, self._events)
            tenants = await open_tenants(store, clock)
            scheduler = build_scheduler(
                self._settings,
                store=store,
                clock=clock,
                events=self._events,
                handlers=self._handlers,
                holdings=holdings,
                worker=self._worker,
                clock_behind_ms=clock.behind_ms,
                queue=queue,
                secrets=opened,
                tenants=tenants,
            )
        except BaseException:
            await store.aclose()
            raise
        return self._node(store, scheduler, None, clock, queue, opened, tenants)

    async def in_cluster(self, clock: StoreClock) -> Node:
        """A node that shares its store with others."""
        settings = self._settings
        shared, warnings = await open_shared_store(settings, clock)
        store = measured(shared, self._monitoring.calls, clock, self._monitoring.writes)
        try:
            for warning in warnings:
                structlog.get_logger().warning("store.unsafe", warning=warning)
            await clock.synchronise(store)
            clock.refuse_when_off()
            cluster = Cluster(
                settings,
                name=self._name,
                store=store,
                clock=clock,
                events=self._events,
                version=version("tickwheel"),
            )
            queue = with_brief_leases(open_queue(queue_url(settings), settings, clock), settings, clock)
            known_keys = open_known_keys(settings, store, clock)
            opened = await open_secrets(settings, store, clock, self._events)
            tenants = await open_tenants(store, clock)
            scheduler = None
            if settings.has(Role.SCHEDULER):
                scheduler = build_scheduler(
                    settings,
                    store=store,
                    clock=clock,
                    events=self._events,
                    handlers=self._handlers,
                    holdings=cluster.holdings,
                    worker=self._worker,
                    shards=store,
                    is_leader=cluster.is_leader,
                    queue=queue,
                    peers=TcpPeers(host=settings.host, clock=clock),
                    secrets=opened,
                    tenants=tenants,
                )
            cluster.join(scheduler)
        except BaseException:
            await store.aclose()
            raise
        return self._node(store, scheduler, cluster, clock, queue, opened, tenants, known_keys)

    def _node(
        self,
        store: AuditedStore,
        scheduler: Scheduler | None,
        cluster: Cluster | None,
        clock: Clock,
        queue: Queue,
        opened: Secrets,
        tenants: Tenants,
        known_keys: KnownKeys | None = None,
    ) -> Node:
        return Node(
            settings=self._settings,
            store=store,
            scheduler=scheduler,
            cluster=cluster,
            clock=clock,
            machine=self._machine,
            monitoring=self._monitoring,
            handlers=self._handlers,
            worker=self._worker,
            events=self._events,
            queue=queue,
            known_keys=known_keys,
            secrets=opened,
            recent=self._recent,
            name=self._name,
            tenants=tenants,
        )
