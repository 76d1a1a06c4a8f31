"""Procrastinate on psycopg: concurrent asynchronous jobs, deleted when they have succeeded."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import uvloop
from bench.peers.programs.harness import Call, Config, Job, Peer, main
from procrastinate import App, PsycopgConnector

CONNECTIONS = 20
UNFINISHED = "SELECT count(*) AS count FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


def _app(config: Config, call: Call | None = None) -> App:
    app = App(connector=PsycopgConnector(conninfo=config.url, min_size=2, max_size=CONNECTIONS))

    @app.task(name="noop")  # type: ignore[untyped-decorator]  # not installed where types are checked
    async def noop(n: int, due_ms: int | None, pad: str) -> None:
        assert call is not None
        call(n, due_ms)

    return app


def _due(job: Job) -> datetime | None:
    return None if job.due_ms is None else datetime.fromtimestamp(job.due_ms / 1000, UTC)


class Producer:
    """A batch has one due time, so one with several is one call per due time."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def add_batch(self, jobs: Sequence[Job]) -> None:
        by_due: dict[datetime | None, list[dict[str, Any]]] = {}
        for job in jobs:
            by_due.setdefault(_due(job), []).append(job._asdict())
        for due, arguments in by_due.items():
            await self._app.configure_task("noop", schedule_at=due).batch_defer_async(*arguments)

    async def add_one(self, job: Job) -> None:
        await self._app.configure_task("noop", schedule_at=_due(job)).defer_async(**job._asdict())

    async def left(self) -> int:
        return int((await self._app.connector.execute_query_one_async(UNFINISHED))["count"])

    async def close(self) -> None:
        await self._app.close_async()


async def producer(config: Config) -> Producer:
    app = _app(config)
    await app.open_async()
    await app.schema_manager.apply_schema_async()
    return Producer(app)


class Worker:
    def __init__(self, app: App, settings: dict[str, Any]) -> None:
        self._app, self._settings = app, settings
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        run = self._app.run_worker_async(
            concurrency=self._settings["concurrency"],
            fetch_job_polling_interval=self._settings["poll_s"],
            delete_jobs="successful",
            install_signal_handlers=False,
        )
        self._running = asyncio.create_task(run)

    async def stop(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running])
        await self._app.close_async()


async def worker(config: Config, call: Call) -> Worker:
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    app = _app(config, call)
    await app.open_async()
    return Worker(app, config.settings)


if __name__ == "__main__":
    main(Peer(producer, worker), uvloop.run)
