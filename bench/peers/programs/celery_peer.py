"""Celery on Redis: `celery worker` as users start it, woken for the queue by its remote control."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import redis
from bench.peers.programs.harness import SINGLES_IN_FLIGHT, Call, Config, Job, Peer, main

QUEUE = "bench"
IDLE_QUEUE = "idle"
START_S = 60


def _load(config: Config) -> Any:
    os.environ["PEERS_BROKER"], os.environ["PEERS_FOLDER"] = config.url, config.folder
    from bench.peers.programs import celery_app

    return celery_app


class Producer:
    """Celery has no call for a batch: one message at a time."""

    def __init__(self, config: Config) -> None:
        self._noop = _load(config).noop
        self._redis = redis.Redis.from_url(config.url)
        self._threads = ThreadPoolExecutor(SINGLES_IN_FLIGHT)
        self._local = threading.local()

    def _send(self, job: Job) -> None:
        eta = None if job.due_ms is None else datetime.fromtimestamp(job.due_ms / 1000, UTC)
        if not hasattr(self._local, "producer"):
            self._local.producer = self._noop.app.amqp.Producer(self._noop.app.connection_for_write())
        self._noop.apply_async(job, queue=QUEUE, eta=eta, producer=self._local.producer)

    def _send_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._send(job)

    async def add_batch(self, jobs: Sequence[Job]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._send_all, jobs)

    async def add_one(self, job: Job) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._send, job)

    async def left(self) -> int:
        waiting: Any = self._redis.llen(QUEUE)
        unacknowledged: Any = self._redis.hlen("unacked")
        return int(waiting) + int(unacknowledged)

    async def close(self) -> None:
        self._redis.close()


async def producer(config: Config) -> Producer:
    return Producer(config)


class Worker:
    """`celery worker` on an idle queue, until `start` adds the real one."""

    def __init__(self, app: Any, name: str, process: asyncio.subprocess.Process) -> None:
        self._app, self._name, self._process = app, name, process

    async def start(self) -> None:
        await asyncio.to_thread(self._app.control.add_consumer, QUEUE, destination=[self._name])

    async def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        await self._process.wait()


async def worker(config: Config, call: Call) -> Worker:
    app = _load(config).app
    name = f"peer{os.getpid()}@localhost"
    command = [
        *(sys.executable, "-m", "celery", "-A", "bench.peers.programs.celery_app", "worker", "-n", name),
        *("-Q", IDLE_QUEUE, "-P", config.settings["pool"], "-c", str(config.settings["concurrency"])),
        *("-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"),
    ]
    environ = {**os.environ, "PEERS_PREFETCH": str(config.settings["prefetch"]), "C_FORCE_ROOT": "1"}
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdin=null, stdout=null)
    for _ in range(START_S):
        if await asyncio.to_thread(app.control.ping, destination=[name], timeout=1, limit=1):
            return Worker(app, name, process)
    raise RuntimeError("the Celery worker did not answer")


if __name__ == "__main__":
    main(Peer(producer, worker))
