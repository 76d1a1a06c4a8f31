"""`tickwheel bench`: measure this machine."""

import click

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
    secured,
    startup,
    takeover,
    webhooks,
)
from tickwheel.interfaces.bench.nodes import FAULTS
from tickwheel.interfaces.cli.bench_options import Options, common, count, processes_option


@click.group()
def bench() -> None:
    """Measure this installation on this machine.

    Each benchmark checks its own result and ends with one line of JSON. Give it a quiet machine and repeat it: the
    figures of a busy one mean little.
    """


@bench.command()
@count("jobs", 200_000, "How many to create.")
@count("batch", 1_000, "Jobs per request.")
@count("payload-bytes", 200, "Length of each payload.")
@click.option("--keys", is_flag=True, help="Give each job an idempotency key.")
@processes_option
@common
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
@count("jobs", 20_000, "How many to create.")
@count("connections", 64, "Requests under way at a time.")
@processes_option
@common
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
@count("rate", 20_000, "Jobs per second.")
@count("seconds", 30, "For how long.")
@processes_option
@common
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
@count("jobs", 200_000, "How many timers are due.")
@count("seconds", 0, "Spread over, from when all are stored and armed; 0 = all overdue at the start.")
@common
def trigger(options: Options, jobs: int, seconds: int) -> None:
    """Due timers to committed claims, into a sink with unlimited credits: one write per timer and nothing else."""
    jobs, seconds = (500, 1) if options.smoke else (jobs, seconds)
    options.run("trigger", 2 * jobs, lambda url, _, bar: inprocess.trigger(url, jobs, seconds, bar))


@bench.command(name="growth")
@count("jobs", 1_000_000, "Future jobs stored in the large store.")
@count("base-jobs", 100_000, "Future jobs stored in the small one.")
@count("rounds", 3, "Turns of each store.")
@count("rate", 500, "Jobs per second of a steady round.")
@count("seconds", 10, "For how long.")
@count("burst", 20_000, "Timers of a burst.")
@common
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
@count("jobs", 200_000, "How many runs are due.")
@common
def throughput(options: Options, jobs: int) -> None:
    """Drain due runs of a handler that does nothing: claim, call, commit; history is kept."""
    jobs = 500 if options.smoke else jobs
    options.run("throughput", 2 * jobs, lambda url, _, bar: inprocess.throughput(url, jobs, bar))


@bench.command()
@count("rate", 500, "Jobs per second.")
@count("seconds", 60, "For how long.")
@processes_option
@common
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
@count("jobs", 20_000, "How many are due at once.")
@common
def burst(options: Options, jobs: int) -> None:
    """Many jobs due in the same instant: how late they start, and how long it takes."""
    jobs = 200 if options.smoke else jobs
    options.run("burst", jobs, lambda url, folder, bar: overhttp.burst(url, folder, jobs=jobs, bar=bar))


@bench.command(name="webhooks")
@count("jobs", 30_000, "How many to send.")
@count("seconds", 0, "Spread over; 0 = all due at one instant.")
@processes_option
@common
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
@count("seconds", 60, "Length of the flood.")
@count("calm-seconds", 10, "Length of each calm stretch, and of the measurement of the capacity.")
@count("factor", 3, "The flood's rate, as a multiple of the capacity.")
@processes_option
@common
def overload_command(options: Options, seconds: int, calm_seconds: int, factor: int, processes: int) -> None:
    """More jobs over HTTP than the server can take: what it refuses, what it takes, how soon it is well again."""
    seconds, calm_seconds = (2, 2) if options.smoke else (seconds, calm_seconds)
    plan = overload.Plan(seconds, calm_seconds, factor, processes)
    options.run("overload", plan.steps, lambda url, folder, bar: overload.overload(url, folder, plan, bar))


@bench.command(name="lanes")
@count("rate", 100, "CRITICAL jobs per second.")
@count("seconds", 20, "For how long, alone and again beside the flood.")
@count("pairs", 3, "How often.")
@count("low", 2_000, "LOW jobs of a flood.")
@count("hold-ms", 10_000, "How long each of them runs, on the average.")
@count("slots", 256, "Slots of the server.")
@common
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
@count("jobs", 1_000_000, "Due runs of the large tenant.")
@count("rate", 10, "Runs per second of each of nine small ones.")
@count("seconds", 30, "For how long, alone and again beside the flood.")
@common
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
@count("times", 20, "How often.")
@count("rate", 500, "Jobs per second.")
@count("nodes", 3, "Servers on the store.")
@common
def failover_command(options: Options, fault: str, times: int, rate: int, nodes: int) -> None:
    """How long shards stand still when their node breaks (needs PostgreSQL).

    \b
    kill: kill -9.
    freeze: SIGSTOP, so it lives and does nothing.
    cut: nothing passes between it and the store.
    stop: SIGTERM, a planned stop.
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
@count("jobs", 1_000_000, "Jobs due within the hour.")
@common
def startup_command(options: Options, jobs: int) -> None:
    """From the start of a server to its first call, with many jobs due within the hour."""
    jobs = 500 if options.smoke else jobs
    options.run("startup", jobs, lambda url, folder, bar: startup.startup(url, folder, jobs=jobs, bar=bar))


@bench.command(name="takeover")
@count("jobs", 1_000_000, "Jobs due within the hour.")
@count("rate", 500, "Webhooks per second besides (PostgreSQL).")
@common
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
@count("jobs", 1_000_000, "Jobs to page through.")
@common
def lists_command(options: Options, jobs: int) -> None:
    """First pages, deep pages and counts with many jobs, while others are created."""
    jobs = 500 if options.smoke else jobs
    options.run("lists", 2 * jobs, lambda url, folder, bar: lists.lists(url, folder, jobs=jobs, bar=bar))


@bench.command(name="memory")
@count("jobs", 5_000_000, "How many timers to arm.")
@common
def memory_command(options: Options, jobs: int) -> None:
    """Memory per armed timer, and of a server without timers."""
    jobs = 10_000 if options.smoke else jobs
    options.run("memory", jobs, lambda url, folder, bar: memory.memory(url, folder, timers=jobs, bar=bar))


@bench.command(name="secured")
@count("jobs", 50_000, "Jobs per measurement.")
@count("rounds", 3, "How many measurements of each kind.")
@common
def secured_command(options: Options, jobs: int, rounds: int) -> None:
    """What tokens, tenants and limits cost: a bare server against a secured one, in turn (SQLite)."""
    jobs, rounds = (1_000, 1) if options.smoke else (jobs, rounds)
    options.run(
        "secured",
        2 * rounds * jobs,
        lambda url, folder, bar: secured.secured(url, folder, jobs=jobs, rounds=rounds, bar=bar),
    )
