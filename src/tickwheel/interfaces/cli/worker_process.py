"""Runs a worker until a signal, then drains."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tickwheel.config import Settings, WorkerOptions
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.interfaces.cli.failures import Failure
from tickwheel.interfaces.cli.process import loop_factory, raise_open_files_limit
from tickwheel.interfaces.cli.stopping import Stopping
from tickwheel.interfaces.cli.terminal import Terminal
from tickwheel.interfaces.cli.worker_metrics import serve_metrics
from tickwheel.wiring import WorkerProcess, open_worker, shown_store

GOODBYE_S: Final = 6
"""What a worker takes on top of the grace time at most, to get rid of its last reports."""
RETRY_S: Final = 1.0
NAMES_SHOWN: Final = 20


def run_worker(settings: Settings, options: WorkerOptions) -> None:
    """Work until a signal; returns after a clean drain. Raises `TickwheelError` when it can't start."""
    raise_open_files_limit()
    stopping = Stopping(settings.grace_seconds, GOODBYE_S)
    stopping.install()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run(settings, options, stopping))


async def _run(settings: Settings, options: WorkerOptions, stopping: Stopping) -> None:
    terminal = Terminal()
    asked = asyncio.ensure_future(stopping.wait())
    try:
        worker = await _start(settings, options, asked, terminal)
        if worker is None:
            return
        terminal.write_line(_greeting(worker, options))
        async with _shown(worker, settings, options, terminal):
            await asked
            terminal.write_line(_farewell(worker, settings))
            await worker.stop(settings.grace_seconds * 1000)
        stopping.drained = True
        terminal.write_line("Stopped.")
    finally:
        asked.cancel()
        terminal.close()


@asynccontextmanager
async def _shown(
    worker: WorkerProcess, settings: Settings, options: WorkerOptions, terminal: Terminal
) -> AsyncIterator[None]:
    """Show the worker's metrics meanwhile, if that is wanted."""
    if options.metrics_port is None:
        yield
        return
    try:
        server = await serve_metrics(worker.metrics.render, settings, options.metrics_port)
    except Failure:
        await worker.stop(0)
        raise
    terminal.write_line(f"Metrics are at {server.url}/metrics")
    try:
        yield
    finally:
        await server.stop()


async def _start(
    settings: Settings, options: WorkerOptions, asked: "asyncio.Future[None]", terminal: Terminal
) -> WorkerProcess | None:
    """The worker, once somebody gives it work; None when it was told to stop before."""
    told = ""
    while not asked.done():
        try:
            worker = await open_worker(settings, options)
            await worker.start()
        except ConnectionError as error:  # the server may be about to start, or to be replaced
            if str(error) != told:
                told = str(error)
                terminal.write_line(f"Waiting for the server: {error}")
            await asyncio.wait((asked,), timeout=RETRY_S)
        except StoreUnavailable as error:
            raise Failure([f"{shown_store(settings)}: {error}"]) from error
        else:
            return worker
    return None


def _greeting(worker: WorkerProcess, options: WorkerOptions) -> str:
    shown = ", ".join(worker.handlers[:NAMES_SHOWN])
    if len(worker.handlers) > NAMES_SHOWN:
        shown += f" and {len(worker.handlers) - NAMES_SHOWN} more"
    count = len(worker.handlers)
    serving = [f"{count} handler{'s' * (count != 1)}: {shown}"] if count else []
    if options.webhooks:
        serving.append("webhooks")
    at_a_time = str(options.high) if options.low == options.high else f"{options.low} to {options.high}"
    return (
        f"Worker {worker.name} takes work from {worker.where}, {at_a_time} at a time,\n"
        f"serving {'; '.join(serving)}"
    )


def _farewell(worker: WorkerProcess, settings: Settings) -> str:
    busy = worker.loop.busy
    if not busy:
        return "Stopping."
    noun = "run has" if busy == 1 else "runs have"
    return f"Stopping: {busy} {noun} up to {settings.grace_seconds} s to end; again to quit at once."
