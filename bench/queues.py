"""Speed of the queues by themselves: `python -m bench.queues [--hints N] [--queues memory,redis]`; JSON lines.

An owner publishes hints in packs of 64, and singly; a worker takes up to 512 at a time and acks. Rates are by the
wall clock, publish + take + ack; CPU is per hint, of this process, and of the server (all its processes), which
neighbours on the machine disturb less. The servers are started here, as the tests start theirs.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import perf_counter, process_time
from typing import Final, NamedTuple

import numpy as np
from tests.servers.postgresql import PostgresServer
from tests.servers.postgresql_binaries import NoPostgres
from tests.servers.redis import NoRedis, RedisCluster, RedisServer

from tickwheel.adapters.postgresql.migrate import migrate
from tickwheel.adapters.system import SystemClock
from tickwheel.config import Settings
from tickwheel.domain.columns import empty
from tickwheel.domain.job import Lane
from tickwheel.interfaces.bench.cpu import process_ms
from tickwheel.ports.queue import HINT, PACK_COUNT, WEBHOOKS, Queue, Topic
from tickwheel.wiring.queues import open_queue

TOPIC: Final = Topic(Lane.DEFAULT, WEBHOOKS)
TAKEN_AT_ONCE: Final = 512
PUBLISHED_AT_ONCE: Final = 8 * PACK_COUNT


class Subject(NamedTuple):
    """A queue, and the processes of its server."""

    queue: Queue
    pids: Callable[[], Sequence[int]]


@asynccontextmanager
async def memory() -> AsyncIterator[Subject]:
    yield Subject(open_queue("memory:", Settings(), SystemClock()), list)


@asynccontextmanager
async def postgresql() -> AsyncIterator[Subject]:
    with PostgresServer(durable=True) as server:
        url = server.create_database("bench")
        migrate(url)
        queue = open_queue(url, Settings(), SystemClock())
        yield Subject(queue, server._pids)
        await queue.aclose()


@asynccontextmanager
async def redis() -> AsyncIterator[Subject]:
    with RedisServer() as server:
        queue = open_queue(server.url, Settings(), SystemClock())
        yield Subject(queue, lambda: [server.process.pid] if server.process else [])
        await queue.aclose()


@asynccontextmanager
async def redis_cluster() -> AsyncIterator[Subject]:
    with RedisCluster() as cluster:
        queue = open_queue(cluster.url, Settings(), SystemClock())
        yield Subject(queue, lambda: [server.process.pid for server in cluster.servers if server.process])
        await queue.aclose()


SUBJECTS: Final[dict[str, Callable[[], AbstractAsyncContextManager[Subject]]]] = {
    "memory": memory,
    "postgresql": postgresql,
    "redis": redis,
    "redis-cluster": redis_cluster,
}


async def travel(queue: Queue, count: int, at_once: int) -> None:
    """All hints through the queue, published `at_once` at a time; never more than a few thousand are in it."""
    hints = empty(HINT, at_once)
    hints["fence"] = np.arange(at_once)
    published = begun = 0
    while begun < count:
        while published < count and published - begun < 4 * max(at_once, TAKEN_AT_ONCE):
            await queue.publish(TOPIC, hints)
            published += at_once
        while deliveries := await queue.take([TOPIC], TAKEN_AT_ONCE):
            begun += sum(len(delivery.rows) for delivery in deliveries)
            await queue.ack([delivery.receipt for delivery in deliveries])


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of these processes."""
    return sum(map(process_ms, pids)) / 1000


async def measure(name: str, count: int) -> dict[str, object]:
    """Packs first, then single hints, a tenth as many."""
    result: dict[str, object] = {"bench": "queues", "queue": name, "hints": count}
    async with SUBJECTS[name]() as subject:
        await travel(subject.queue, PUBLISHED_AT_ONCE, PUBLISHED_AT_ONCE)  # connected, scripts loaded, prepared
        for kind, number, at_once in (("packed", count, PUBLISHED_AT_ONCE), ("single", count // 10, 1)):
            number = max(number, at_once)
            cpu, server_cpu, begun = process_time(), cpu_seconds(subject.pids()), perf_counter()
            await travel(subject.queue, number, at_once)
            seconds = perf_counter() - begun
            result |= {
                f"{kind}_per_s": round(number / seconds),
                f"{kind}_cpu_us": round((process_time() - cpu) / number * 1e6, 3),
                f"{kind}_server_cpu_us": round((cpu_seconds(subject.pids()) - server_cpu) / number * 1e6, 3),
            }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hints", type=int, default=200_000)
    parser.add_argument("--queues", default=",".join(SUBJECTS), help=f"of {', '.join(SUBJECTS)}")
    arguments = parser.parse_args()
    for name in arguments.queues.split(","):
        try:
            result = asyncio.run(measure(name, arguments.hints))
        except (NoPostgres, NoRedis) as error:
            result = {"bench": "queues", "queue": name, "skipped": str(error)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
