"""The composition root: settings in, a running node out. The only module that knows adapters and services both."""

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from tickwheel.adapters.handlers.executor import HandlerExecutor
from tickwheel.adapters.handlers.loading import load_handlers
from tickwheel.adapters.handlers.registry import Handlers
from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.system import SystemClock, SystemRandomness
from tickwheel.adapters.telemetry.console import Console
from tickwheel.adapters.telemetry.fanout import Fanout
from tickwheel.adapters.telemetry.logs import LogSink, configure_logs
from tickwheel.adapters.telemetry.metrics import GaugeReading, Metrics
from tickwheel.adapters.webhook.address import AddressPolicy, parse_networks
from tickwheel.adapters.webhook.executor import WebhookExecutor
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.adapters.webhook.signature import parse_secret
from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.job import Lane, Target, TargetType
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.executor import Executor, Report
from tickwheel.ports.store import Store
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.jobs import Jobs
from tickwheel.services.ready import KIND_HANDLER, KIND_WEBHOOK
from tickwheel.services.runs import Runs
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.services.tokens import Tokens

KIND_NAMES = {KIND_WEBHOOK: "webhook", KIND_HANDLER: "handler"}


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


def store_url(settings: Settings) -> str:
    """The store as it is used: the setting, or SQLite in the data folder."""
    return settings.store or f"sqlite:{settings.data}"


async def open_store(url: str, clock: Clock) -> Store:
    """The store that a URL names: `sqlite:FOLDER` (also `sqlite:///FOLDER`) or `memory:`."""
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        return MemoryStore(clock)
    if scheme == "sqlite":
        from tickwheel.adapters.sqlite import open_sqlite_store

        return await open_sqlite_store(sqlite_path(rest), clock)
    raise ConfigError([FieldProblem(field="store", message=f"there is no store of kind {scheme!r}")])


def sqlite_path(rest: str) -> Path:
    """The folder in `sqlite:FOLDER`: relative as written, `///` before an absolute path as in other tools."""
    return Path("/" + rest.lstrip("/") if rest.startswith("///") else rest)


async def open_node(
    settings: Settings, *, write_line: Callable[[str], None] | None = None, colors: bool = False
) -> Node:
    """Build everything on the running event loop; fires nothing yet.

    `write_line` gets one line per attempt (the console of `dev`). Raises `ConfigError` and `StoreUnavailable`.
    """
    signing_keys = _signing_keys(settings.webhook_secret)
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
        tokens = Tokens(await store.acquire(worker))
        scheduler = Scheduler(
            store=store,
            clock=clock,
            randomness=randomness,
            events=events,
            build_webhooks=_webhooks(settings, clock, signing_keys),
            build_handlers=_handlers(settings, clock, handlers),
            serves=_serves(handlers),
            tokens=tokens,
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
    _add_gauges(metrics, scheduler, clock)
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


def _signing_keys(secrets_given: Sequence[str]) -> list[bytes]:
    try:
        return [parse_secret(text) for text in secrets_given]
    except ValueError as error:
        raise ConfigError([FieldProblem(field="webhook_secret", message=str(error))]) from None


def _webhooks(settings: Settings, clock: Clock, signing_keys: Sequence[bytes]) -> Callable[[Report], Executor]:
    policy = AddressPolicy(
        allow_loopback=settings.allow_loopback,
        allow_private=parse_networks(settings.allow_private),
    )
    webhook_settings = WebhookSettings(
        addresses=policy,
        signing_keys=signing_keys,
        host_limit_count=settings.webhook_host_limit,
        connection_limit_count=settings.webhook_slots,
    )
    return lambda report: WebhookExecutor(report, clock, webhook_settings)


def _handlers(settings: Settings, clock: Clock, handlers: Handlers) -> Callable[[Report], Executor]:
    return lambda report: HandlerExecutor(
        handlers=handlers, report=report, clock=clock, thread_limit=settings.handler_slots
    )


def _serves(handlers: Handlers) -> Callable[[Target], bool]:
    return lambda target: target.type is not TargetType.HANDLER or target.name in handlers


def _add_gauges(metrics: Metrics, scheduler: Scheduler, clock: SystemClock) -> None:
    def gauge(name: str, text: str, read: Callable[[], float]) -> None:
        metrics.add_gauge(lambda: GaugeReading(name=f"tickwheel_{name}", help=text, values={"": read()}))

    def backlog() -> GaugeReading:
        values = {
            f"{kind_name}_{lane.name.lower()}": float(scheduler.ready.count(kind, lane))
            for kind, kind_name in KIND_NAMES.items()
            for lane in Lane
        }
        return GaugeReading(
            name="tickwheel_backlog", help="Due and waiting for a slot.", values=values, label="queue"
        )

    def in_flight() -> GaugeReading:
        values = {name: float(len(scheduler.pools[kind].inflight)) for kind, name in KIND_NAMES.items()}
        return GaugeReading(name="tickwheel_in_flight", help="Attempts running.", values=values, label="kind")

    def oldest_due_s() -> float:
        heads = [due for kind in KIND_NAMES for due in scheduler.ready.oldest_due_ms(kind) if due is not None]
        return max(0, clock.now_ms() - min(heads)) / 1000 if heads else 0.0

    gauge("armed_timers", "Timers in the wheel.", lambda: len(scheduler.wheel))
    gauge("held_timers", "Due webhooks that wait for their host.", lambda: scheduler.gate.held_count)
    gauge("parked_timers", "Due timers that are tried again after a pause.", lambda: len(scheduler.parked))
    gauge("uncommitted_completions", "Ended attempts not committed yet.", lambda: scheduler.completions.pending)
    gauge("oldest_due_seconds", "How long the oldest due timer has waited for a slot.", oldest_due_s)
    gauge(
        "clock_behind_seconds",
        "Wall clock behind the scheduler's clock (slewed away).",
        lambda: clock.behind_ms() / 1000,
    )
    metrics.add_gauge(backlog)
    metrics.add_gauge(in_flight)


async def start_with_unlimited_credits(
    store: Store, clock: SystemClock, build_executor: Callable[[Report], Executor], *, slots: int
) -> Scheduler:
    """A firing side whose executor takes all, for measuring what comes before it. Starts at once."""
    worker = f"bench-{os.getpid()}"
    scheduler = Scheduler(
        store=store,
        clock=clock,
        randomness=SystemRandomness(),
        events=Fanout([]),
        build_webhooks=build_executor,
        build_handlers=build_executor,
        serves=lambda target: True,
        tokens=Tokens(await store.acquire(worker)),
        worker=worker,
        settings=SchedulerSettings(webhook_slots=slots, webhook_host_limit=slots, handler_slots=1),
    )
    scheduler.start()
    return scheduler


def system_clock() -> SystemClock:
    """The machine's clock, for tools that run without a node."""
    return SystemClock()


def system_randomness() -> SystemRandomness:
    """The machine's randomness, for tools that run without a node."""
    return SystemRandomness()


def pending_migrations(url: str) -> list[str]:
    """What opening that store would change in its schema, as `0001 pre first_schema`; changes nothing.

    Raises `ConfigError` when a newer program wrote it, `StoreUnavailable` when it can't be read.
    """
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite":
        return []
    from tickwheel.adapters.sqlite import pending_migrations as pending

    return [f"{step.version:04d} {step.phase} {step.name}" for step in pending(sqlite_path(rest))]


def handler_names(app: str) -> tuple[str, ...]:
    """The handlers that `--app` brings; raises `ConfigError` with the reason why there are none."""
    return load_handlers(app).names if app else ()
