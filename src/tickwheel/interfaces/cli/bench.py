"""`tickwheel bench`: measure this machine."""

import asyncio
import functools
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from tickwheel.domain.errors import TickwheelError
from tickwheel.interfaces.bench import (
    failover,
    fairness,
    growth,
    inprocess,
    lanes,
    lists,
    memory,
    overhttp,
    overload,
    startup,
    takeover,
    webhooks,
)
from tickwheel.interfaces.bench.nodes import FAULTS
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures
from tickwheel.interfaces.bench.progress import Progress, progress
from tickwheel.interfaces.cli.failures import Failure, failure_of

STORE_HELP: Final = "An empty store to measure (default: SQLite in a temporary folder)."
SMOKE_HELP: Final = "As small as it gets: shows that the benchmark works."
Measure = Callable[[str, Path, Progress], Figures | Coroutine[Any, Any, Figures]]


class Options(NamedTuple):
    """What every benchmark takes."""

    store: str | None
    as_json: bool
    smoke: bool

    def run(self, label: str, steps: int, measure: Measure) -> None:
        """Measure with a progress bar and print the figures, the JSON line last."""
        with tempfile.TemporaryDirectory() as folder:
            url = self.store or f"sqlite:{Path(folder) / 'bench.db'}"
            try:
                with progress(label, steps, quiet=self.as_json) as bar:
                    outcome = measure(url, Path(folder), bar)
                    figures = outcome if isinstance(outcome, dict) else _on_loop(outcome)
            except BenchFailed as error:
                raise Failure([f"the benchmark failed: {error}"]) from None
            except TickwheelError as error:
                raise failure_of(error) from None
        if not self.as_json:
            for name, value in figures.items():
                click.echo(f"  {name:22} {value if isinstance(value, str) else format(value, ',')}", err=True)
        click.echo(msgspec.json.encode(figures).decode())


def _on_loop(work: Coroutine[Any, Any, Figures]) -> Figures:
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """Gather the options of every benchmark into one argument."""

    @click.option("--store", metavar="URL", help=STORE_HELP)
    @click.option("--json", "as_json", is_flag=True, help="Only the JSON line.")
    @click.option("--smoke", is_flag=True, help=SMOKE_HELP)
    @functools.wraps(command)
    def gathered(store: str | None, as_json: bool, smoke: bool, **given: Any) -> None:
        command(Options(store, as_json, smoke), **given)

    return gathered


def _count(name: str, default: int, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(f"--{name}", type=click.IntRange(min=0), default=default, show_default=True, help=text)


def _processes(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--processes",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Processes of the server; several need PostgreSQL.",
    )(command)


@click.group()
def bench() -> None:
    """Measure this installation on this machine.

    Each benchmark checks its own result and ends with one line of JSON. Give it a quiet machine and repeat it: the
    figures of a busy one mean little.
    """


@bench.command()
@_count("jobs", 200_000, "How many to create.")
@_count("batch", 1_000, "Jobs per request.")
@_count("payload-bytes", 200, "Length of each payload.")
@click.option("--keys", is_flag=True, help="Give each job an idempotency key.")
@_processes
@_common
def ingest(options: Options, jobs: int, batch: int, payload_bytes: int, keys: bool, processes: int) -> None:
    """Create jobs over HTTP in batches, each one durable commit."""
    jobs, batch = (200, 100) if options.smoke else (jobs, batch)
    options.run(
        "ingest",
        jobs,
        lambda url, folder, bar: overhttp.ingest(
            url,
            folder,
            jobs=jobs,
            batch=batch,
            payload_bytes=payload_bytes,
            keys=keys,
            bar=bar,
            processes=processes,
        ),
    )


@bench.command(name="ingest-single")
@_count("jobs", 20_000, "How many to create.")
@_count("connections", 64, "Requests under way at a time.")
@_processes
@_common
def ingest_single(options: Options, jobs: int, connections: int, processes: int) -> None:
    """Create jobs over HTTP one by one, each one durable commit."""
    jobs, connections = (200, 8) if options.smoke else (jobs, connections)
    options.run(
        "ingest-single",
        jobs,
        lambda url, folder, bar: overhttp.ingest_single(
            url, folder, jobs=jobs, connections=connections, bar=bar, processes=processes
        ),
    )


@bench.command()
@_count("rate", 20_000, "Jobs per second.")
@_count("seconds", 30, "For how long.")
@_processes
@_common
def pipeline(options: Options, rate: int, seconds: int, processes: int) -> None:
    """The whole way at a high rate: create over HTTP, fire on time, call, commit."""
    rate, seconds = (100, 1) if options.smoke else (rate, seconds)
    options.run(
        "pipeline",
        rate * seconds,
        lambda url, folder, bar: overhttp.lateness(
            url,
            folder,
            rate=rate,
            seconds=seconds,
            bar=bar,
            connections=overhttp.CONNECTIONS,
            processes=processes,
        ),
    )


@bench.command()
@_count("jobs", 200_000, "How many timers are due.")
@_count("seconds", 0, "Spread over, from when all are stored and armed; 0 = all overdue at the start.")
@_common
def trigger(options: Options, jobs: int, seconds: int) -> None:
    """Due timers to committed claims, into a sink with unlimited credits: one write per timer and nothing else."""
    jobs, seconds = (500, 1) if options.smoke else (jobs, seconds)
    options.run("trigger", 2 * jobs, lambda url, _, bar: inprocess.trigger(url, jobs, seconds, bar))


@bench.command(name="growth")
@_count("jobs", 1_000_000, "Future jobs stored in the large store.")
@_count("base-jobs", 100_000, "Future jobs stored in the small one.")
@_count("rounds", 3, "Turns of each store.")
@_count("rate", 500, "Jobs per second of a steady round.")
@_count("seconds", 10, "For how long.")
@_count("burst", 20_000, "Timers of a burst.")
@_common
def growth_command(
    options: Options, jobs: int, base_jobs: int, rounds: int, rate: int, seconds: int, burst: int
) -> None:
    """Lateness, trigger rate and the cost of a claim with many stored jobs and with few, in turns."""
    if options.smoke:
        jobs, base_jobs, rounds, rate, seconds, burst = 500, 100, 1, 100, 1, 200
    steps = jobs + base_jobs + 2 * rounds * (rate * seconds + burst)
    options.run(
        "growth",
        steps,
        lambda url, folder, bar: growth.growth(
            url,
            folder,
            jobs=jobs,
            base_jobs=base_jobs,
            rounds=rounds,
            rate=rate,
            seconds=seconds,
            burst=burst,
            bar=bar,
        ),
    )


@bench.command()
@_count("jobs", 200_000, "How many runs are due.")
@_common
def throughput(options: Options, jobs: int) -> None:
    """Drain due runs of a handler that does nothing: claim, call, commit; history is kept."""
    jobs = 500 if options.smoke else jobs
    options.run("throughput", 2 * jobs, lambda url, _, bar: inprocess.throughput(url, jobs, bar))


@bench.command()
@_count("rate", 500, "Jobs per second.")
@_count("seconds", 60, "For how long.")
@_processes
@_common
def lateness(options: Options, rate: int, seconds: int, processes: int) -> None:
    """A steady rate of jobs over HTTP; how late their handlers start."""
    rate, seconds = (100, 1) if options.smoke else (rate, seconds)
    options.run(
        "lateness",
        rate * seconds,
        lambda url, folder, bar: overhttp.lateness(
            url, folder, rate=rate, seconds=seconds, bar=bar, processes=processes
        ),
    )


@bench.command()
@_count("jobs", 20_000, "How many are due at once.")
@_common
def burst(options: Options, jobs: int) -> None:
    """Many jobs due in the same instant: how late they start, and how long it takes."""
    jobs = 200 if options.smoke else jobs
    options.run("burst", jobs, lambda url, folder, bar: overhttp.burst(url, folder, jobs=jobs, bar=bar))


@bench.command(name="webhooks")
@_count("jobs", 30_000, "How many to send.")
@_count("seconds", 0, "Spread over; 0 = all due at one instant.")
@_processes
@_common
def webhooks_command(options: Options, jobs: int, seconds: int, processes: int) -> None:
    """Webhooks to a receiver in a process of its own."""
    jobs, seconds = (200, 0) if options.smoke else (jobs, seconds)
    options.run(
        "webhooks",
        jobs,
        lambda url, folder, bar: webhooks.webhooks(
            url, folder, jobs=jobs, seconds=seconds, bar=bar, processes=processes
        ),
    )


@bench.command(name="overload")
@_count("seconds", 60, "Length of the flood.")
@_count("calm-seconds", 10, "Length of each calm stretch, and of the measurement of the capacity.")
@_count("factor", 3, "The flood's rate, as a multiple of the capacity.")
@_processes
@_common
def overload_command(options: Options, seconds: int, calm_seconds: int, factor: int, processes: int) -> None:
    """More jobs over HTTP than the server can take: what it refuses, what it takes, how soon it is well again."""
    seconds, calm_seconds = (2, 2) if options.smoke else (seconds, calm_seconds)
    plan = overload.Plan(seconds, calm_seconds, factor, processes)
    options.run("overload", plan.steps, lambda url, folder, bar: overload.overload(url, folder, plan, bar))


@bench.command(name="lanes")
@_count("rate", 100, "CRITICAL jobs per second.")
@_count("seconds", 20, "For how long, alone and again beside the flood.")
@_count("pairs", 3, "How often.")
@_count("low", 2_000, "LOW jobs of a flood.")
@_count("hold-ms", 10_000, "How long each of them runs, on the average.")
@_count("slots", 256, "Slots of the server.")
@_common
def lanes_command(
    options: Options, rate: int, seconds: int, pairs: int, low: int, hold_ms: int, slots: int
) -> None:
    """How late CRITICAL runs start alone, and beside a lane LOW that is full of long runs, in turns."""
    if options.smoke:
        rate, seconds, pairs, low, hold_ms, slots = 50, 2, 1, 60, 1_000, 16
    options.run(
        "lanes",
        2 * pairs * rate * seconds,
        lambda url, folder, bar: lanes.lanes(
            url,
            folder,
            rate=rate,
            seconds=seconds,
            pairs=pairs,
            low=low,
            hold_ms=hold_ms,
            slots=slots,
            bar=bar,
        ),
    )


@bench.command(name="fairness")
@_count("jobs", 1_000_000, "Due runs of the large tenant.")
@_count("rate", 10, "Runs per second of each of nine small ones.")
@_count("seconds", 30, "For how long, alone and again beside the flood.")
@_common
def fairness_command(options: Options, jobs: int, rate: int, seconds: int) -> None:
    """How late the runs of nine small tenants start alone, and beside one with a flood of due runs."""
    jobs, seconds = (2_000, 2) if options.smoke else (jobs, seconds)
    options.run(
        "fairness",
        jobs + 2 * fairness.SMALL_TENANTS * rate * seconds,
        lambda url, folder, bar: fairness.fairness(url, folder, jobs=jobs, rate=rate, seconds=seconds, bar=bar),
    )


@bench.command(name="failover")
@click.option(
    "--fault", type=click.Choice(FAULTS), default="kill", show_default=True, help="What is done to a node."
)
@_count("times", 20, "How often.")
@_count("rate", 500, "Jobs per second.")
@_count("nodes", 3, "Servers on the store.")
@_common
def failover_command(options: Options, fault: str, times: int, rate: int, nodes: int) -> None:
    """How long shards stand still when their node breaks (needs PostgreSQL).

    \b
    kill    kill -9
    freeze  SIGSTOP: it lives and does nothing
    cut     nothing passes between it and the store
    stop    SIGTERM, a planned stop
    """
    times, rate, nodes = (1, 50, 2) if options.smoke else (times, rate, nodes)
    settle_s = 1.0 if options.smoke else failover.SETTLE_S
    options.run(
        "failover",
        times,
        lambda url, folder, bar: failover.failover(
            url, folder, fault=fault, times=times, rate=rate, nodes=nodes, settle_s=settle_s, bar=bar
        ),
    )


@bench.command(name="startup")
@_count("jobs", 1_000_000, "Jobs due within the hour.")
@_common
def startup_command(options: Options, jobs: int) -> None:
    """From the start of a server to its first call, with many jobs due within the hour."""
    jobs = 500 if options.smoke else jobs
    options.run("startup", jobs, lambda url, folder, bar: startup.startup(url, folder, jobs=jobs, bar=bar))


@bench.command(name="takeover")
@_count("jobs", 1_000_000, "Jobs due within the hour.")
@_count("rate", 500, "Webhooks per second besides (PostgreSQL).")
@_common
def takeover_command(options: Options, jobs: int, rate: int) -> None:
    """With many jobs due within the hour: kill -9 of one of two nodes (PostgreSQL), then a start."""
    jobs, rate = (500, 200) if options.smoke else (jobs, rate)
    settle_s = 2.0 if options.smoke else takeover.SETTLE_S
    options.run(
        "takeover",
        jobs,
        lambda url, folder, bar: takeover.takeover(url, folder, jobs=jobs, rate=rate, settle_s=settle_s, bar=bar),
    )


@bench.command(name="lists")
@_count("jobs", 1_000_000, "Jobs to page through.")
@_common
def lists_command(options: Options, jobs: int) -> None:
    """First pages, deep pages and counts with many jobs, while others are created."""
    jobs = 500 if options.smoke else jobs
    options.run("lists", 2 * jobs, lambda url, folder, bar: lists.lists(url, folder, jobs=jobs, bar=bar))


@bench.command(name="memory")
@_count("jobs", 5_000_000, "How many timers to arm.")
@_common
def memory_command(options: Options, jobs: int) -> None:
    """Memory per armed timer, and of a server without timers."""
    jobs = 10_000 if options.smoke else jobs
    options.run("memory", jobs, lambda url, folder, bar: memory.memory(url, folder, timers=jobs, bar=bar))
