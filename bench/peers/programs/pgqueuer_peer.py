"""PgQueuer on asyncpg: large batches, uvloop, several consumers, as in its own benchmark."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import uvloop
from bench.peers.programs.harness import Call, Config, Job, Peer, main
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job as QueuedJob
from pgqueuer.queries import Queries

CONNECTIONS = 20


def _ahead(job: Job) -> timedelta | None:
    """PgQueuer takes a delay and adds the database's time."""
    if job.due_ms is None:
        return None
    return datetime.fromtimestamp(job.due_ms / 1000, UTC) - datetime.now(UTC)


def _payload(job: Job) -> bytes:
    return json.dumps(job._asdict()).encode()


class Producer:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool, self._queries = pool, Queries(AsyncpgPoolDriver(pool))

    async def add_batch(self, jobs: Sequence[Job]) -> None:
        ahead = [_ahead(job) for job in jobs]
        count = len(jobs)
        await self._queries.enqueue(["noop"] * count, [_payload(job) for job in jobs], [0] * count, ahead)

    async def add_one(self, job: Job) -> None:
        await self._queries.enqueue("noop", _payload(job), 0, _ahead(job))

    async def left(self) -> int:
        return int(await self._pool.fetchval("SELECT count(*) FROM pgqueuer"))

    async def close(self) -> None:
        await self._pool.close()


async def producer(config: Config) -> Producer:
    connection = await asyncpg.connect(config.url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()
    return Producer(await asyncpg.create_pool(config.url, min_size=1, max_size=CONNECTIONS))


class Worker:
    """Several consumers in one process, each on a connection of its own."""

    def __init__(self, consumers: Sequence[PgQueuer], batch: int) -> None:
        self._consumers, self._batch = consumers, batch
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._running = [asyncio.create_task(consumer.run(batch_size=self._batch)) for consumer in self._consumers]

    async def stop(self) -> None:
        for consumer in self._consumers:
            consumer.shutdown.set()
        await asyncio.gather(*self._running)


async def worker(config: Config, call: Call) -> Worker:
    scheduled = config.workload in ("burst", "steady")

    async def noop(job: QueuedJob) -> None:
        assert job.payload is not None
        # Its own due time: the delay was added to the database's time a moment after it was worked out here.
        call(json.loads(job.payload)["n"], job.execute_after.timestamp() * 1000 if scheduled else None)

    consumers = []
    for _ in range(config.settings["consumers"]):
        consumer = PgQueuer(AsyncpgDriver(await asyncpg.connect(config.url)))
        consumer.entrypoint("noop")(noop)
        consumers.append(consumer)
    return Worker(consumers, config.settings["batch"])


if __name__ == "__main__":
    main(Peer(producer, worker), uvloop.run)
