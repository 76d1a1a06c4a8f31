"""Workers apart from the owner that fires, as the owner sees them."""

import numpy as np

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.domain.columns import COMPLETION, CompletionCause
from tickwheel.domain.job import Lane, TargetType
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.queue import Topic
from tickwheel.ports.store import NewJob, Run
from tickwheel.ports.workers import WorkerNote
from tickwheel.services.remote.routes import worker_routes
from tickwheel.services.remote.taking import Begun, Taking
from tickwheel.services.scheduler import SchedulerSettings

from ..world import World

LEASE_MS = 30_000
NAMES = ("far",)


class Remote:
    """A worker, reduced to what the owner sees of it."""

    def __init__(
        self,
        world: World,
        name: str = "remote-1",
        slots: int = 4,
        names: tuple[str, ...] = NAMES,
        *,
        webhooks: bool = False,
        tenant_id: str | None = None,
    ) -> None:
        assert world.queue is not None
        self.world, self.name, self.tenant_id = world, name, tenant_id
        self.note = WorkerNote(name=name, handlers=names, slots=slots, webhooks=webhooks, tenant_id=tenant_id)
        self.taking = Taking(queue=world.queue, store=world.store, clock=world.clock, lease_length_ms=LEASE_MS)
        routes = worker_routes(names, webhooks=webhooks, tenant_id=tenant_id)
        self.topics = [Topic(lane, route) for lane in Lane for route in routes]

    async def enlist(self) -> "Remote":
        await self.world.store.enlist_worker(self.name, self.note)
        return self

    async def take(self, limit: int = 100) -> list[Begun]:
        return list((await self.taking.take(self.name, self.topics, limit, self.tenant_id)).begun)

    async def succeed(self, begun: Begun) -> bool:
        row = np.zeros(1, dtype=COMPLETION)
        row["due_ms"], row["job_id"], row["scheduled_ms"] = -1, np.void(begun.job_id), begun.scheduled_ms
        row["fence"], row["flags"], row["attempt"] = begun.fence, begun.flags, begun.attempt
        row["state"], row["outcome"] = RunState.SUCCEEDED, OutcomeClass.SUCCESS
        row["cause"], row["retry_ms"] = CompletionCause.WORKER, -1
        row["started_ms"] = row["finished_ms"] = self.world.clock.now_ms()
        return bool((await self.world.store.complete(row, {})).applied[0])


def remote_world(handler_slots: int = 16) -> World:
    world = World(settings=SchedulerSettings(webhook_slots=16, handler_slots=handler_slots))
    world.queue = MemoryQueue(world.clock, 30_000)
    world.serves = lambda target: target.type is not TargetType.HANDLER or target.name == "here"
    return world


async def run_of(world: World, new: NewJob) -> Run:
    assert new.timer is not None
    [run] = await world.store.find_runs([(new.job.job_id, new.timer.scheduled_ms)])
    assert run is not None
    return run


async def begin_all(world: World, remote: Remote, count: int, within_ms: int = 2_000) -> list[Begun]:
    begun: list[Begun] = []
    ends_ms = world.clock.now_ms() + within_ms
    while len(begun) < count and world.clock.now_ms() < ends_ms:
        begun += await remote.take()
        await world.clock.advance(5)
    assert len(begun) == count
    return begun
