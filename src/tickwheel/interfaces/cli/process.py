"""Runs a node with its HTTP API until a signal, then drains.

Order of the start: store and scheduler, then the port, then firing. Order of the end: readiness turns false,
nothing new is claimed, running work gets the grace time; the API answers all the while, so that a run can still be
cancelled; then the port closes, then the store.
"""

import asyncio
import errno
import os
import resource
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from starlette.types import ASGIApp

from tickwheel.config import Settings
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.interfaces.cli.failures import Failure
from tickwheel.interfaces.cli.readiness import Readiness
from tickwheel.interfaces.cli.stopping import Stopping
from tickwheel.interfaces.cli.terminal import Terminal
from tickwheel.interfaces.http.app import build_app
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.echo import Echo
from tickwheel.interfaces.http.server import HttpServer
from tickwheel.wiring import Node, open_node, shown_store

HTTP_STOP_SECONDS: Final = 1
GOODBYE_S: Final = 3
"""What a node of a cluster takes on top of the grace time at most, to tell the others that it leaves."""
WriteLine = Callable[[str], None]


class Mode(msgspec.Struct, frozen=True):
    """How `dev` and `serve` differ: the echo target, the line per run, and what is said at the start."""

    with_echo: bool
    with_console: bool
    banner: Callable[[str, Settings], str]


def run_process(settings: Settings, mode: Mode) -> None:
    """Serve until a signal; returns after a clean drain. Raises `Failure` when it can't start."""
    raise_open_files_limit()
    stopping = Stopping(settings.grace_seconds, GOODBYE_S if settings.clustered else 0)
    stopping.install()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run(settings, mode, stopping))


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


async def _run(settings: Settings, mode: Mode, stopping: Stopping) -> None:
    terminal = Terminal()
    try:
        node = await _open(settings, mode, terminal.write_line)
        readiness = Readiness(_app(node, mode))
        server = HttpServer(readiness, settings.host, settings.port, drain_seconds=HTTP_STOP_SECONDS)
        try:
            await _start_server(server, settings)
            await node.start()
            terminal.write_line(mode.banner(server.url, settings))
            await stopping.wait()
            readiness.draining = True
            terminal.write_line(_farewell(node))
            await node.drain()
            stopping.drained = True
        finally:
            await server.stop()
            await node.aclose()
    finally:
        terminal.close()


async def _open(settings: Settings, mode: Mode, write_line: WriteLine) -> Node:
    colors = mode.with_console and _wants_colors()
    try:
        return await open_node(settings, write_line=write_line if mode.with_console else None, colors=colors)
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
            tokens=node.settings.token,
            unfit=node.unfit_reason,
            serves_api=node.serves_api,
        )
    )
    return Echo(app) if mode.with_echo else app


async def _start_server(server: HttpServer, settings: Settings) -> None:
    where = f"{settings.host}:{settings.port}"
    try:
        await server.start()
    except socket.gaierror as error:
        raise Failure([f"host: {settings.host!r} is not an address of this machine ({error.strerror})"]) from error
    except OSError as error:
        raise Failure([_no_port(error, where)]) from error


def _no_port(error: OSError, where: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port: {where} is taken by another program; stop it, or choose another port with --port"
    if error.errno == errno.EACCES:
        return f"port: this user may not listen on {where}; choose a port above 1023 with --port"
    return f"host: can't listen on {where}: {error.strerror or error}"


def _farewell(node: Node) -> str:
    running = node.in_flight_count
    if not running:
        return "Stopping."
    noun = "run has" if running == 1 else "runs have"
    return f"Stopping: {running} {noun} up to {node.settings.grace_seconds} s to end; again to quit at once."


def _wants_colors() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
