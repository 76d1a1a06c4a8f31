"""A whole firing side on the memory store and a virtual clock, with executors that do as they are told."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.columns import TIMER
from tickwheel.domain.ids import make_job_id
from tickwheel.domain.job import CatchUp, Job, Lane, Overlap, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass, RetryPolicy
from tickwheel.ports.buffer import Buffer
from tickwheel.ports.events import Event
from tickwheel.ports.executor import Progress, Report, Work
from tickwheel.ports.queue import Queue
from tickwheel.ports.store import FirstTimer, NewJob, Run
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.testing.virtual_clock import VirtualClock
from tickwheel.wiring.stores import AuditedStore

E = TypeVar("E")
FAILED = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="no luck")
REFUSED = Outcome(outcome_class=OutcomeClass.PERMANENT, error="never")


@dataclass
class Call:
    """One attempt as the target saw it."""

    work: Work
    started_ms: int


def lateness_ms(call: Call, new: NewJob) -> int:
    """How long after a one-off's instant the target was called."""
    assert new.job.scheduled_ms is not None
    return call.started_ms - new.job.scheduled_ms


class FakeExecutor:
    """Reports what `behave` says: an outcome at once, or None to keep the attempt going until told."""

    def __init__(self, report: Report, clock: VirtualClock, behave: Callable[[Work], Outcome | None]) -> None:
        self._report, self._clock, self.behave = report, clock, behave
        self.calls: list[Call] = []
        self.open: dict[int, Work] = {}
        self.most_open = 0
        self.cancelled: list[int] = []
        self.obeys_cancel = True
        self.say: Progress = lambda slot, note: None

    def start(self, works: Sequence[Work]) -> None:
        for work in works:
            self.calls.append(Call(work, self._clock.now_ms()))
            outcome = self.behave(work)
            self.open[work.slot] = work
            self.most_open = max(self.most_open, len(self.open))
            if outcome is not None:
                asyncio.get_running_loop().call_soon(self.finish, work.slot, outcome)

    def finish(self, slot: int, outcome: Outcome = OK) -> None:
        del self.open[slot]
        self._report([slot], [outcome])

    def cancel(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self.cancelled.append(slot)
            if self.obeys_cancel and slot in self.open:
                ending = Outcome(outcome_class=OutcomeClass.CANCELLED)
                asyncio.get_running_loop().call_soon(self.finish, slot, ending)

    async def aclose(self, grace_ms: int) -> None:
        await self._clock.sleep_ms(grace_ms if self.open else 0)
        for slot in list(self.open):
            self.finish(slot, Outcome(outcome_class=OutcomeClass.UNSTARTED))


@dataclass
class Events:
    """Keeps every event."""

    seen: list[Event] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        self.seen.append(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.seen if isinstance(event, kind)]


class World:
    """One store, and one process after another that fires its timers."""

    def __init__(
        self,
        *,
        settings: SchedulerSettings | None = None,
        store: AuditedStore | None = None,
        clock: VirtualClock | None = None,
        buffer: Buffer | None = None,
        queue: Queue | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.memory = MemoryStore(self.clock)
        self.store: AuditedStore = store or self.memory
        self.buffer, self.queue = buffer, queue
        self.settings = settings or SchedulerSettings(webhook_slots=16, handler_slots=16)
        self.behave: Callable[[Work], Outcome | None] = lambda work: OK
        self.events = Events()
        self.serves: Callable[[Target], bool] = lambda target: True
        self.executors: list[FakeExecutor] = []
        self.process_count = 0
        self._ids = SeededRandomness(7)

    @property
    def calls(self) -> list[Call]:
        """All attempts of all processes, in order."""
        return sorted(
            (call for executor in self.executors for call in executor.calls), key=lambda call: call.started_ms
        )

    async def start(self, *, local_routes: Sequence[str] = ()) -> Scheduler:
        """A new process takes the shards and begins to fire."""
        self.process_count += 1
        worker = f"worker-{self.process_count}"
        holdings = Holdings(await self.store.acquire(worker))

        def build(report: Report, progress: Progress) -> FakeExecutor:
            executor = FakeExecutor(report, self.clock, lambda work: self.behave(work))
            executor.say = progress
            self.executors.append(executor)
            return executor

        scheduler = Scheduler(
            store=self.store,
            clock=self.clock,
            randomness=SeededRandomness(1),
            events=self.events,
            build_webhooks=build,
            build_handlers=build,
            serves=lambda target: self.serves(target),
            holdings=holdings,
            worker=worker,
            settings=self.settings,
            buffer=self.buffer,
            queue=self.queue,
            local_routes=local_routes,
        )
        scheduler.start()
        return scheduler

    async def crash(self, scheduler: Scheduler) -> None:
        """The process is gone in the middle of whatever it did; nothing of it speaks again."""
        for loop in scheduler._loops.values():
            loop.cancel()
        await asyncio.gather(*scheduler._loops.values(), return_exceptions=True)
        for pool in scheduler.pools:
            pool.executor.open.clear()  # type: ignore[attr-defined]  # the fake's table

    async def lose(self, times: int) -> None:
        """So many processes after one another, each of which dies while its runs are under way."""
        for _ in range(times):
            scheduler = await self.start()
            await self.clock.advance(20_000)
            await self.crash(scheduler)

    def next_minute_ms(self) -> int:
        """The first full minute that is still to come."""
        return (self.clock.now_ms() // 60_000 + 1) * 60_000

    def job(
        self,
        *,
        in_ms: int = 0,
        cron: str = "",
        lane: Lane = Lane.DEFAULT,
        retries: int = 3,
        overlap: Overlap = Overlap.ALLOW,
        catch_up: CatchUp = CatchUp.FIRE_ONCE,
        deadline_ms: int | None = None,
        name: str = "j",
        handler: str = "",
        first_ms: int | None = None,
        endpoint: str = "https://a.example/x",
        tenant_id: str = "default",
    ) -> NewJob:
        """A job due `in_ms` from now, or by `cron` with its first occurrence at `first_ms`."""
        now_ms = self.clock.now_ms()
        due_ms = now_ms + in_ms if first_ms is None else first_ms
        target = (
            Target(type=TargetType.HANDLER, name=handler)
            if handler
            else Target(type=TargetType.HTTP_WEBHOOK, endpoint=endpoint)
        )
        spec = Spec(
            target=target,
            retry=RetryPolicy(max_retries=retries, initial_interval_ms=1_000),
            cron=cron,
            overlap=overlap,
            catch_up=catch_up,
            deadline_ms=deadline_ms,
        )
        job_id = make_job_id(
            created_ms=now_ms,
            shard=self._ids.random_bytes(1)[0],
            due_ms=None if cron else due_ms,
            random48=self._ids.random_bytes(6),
        )
        job = Job(
            job_id=job_id,
            tenant_id=tenant_id,
            name=name,
            schedule_type=ScheduleType.CRON if cron else ScheduleType.ONE_OFF,
            lane=lane,
            spec=spec,
            payload="{}",
            created_ms=now_ms,
            effective_ms=now_ms,
            scheduled_ms=None if cron else due_ms,
        )
        return NewJob(job=job, timer=FirstTimer(due_ms, due_ms, 1))

    async def add(self, scheduler: Scheduler | None, *jobs: NewJob) -> list[bytes]:
        """Insert the jobs, and arm them if a process is there."""
        await self.store.insert_jobs(jobs)
        if scheduler is not None:
            rows = np.zeros(len(jobs), dtype=TIMER)
            for number, new in enumerate(jobs):
                assert new.timer is not None
                due_ms, scheduled_ms, gen = new.timer.due_ms, new.timer.scheduled_ms, new.timer.gen
                rows[number] = (due_ms, new.job.job_id, scheduled_ms, gen, new.job.timer_flags)
            scheduler.arm(rows)
        return [new.job.job_id for new in jobs]

    async def runs(self, job_id: bytes) -> list[Run]:
        """The job's ledger rows, oldest first."""
        page = await self.memory.list_runs("default", job_id, 1_000, None)
        return sorted(page.items, key=lambda run: run.scheduled_ms)

    async def run_of(self, job_id: bytes) -> Run:
        """The only run of a one-off."""
        (run,) = await self.runs(job_id)
        return run
