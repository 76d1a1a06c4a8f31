"""The whole: API, firing side, queue, and workers that poll, on the memory store and a virtual clock.

Webhooks run here, handlers at workers.
"""

import dataclasses
from typing import Any

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.domain.job import TargetType
from tickwheel.interfaces.http.app import build_app
from tickwheel.services.remote.desk import WorkerDesk
from tickwheel.services.scheduler import SchedulerSettings
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.wiring.scaling import add_scaling_gauges, build_demand

from .asgi_client import AsgiClient
from .pull_world import named, question
from .world import HttpWorld


class HiringWorld(HttpWorld):
    """`poll` and `report` are a worker's calls."""

    desk: WorkerDesk
    metrics: Metrics

    def __init__(self, *, lease_ms: int = 30_000) -> None:
        super().__init__(settings=SchedulerSettings(webhook_slots=16, handler_slots=16, lease_ms=lease_ms))
        self.queue = MemoryQueue(self.clock, 5_000)
        self.serves = lambda target: target.type is not TargetType.HANDLER

    async def open(self, *tokens: str) -> "HiringWorld":
        assert self.queue is not None
        await super().open(*tokens)
        self.desk = WorkerDesk(
            store=self.store,
            queue=self.queue,
            clock=self.clock,
            randomness=SeededRandomness(9),
            events=self.events,
            arm=self.scheduler.arm,
            lease_length_ms=self.settings.lease_ms,
        )
        self.desk.start()
        self.metrics = Metrics()
        demand = build_demand(self.scheduler, lambda: None, self.store, self.clock)
        add_scaling_gauges(self.metrics, demand)
        self.deps = dataclasses.replace(self.deps, workers=self.desk, demand=demand, metrics=self.metrics.render)
        self.app = build_app(self.deps)
        self.client = AsgiClient(self.app, *tokens[:1])
        return self

    async def close(self) -> None:
        await self.desk.close()
        await super().close()

    async def hire(self, **fields: Any) -> str:
        """A worker that the owner knows: its id."""
        reply = await self.client.post("/v1/workers/poll", question(**{"free": 0, **fields}))
        assert reply.status == 200, reply.body
        await self.clock.advance(1_500)
        worker_id: str = reply.json["worker_id"]
        return worker_id

    async def poll(self, worker_id: str, *, within_ms: int = 20_000, **fields: Any) -> list[dict[str, Any]]:
        """The runs that come first, of several polls if need be."""
        until_ms = self.clock.now_ms() + within_ms
        while True:
            reply = await self.client.post("/v1/workers/poll", question(me=worker_id, **fields))
            assert reply.status == 200, reply.body
            runs: list[dict[str, Any]] = reply.json["runs"]
            if runs or self.clock.now_ms() >= until_ms:
                return runs
            await self.clock.advance(50)

    async def work_job(self, **fields: Any) -> str:
        """A job for the handler `work`, due at once."""
        created = await self.create(schedule_type="INSTANT", target={"type": "HANDLER", "name": "work"}, **fields)
        await self.clock.advance(100)
        return str(created["job_id"])

    async def run_of_job(self, job_id: str) -> dict[str, Any]:
        [run] = (await self.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"]
        whole: dict[str, Any] = (await self.client.get(f"/v1/runs/{run['run_id']}")).json
        return whole

    async def report(self, verb: str, worker_id: str, run: dict[str, Any], **fields: Any) -> dict[str, Any]:
        body = {"worker_id": worker_id, "runs": [named(run, **fields)]}
        reply = await self.client.post(f"/v1/workers/{verb}", body)
        assert reply.status == 200, reply.body
        [answer] = reply.json["runs"]
        said: dict[str, Any] = answer
        return said
