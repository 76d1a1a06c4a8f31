"""What the key cache and brief leases cost and save: `python -m bench.redis_caches [--rounds N]`; JSON lines.

Servers of its own, PostgreSQL and Redis. All figures are microseconds of CPU per request or hint: of this process,
of PostgreSQL with all its processes, and of Redis; with and without the cache in turn.
"""

import argparse
import asyncio
import json
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
from bench.sqlite_store import new_job
from msgspec.structs import replace
from tests.servers.postgresql import PostgresServer
from tests.servers.redis import RedisServer

from tickwheel.adapters.postgresql.migrate import migrate
from tickwheel.adapters.postgresql.store import PostgresqlStore, open_postgresql_store
from tickwheel.adapters.redis.address import read_address
from tickwheel.adapters.redis.brief_leases import RedisBriefLeases
from tickwheel.adapters.redis.keys import RedisKeys
from tickwheel.adapters.system import SystemClock
from tickwheel.ports.queue import HINT, PACK_COUNT
from tickwheel.ports.store import NewJob
from tickwheel.services.known_keys import KnownKeys

BATCHES = (1, 100)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Cpu(NamedTuple):
    """Seconds so far."""

    own: float
    postgresql: float
    redis: float


class Servers(NamedTuple):
    """What is measured."""

    postgresql: PostgresServer
    redis: RedisServer

    def cpu(self) -> Cpu:
        """Of all three; ended backends count with their parent."""
        assert self.postgresql.process is not None
        parent = self.postgresql.process.pid
        pids = [parent, *map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())]
        ticks = 0
        for pid in pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += (
                int(fields[11]) + int(fields[12]) + (int(fields[13]) + int(fields[14]) if pid == parent else 0)
            )
        lines = self.redis.ask("INFO", "cpu").decode().splitlines()
        used = dict(line.split(":", 1) for line in lines if ":" in line)
        redis = float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
        return Cpu(process_time(), ticks / TICKS_PER_S, redis)


async def measure(servers: Servers, rounds: int, count: int, act: Callable[[], Awaitable[object]]) -> Cpu:
    """Microseconds per request; `act` makes `count` of them."""
    before = servers.cpu()
    for _ in range(rounds):
        await act()
    after = servers.cpu()
    return Cpu(*(round((b - a) * 1e6 / rounds / count, 1) for a, b in zip(before, after, strict=True)))


def keyed(number: int, now_ms: int) -> NewJob:
    new = new_job(number, now_ms)
    return replace(new, job=replace(new.job, idempotency_key=f"key-{number}"), request_hash=b"h" * 16)


async def keys(servers: Servers, store: PostgresqlStore, rounds: int, jobs: int) -> None:
    """Requests that are all repeated, and requests that are all new."""
    clock = SystemClock()
    cache = RedisKeys(read_address(servers.redis.url, setting="key_cache"), clock, cluster="bench")
    known = KnownKeys(store, cache, clock)
    first = [keyed(number, clock.now_ms()) for number in range(jobs)]
    await known.insert_jobs(first)
    numbers = iter(range(jobs, 1 << 60))
    for batch in BATCHES:
        for insert, name in ((store.insert_jobs, "store"), (known.insert_jobs, "cache")) * 2:

            async def repeat(insert: Callable[..., Awaitable[object]] = insert, batch: int = batch) -> None:
                for start in range(0, jobs if batch > 1 else jobs // 10, batch):
                    again = [keyed(number, clock.now_ms()) for number in range(start, start + batch)]
                    await insert(again)

            async def create(insert: Callable[..., Awaitable[object]] = insert, batch: int = batch) -> None:
                for _ in range(0, jobs if batch > 1 else jobs // 10, batch):
                    await insert([keyed(next(numbers), clock.now_ms()) for _ in range(batch)])

            count = jobs if batch > 1 else jobs // 10
            for kind, act in (("repeated", repeat), ("new", create)):
                cpu = await measure(servers, rounds, count, act)
                print(
                    json.dumps({"what": f"keys, {kind}", "by": name, "batch": batch, **cpu._asdict()}), flush=True
                )
    await known.aclose()


async def leases(servers: Servers, store: PostgresqlStore, rounds: int) -> None:
    """Hints of which all are somebody else's: refused by the ledger, or by a brief lease."""
    clock, address = SystemClock(), read_address(servers.redis.url, setting="lease_cache")
    mine, other = (RedisBriefLeases(address, clock, cluster="bench", holder=name) for name in ("a", "b"))
    hints = np.zeros(PACK_COUNT, dtype=HINT)
    hints["job_id"] = [np.void(new_job(number, clock.now_ms()).job.job_id) for number in range(PACK_COUNT)]
    hints["scheduled_ms"], hints["fence"] = clock.now_ms(), 1
    await other.acquire(hints, 3_600_000)
    free = hints.copy()
    free["fence"] = 2

    async def refuse_by_ledger() -> None:
        await store.begin(hints, secrets.token_hex(4), clock.now_ms() + 30_000)

    async def refuse_by_lease() -> None:
        await mine.acquire(hints, 4_000)

    async def acquire() -> None:
        await mine.acquire(free, 4_000)

    for what, act in (
        ("refused by the ledger", refuse_by_ledger),
        ("refused by a brief lease", refuse_by_lease),
        ("leased briefly", acquire),
    ) * 2:
        cpu = await measure(servers, rounds * 50, PACK_COUNT, act)
        print(json.dumps({"what": what, **cpu._asdict()}), flush=True)
    await mine.aclose()
    await other.aclose()


async def run(servers: Servers, rounds: int, jobs: int) -> None:
    url = servers.postgresql.create_database("caches")
    migrate(url)
    store = await open_postgresql_store(url, SystemClock())
    try:
        await store.maintain(SystemClock().now_ms())
        await keys(servers, store, rounds, jobs)
        await leases(servers, store, rounds)
    finally:
        await store.aclose()


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="1 is quick, and too short to mean anything")
    parser.add_argument("--jobs", type=int, default=2_000)
    given = parser.parse_args()
    with PostgresServer(durable=True) as postgresql, RedisServer() as redis:
        asyncio.run(run(Servers(postgresql, redis), given.rounds, given.jobs))


if __name__ == "__main__":
    main()
