"""Runs a node with its HTTP API until a signal, then drains.

Order of the start: store and scheduler, then the port, then firing. Order of the end: readiness turns false,
nothing new is claimed, running work gets the grace time; the API answers all the while, so that a run can still be
cancelled; then the port closes, then the store.

One of several processes (`supervisor`) does the same, and tells its parent instead of the terminal that it runs.
When the parent is gone it drains as well, but closes the port first: somebody may want to start the server again.
"""

import asyncio
import errno
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import msgspec
from starlette.types import ASGIApp

from tickwheel.config import Settings, setting_default
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.interfaces.cli.failures import ExitCode, Failure
from tickwheel.interfaces.cli.lifeline import Lifeline, Order, Ready
from tickwheel.interfaces.cli.readiness import Readiness
from tickwheel.interfaces.cli.serving import build_server, open_certificates
from tickwheel.interfaces.cli.stopping import Stopping
from tickwheel.interfaces.cli.terminal import Terminal
from tickwheel.interfaces.http.app import build_app
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.echo import Echo
from tickwheel.interfaces.http.listening import bind
from tickwheel.interfaces.http.request_log import ID_CHARS, RequestLog
from tickwheel.interfaces.http.server import HttpServer
from tickwheel.services.live.forecasting import Forecasting
from tickwheel.wiring import Node, open_node, shown_store

GOODBYE_S: Final = 3
"""What a node of a cluster takes on top of the grace time at most, to tell the others that it leaves."""
WriteLine = Callable[[str], None]


class Mode(msgspec.Struct, frozen=True):
    """How `dev` and `serve` differ: the echo target, the line per run, and what is said at the start."""

    with_echo: bool
    with_console: bool
    banner: "Banner"


class Banner(Protocol):
    """What is said at the start."""

    def __call__(self, url: str, settings: Settings, *, is_open: bool) -> str: ...


def run_process(settings: Settings, mode: Mode, *, lifeline: Lifeline | None = None) -> None:
    """Serve until a signal; returns after a clean drain. Raises `Failure` when it can't start.

    `lifeline` is what one of several processes has to its parent.
    """
    raise_open_files_limit()
    goodbye_s = GOODBYE_S if settings.clustered else 0
    stopping = Stopping(settings.grace_seconds, goodbye_s, supervised=lifeline is not None)
    stopping.install()
    if lifeline is not None:
        lifeline.watch(stopping.become_orphan)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run(settings, mode, stopping, lifeline))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; None means asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def raise_open_files_limit() -> None:
    """Take all the file descriptors that this user may have: each connection and webhook needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS refuses "unlimited"; `tickwheel doctor` tells of a low limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(settings: Settings, mode: Mode, stopping: Stopping, lifeline: Lifeline | None) -> None:
    terminal = Terminal()
    try:
        certificates = open_certificates(settings)
        own = _listen_alone(settings, lifeline.order) if lifeline is not None else None
        node = await _open(settings, mode, terminal.write_line, lifeline)
        readiness = Readiness(_app(node, mode))
        server = build_server(readiness, settings, certificates, own)
        is_open = not node.access.authentication.required
        try:
            if is_open and not settings.loopback_only:
                raise _open_to_others(settings)
            await _start_server(server, settings)
            await node.start()
            if lifeline is None or own is None:
                terminal.write_line(mode.banner(server.url, settings, is_open=is_open))
            else:
                lifeline.tell(Ready(own.getsockname()[1], is_open))
            await stopping.wait()
            readiness.draining = True
            if stopping.orphaned:
                await server.stop()
            terminal.write_line(_farewell(node, lifeline))
            await node.drain()
            stopping.drained = True
        finally:
            await server.stop()
            await node.aclose()
    finally:
        terminal.close()


async def _open(settings: Settings, mode: Mode, write_line: WriteLine, lifeline: Lifeline | None) -> Node:
    order = lifeline.order if lifeline is not None else None
    try:
        return await open_node(
            settings,
            write_line=write_line if mode.with_console else None,
            colors=mode.with_console and _wants_colors(),
            name=order.name if order is not None else "",
            process=str(order.number) if order is not None else "",
        )
    except OSError as error:
        where = error.filename or shown_store(settings)
        raise Failure([f"{where}: {error.strerror or error}; choose another folder with --data"]) from error
    except StoreUnavailable as error:
        raise Failure([str(error) if settings.clustered else f"{shown_store(settings)}: {error}"]) from error


def _app(node: Node, mode: Mode) -> ASGIApp:
    app = build_app(
        Deps(
            jobs=node.jobs,
            runs=node.runs,
            dead_letters=node.dead_letters,
            store=node.store,
            clock=node.clock,
            metrics=node.metrics.render,
            authentication=node.access.authentication,
            api_keys=node.access.api_keys,
            registry=node.store,
            signing_secrets=node.secrets.signing,
            vault=node.secrets.vault,
            tenants=node.tenancy.tenants,
            quotas=node.tenancy.quotas,
            notifications=node.notifying.rules,
            unfit=node.unfit_reason,
            refusal=lambda: node.monitoring.writes.refusal,
            serves_api=node.serves_api,
            waits_for=node.waits_for,
            workers=node.workers,
            demand=node.demand,
            punctuality=node.monitoring.punctuality if node.scheduler is not None else None,
            lookout=node.lookout,
            forecasting=Forecasting(node.store, node.clock),
            explanations=None if node.explaining is None else node.explaining.explanations,
            shards=None if node.cluster is None else node.cluster.shards,
            watch=RequestLog(
                node.monitoring.tracing.requests,
                node.clock,
                node.worker[-ID_CHARS:],
                writes_lines=node.settings.access_log,
            ),
        )
    )
    return Echo(app) if mode.with_echo else app


async def _start_server(server: HttpServer, settings: Settings) -> None:
    with explain_address(settings.host, settings.port):
        await server.start()


def _listen_alone(settings: Settings, order: Order) -> socket.socket:
    with explain_address(settings.host, order.own_port):
        return bind(settings.host, order.own_port)


@contextmanager
def explain_address(host: str, port: int) -> Iterator[None]:
    """Make an error of the address a `Failure` that names the setting and the remedy."""
    try:
        yield
    except socket.gaierror as error:
        raise Failure([f"host: {host!r} is not an address of this machine ({error.strerror})"]) from error
    except OSError as error:
        raise Failure([_no_port(error, f"{host}:{port}")]) from error


def _no_port(error: OSError, where: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port: {where} is taken by another program; stop it, or choose another port with --port"
    if error.errno == errno.EACCES:
        return f"port: this user may not listen on {where}; choose a port above 1023 with --port"
    return f"host: can't listen on {where}: {error.strerror or error}"


def _open_to_others(settings: Settings) -> Failure:
    where = f" --store {shown_store(settings)}" if settings.store else ""
    if not settings.store and settings.data != setting_default("data"):
        where = f" --data {settings.data}"
    return Failure(
        [
            f"host: no token is set up, so everybody who reaches {settings.host} could schedule jobs. Make one:",
            f"  tickwheel tokens create --role admin --all-tenants{where}",
            "and start again. TICKWHEEL_TOKEN or --jwt-keys do as well; or listen on --host 127.0.0.1.",
        ],
        ExitCode.USAGE,
    )


def _farewell(node: Node, lifeline: Lifeline | None) -> str:
    who, again = ("", "; again to quit at once") if lifeline is None else (f"{lifeline.order.name}: ", "")
    running = node.in_flight_count
    if not running:
        return f"{who}Stopping."
    noun = "run has" if running == 1 else "runs have"
    return f"{who}Stopping: {running} {noun} up to {node.settings.grace_seconds} s to end{again}."


def _wants_colors() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
