"""The parent of `tickwheel serve --processes N`: starts N processes, keeps them running, and stops them.

Each process is a whole node of the cluster, with its own connections, event loop and shards; nothing of the work
goes through here, so the parent can be slow, or die. If it does, the others see their lifeline end, and drain.

What happens to a process that ends:

- before all have been ready once: it says why, and the whole server does not start;
- afterwards: the other nodes take its shards, and it is started again after a pause that doubles (`restarts`). A
  process that was told to drain (SIGTERM) is started again at once: so processes can be renewed one by one;
- again and again, soon after its start: something is wrong that starting again doesn't mend, so the server ends
  with an error.

Processes have sessions of their own, so that Ctrl-C in a terminal reaches the parent alone.
"""

import asyncio
import sys
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final

import structlog

from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.interfaces.cli.children import Child
from tickwheel.interfaces.cli.failures import Failure
from tickwheel.interfaces.cli.lifeline import Order
from tickwheel.interfaces.cli.process import GOODBYE_S, Mode, explain_address
from tickwheel.interfaces.cli.restarts import CALM_S, CRASH_LIMIT, Ended, Restarts
from tickwheel.interfaces.cli.stopping import MARGIN_S, Stopping
from tickwheel.interfaces.http.listening import reserve
from tickwheel.interfaces.http.server import shown_url
from tickwheel.wiring import configure_logs, node_name

LATER_S: Final = 1
"""How much longer than a child the parent waits for the end of a drain."""


def run_processes(settings: Settings, mode: Mode) -> None:
    """Serve until a signal; returns after a clean drain of all. Raises `Failure` and `ConfigError`."""
    if not sys.platform.startswith("linux"):
        raise ConfigError(
            [
                FieldProblem(
                    "processes",
                    "more than one needs Linux, whose kernel spreads a port over them; leave it out, and start "
                    "nodes with ports of their own",
                )
            ]
        )
    with explain_address(settings.host, settings.port):
        holder = reserve(settings.host, settings.port)
    with holder:
        _Supervisor(settings, mode, holder.getsockname()[1]).run()


class _Supervisor:
    """One run of the server."""

    def __init__(self, settings: Settings, mode: Mode, port: int) -> None:
        self._settings, self._mode, self._port = settings, mode, port
        name, shared = node_name(), replace(settings, port=port)
        configure_logs(log_format=settings.log_format, log_level=settings.log_level, node=name)
        self._log = structlog.get_logger()
        self._children = [
            Child(Order(number, f"{name}-{number}", settings.port and settings.port + number, shared))
            for number in range(1, settings.processes + 1)
        ]
        self._limit_s = settings.grace_seconds + GOODBYE_S + MARGIN_S + LATER_S
        more_s = GOODBYE_S + 2 * LATER_S
        self._stopping = Stopping(settings.grace_seconds, more_s, before_leaving=self._kill_all)
        self._complete = asyncio.Event()
        self._stop: asyncio.Future[None]

    def run(self) -> None:
        """On an event loop of its own, with the signals."""
        self._stopping.install()
        with asyncio.Runner() as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        self._stop = _task(self._stopping.wait())
        keepers = [_task(self._keep(child)) for child in self._children]
        complete = _task(self._complete.wait())
        try:
            await asyncio.wait((self._stop, complete, *keepers), return_when=asyncio.FIRST_COMPLETED)
            if complete.done():
                _say(self._banner())
                await asyncio.wait((self._stop, *keepers), return_when=asyncio.FIRST_COMPLETED)
            if self._stop.done():
                _say(f"Stopping {len(self._children)} processes; again to quit at once.")
            self._stop.cancel()
            for child in self._children:
                child.terminate()
            await asyncio.wait(keepers, timeout=self._limit_s)
        finally:
            complete.cancel()
            self._kill_all()
            ends = await asyncio.gather(*keepers, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        self._stopping.drained = True
        if any(child.ended_badly for child in self._children):
            raise Failure(["not every process ended as it should; the log says more"])

    async def _keep(self, child: Child) -> None:
        """Run it again and again until the server stops. Raises `Failure` when that is of no use."""
        restarts = Restarts()
        while not self._stop.done():
            ended = await child.run(self._on_ready)
            if self._stop.done():
                return
            if not self._complete.is_set():
                raise _no_start(child, ended)
            pause_s = restarts.pause_s(ended, others_ready=any(one.ready for one in self._children))
            if pause_s is None:
                raise _crash_loop(child, ended)
            tell = self._log.info if ended.was_asked else self._log.warning
            tell(
                "process.ended",
                process=child.order.name,
                cause=ended.cause,
                restart_in_ms=round(pause_s * 1000),
            )
            await asyncio.wait((self._stop,), timeout=pause_s)

    def _on_ready(self, child: Child) -> None:
        self._log.info("process.ready", process=child.order.name, port=child.own_port)
        if all(one.ready for one in self._children):
            self._complete.set()

    def _banner(self) -> str:
        ports = ", ".join(str(child.own_port) for child in self._children)
        is_open = any(child.is_open for child in self._children)
        url = shown_url(self._settings.host, self._port, tls=bool(self._settings.tls_cert))
        first, *rest = self._mode.banner(url, self._settings, is_open=is_open).splitlines()
        return "\n".join(
            [f"{first} in {len(self._children)} processes, which answer alone on ports {ports}", *rest]
        )

    def _kill_all(self) -> None:
        for child in self._children:
            child.kill()


def _no_start(child: Child, ended: Ended) -> Failure:
    if ended.reason is not None:
        return Failure(ended.reason.lines, ended.reason.code)
    return Failure([f"process {child.order.name} ended before it was ready ({ended.cause})"])


def _crash_loop(child: Child, ended: Ended) -> Failure:
    return Failure(
        [
            f"process {child.order.name} ended {CRASH_LIMIT} times in a row within {CALM_S} s of its start, "
            f"at last with: {ended.cause}; its log lines say more, and `tickwheel doctor` looks at the settings"
        ]
    )


def _say(text: str) -> None:
    print(text, flush=True)


def _task(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    return asyncio.ensure_future(work)
