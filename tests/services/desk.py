"""The use cases on the memory store, with a firing side that can be switched on."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tickwheel.domain.columns import Rows
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.domain.requests.patch import parse_patch
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.ports.owner import Owner
from tickwheel.ports.store import JobView, Run
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.job_status import job_status
from tickwheel.services.jobs import Created, Jobs, Put
from tickwheel.services.runs import Runs
from tickwheel.services.scheduler import Scheduler
from tickwheel.testing.seeded_randomness import SeededRandomness

from .world import World

TENANT = "default"
WEBHOOK = {"endpoint": "https://a.example/x"}
SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


class NotedOwner:
    """Keeps what it is told, and passes it on while a scheduler runs."""

    def __init__(self) -> None:
        self.scheduler: Owner | None = None
        self.armed: list[tuple[int, int]] = []
        self.forgotten: list[bytes] = []
        self.aborted: list[tuple[bytes, int]] = []

    def arm(self, timers: Rows) -> None:
        self.armed += [(int(due), int(gen)) for due, gen in zip(timers["due_ms"], timers["gen"], strict=True)]
        if self.scheduler is not None:
            self.scheduler.arm(timers)

    def forget_work(self, job_id: bytes) -> None:
        self.forgotten.append(job_id)
        if self.scheduler is not None:
            self.scheduler.forget_work(job_id)

    def abort(self, runs: Sequence[tuple[bytes, int]]) -> None:
        self.aborted += runs
        if self.scheduler is not None:
            self.scheduler.abort(runs)


class Desk(World):
    """A world with the API's use cases in front."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = NotedOwner()
        self.jobs = Jobs(self.store, self.owner, self.clock, SeededRandomness(5))
        self.runs_of = Runs(self.store, self.owner, self.clock)
        self.dead_letters = DeadLetters(self.store, self.owner, self.clock)

    @asynccontextmanager
    async def firing(self) -> AsyncIterator[Scheduler]:
        """A process that fires; it is gone at the end of the block, in the middle of whatever it does."""
        scheduler = await self.start()
        self.owner.scheduler = scheduler
        try:
            yield scheduler
        finally:
            self.owner.scheduler = None
            await self.crash(scheduler)

    def finish_all(self, outcome: Outcome = OK) -> None:
        """End every attempt that is going."""
        for executor in self.executors:
            for slot in list(executor.open):
                executor.finish(slot, outcome)

    def now(self) -> int:
        return self.clock.now_ms()

    async def create(self, **members: Any) -> Created:
        return await self.jobs.create(parse_job_request(_text(members)))

    async def cron(self, expression: str, **members: Any) -> bytes:
        created = await self.create(schedule_type="CRON", cron_expression=expression, **members)
        return created.job_id

    async def once(self, in_ms: int, **members: Any) -> bytes:
        created = await self.create(schedule_type="DELAYED", delay_seconds=in_ms / 1000, **members)
        return created.job_id

    async def put(self, name: str, **members: Any) -> Put:
        return await self.jobs.put_named(name, parse_job_request(_text(members)))

    async def edit(self, job_id: bytes, **members: Any) -> JobView:
        return await self.jobs.edit(TENANT, job_id, parse_patch(json.dumps(members).encode()))

    async def view(self, job_id: bytes) -> JobView:
        return await self.jobs.get(TENANT, job_id)

    async def status(self, job_id: bytes) -> str:
        return job_status(await self.view(job_id))

    async def states(self, job_id: bytes) -> list[tuple[int, str]]:
        """(scheduled_ms, state or skip reason) of all ledger rows, oldest first."""
        return [(run.scheduled_ms, _word(run)) for run in await self.runs(job_id)]

    async def live_timers(self, job_id: bytes) -> int:
        """Unresolved timers of the job, of any kind."""
        rows = await self.store.load_timers(0, 2**62, 10**6)
        return sum(row.tobytes() == job_id for row in rows["job_id"])


def _text(members: dict[str, Any]) -> bytes:
    return json.dumps({"target": WEBHOOK} | members).encode()


def _word(run: Run) -> str:
    return run.skip_reason.name if run.state.name == "SKIPPED" else run.state.name
