"""A whole scheduler for tests of jobs and handlers: in memory, on a clock that moves when it is told to.

Jobs are scheduled with the fields of the client, real handlers are called, retries and cron expressions are the
real ones, and a day passes in a moment. Time stands still while a handler runs, however long that really takes.

Time jumps from one due timer to the next, as the store has them. Whatever is due at an instant is settled before
time goes on: loops run until nobody has anything to do, and handlers until they have ended.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, Unpack

import msgspec

from tickwheel.adapters.handlers.executor import HandlerExecutor
from tickwheel.adapters.handlers.registry import Handlers, default_handlers
from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.memory.tables import LedgerRow, Tables
from tickwheel.adapters.memory.views import full_run
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.ids import job_id_text, parse_job_id, run_id_text
from tickwheel.domain.job import DEFAULT_TENANT, Job, TargetType
from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.interfaces.client.job_fields import JobFields, job_json
from tickwheel.ports.events import Event
from tickwheel.ports.executor import Progress, Report, Work
from tickwheel.services.jobs import Jobs
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.testing.virtual_clock import START_MS, VirtualClock

T = TypeVar("T")
WORKER: Final = "workbench"
STUCK_STRIDE_MS: Final = 500
"""How time goes on while something is due that can't run just now (a concurrency limit, an earlier run)."""
BLIND_TURNS: Final = 200
"""Turns of a loop that does not tell whether anything is ready."""


class BenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the workbench shows it. `result` is what the handler returned, read back from its JSON."""

    run_id: str
    job_id: str
    job_name: str | None
    handler: str | None
    status: str
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    error: str | None
    result: Any
    result_dropped: str | None
    errors: tuple[str, ...]  # of all attempts that failed


class HandlerStillRuns(AssertionError):
    """A handler takes longer, in real time, than a test should wait."""


class Workbench:
    """For async tests. It starts on the loop that its first method is awaited on; `aclose` ends it."""

    def __init__(
        self, *, handlers: Handlers | None = None, start: datetime | None = None, patience_seconds: float = 30
    ) -> None:
        """`handlers` None: those of `tickwheel.handler`. `patience_seconds`: how long handlers may really take."""
        self._clock = VirtualClock(START_MS if start is None else int(start.timestamp() * 1000))
        self._machine, self._patience_ms = SystemClock(), int(patience_seconds * 1000)
        self.handlers = default_handlers if handlers is None else handlers
        self._tables = Tables()
        self._store = MemoryStore(self._clock, self._tables)
        self._scheduler: Scheduler | None = None
        self._jobs: Jobs | None = None

    @property
    def now(self) -> datetime:
        """Virtual time (UTC)."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    async def schedule(self, job: JobFields | None = None, /, **fields: Unpack[JobFields]) -> str:
        """Create a job with the fields that the client takes; gives its id. What is due at once runs at once."""
        jobs = await self._open()
        raw = job_json({**(job or {}), **fields}, None)
        request = parse_job_request(raw)
        target = request.spec.target
        if target.type is TargetType.HANDLER and target.name not in self.handlers:
            known = ", ".join(self.handlers.names) or "none (import the module that registers it)"
            raise LookupError(f"no handler is named {target.name!r}; registered here: {known}")
        created = await jobs.create(request)
        await self._settle()
        return job_id_text(created.job_id)

    async def run(self, handler: str, payload: Any = None, /, **fields: Unpack[JobFields]) -> BenchRun:
        """Let a handler run now, once unless `retry_policy` says otherwise; gives the run."""
        once: JobFields = {"handler": handler, "retry_policy": {"max_retries": 0}, **fields}
        if payload is not None:
            once["payload"] = payload
        job_id = await self.schedule(once)
        return self.runs(job_id)[-1]

    async def advance(
        self,
        length: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Let that much time pass; whatever comes due runs at its instant, retries included."""
        await self._open()
        total = (length or timedelta()) + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if total < timedelta():
            raise ValueError("time does not run backwards")
        until_ms = self._clock.now_ms() + int(total.total_seconds() * 1000)
        await self._settle()
        while (next_ms := self._next_ms()) is not None and next_ms <= until_ms:
            await self._step(next_ms)
        await self._step(until_ms)

    async def advance_to(self, instant: datetime) -> None:
        """Let time pass up to an instant that is still to come."""
        if instant.tzinfo is None:
            raise ValueError("give the instant a time zone, as in datetime(2026, 10, 1, 9, 30, tzinfo=UTC)")
        await self.advance(instant - self.now)

    async def cancel(self, job_id: str) -> None:
        """End the job for good."""
        await (await self._open()).cancel(DEFAULT_TENANT, parse_job_id(job_id))
        await self._settle()

    async def pause(self, job_id: str) -> None:
        """Let nothing of it start until `resume`."""
        await (await self._open()).pause(DEFAULT_TENANT, parse_job_id(job_id))

    async def resume(self, job_id: str) -> None:
        """Go on with the next occurrence."""
        await (await self._open()).resume(DEFAULT_TENANT, parse_job_id(job_id))
        await self._settle()

    def runs(self, job: str | None = None) -> list[BenchRun]:
        """The runs so far, in order: of all jobs, or of those with this id, name or handler."""
        shown = []
        for (job_id, _), row in sorted(self._tables.ledger.items(), key=lambda item: (item[0][1], item[0][0])):
            definition = self._tables.jobs[job_id]
            if job is None or job in (job_id_text(job_id), definition.name, definition.spec.target.name):
                shown.append(_shown(definition, row))
        return shown

    def results(self, job: str | None = None) -> list[Any]:
        """What the runs that succeeded have returned, in order."""
        return [run.result for run in self.runs(job) if run.status == "SUCCEEDED"]

    def dead_letters(self, job: str | None = None) -> list[BenchRun]:
        """The runs that are out of attempts."""
        return [run for run in self.runs(job) if run.status == "FAILED"]

    def next_run(self, job_id: str) -> datetime | None:
        """When the job is due next; None: never again."""
        live = self._tables.live_timers(parse_job_id(job_id))
        return datetime.fromtimestamp(live[0].due_ms / 1000, UTC) if live else None

    async def aclose(self) -> None:
        """Stop it; what has happened can still be looked at."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is None:
            return
        draining = asyncio.ensure_future(scheduler.drain(0))
        while not draining.done():
            await self._machine.sleep_ms(0)
            wake_ms = self._clock.next_wake_ms
            if wake_ms is not None:
                self._clock.step_ms(max(0, wake_ms - self._clock.now_ms()))
        await draining

    async def _open(self) -> Jobs:
        if self._jobs is not None and self._scheduler is not None:
            return self._jobs
        clock, handlers = self._clock, self.handlers
        self._scheduler = scheduler = Scheduler(
            store=self._store,
            clock=clock,
            randomness=SeededRandomness(1),
            events=_Nobody(),
            build_webhooks=_Webhooks,
            build_handlers=lambda report, progress: HandlerExecutor(
                handlers=handlers, report=report, progress=progress, clock=clock, thread_limit=16
            ),
            serves=lambda target: target.type is not TargetType.HANDLER or target.name in handlers,
            holdings=Holdings(await self._store.acquire(WORKER)),
            worker=WORKER,
            settings=SchedulerSettings(webhook_slots=64, handler_slots=64),
        )
        self._jobs = Jobs(self._store, scheduler, clock, SeededRandomness(2))
        scheduler.start()
        await self._settle()
        return self._jobs

    def _next_ms(self) -> int | None:
        """When something is due next, as the store has it."""
        now_ms = self._clock.now_ms()
        return min(
            (key.due_ms if key.due_ms > now_ms else now_ms + STUCK_STRIDE_MS for key in self._tables.timers),
            default=None,
        )

    async def _step(self, to_ms: int) -> None:
        self._clock.step_ms(max(0, to_ms - self._clock.now_ms()))
        await self._settle()

    async def _settle(self) -> None:
        """Until nothing more happens at this instant."""
        scheduler, since_ms = self._scheduler, self._machine.monotonic_ms()
        while scheduler is not None:
            await self._quiet()
            if not (any(len(pool.inflight) for pool in scheduler.pools) or scheduler.completions.pending):
                return
            if self._machine.monotonic_ms() - since_ms > self._patience_ms:
                raise HandlerStillRuns(f"still running after {self._patience_ms / 1000:g} s: {self._running()}")
            await self._machine.sleep_ms(1)

    def _running(self) -> str:
        keys = sorted(self._tables.in_flight)
        return ", ".join(
            f"{self._tables.jobs[j].spec.target.name or j.hex()} ({run_id_text(j, at)})" for j, at in keys
        )

    async def _quiet(self) -> None:
        """Until nobody else has anything to do in this moment, as far as the loop tells."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:
            for _ in range(BLIND_TURNS):
                await self._machine.sleep_ms(0)
            return
        await self._machine.sleep_ms(0)
        while ready:
            await self._machine.sleep_ms(0)


class BlockingWorkbench:
    """For plain tests: the same, without `await`."""

    def __init__(
        self, *, handlers: Handlers | None = None, start: datetime | None = None, patience_seconds: float = 30
    ) -> None:
        self._bench = Workbench(handlers=handlers, start=start, patience_seconds=patience_seconds)
        self._runner = asyncio.Runner()

    @property
    def now(self) -> datetime:
        """Virtual time (UTC)."""
        return self._bench.now

    def schedule(self, job: JobFields | None = None, /, **fields: Unpack[JobFields]) -> str:
        """See `Workbench.schedule`."""
        return self._run(self._bench.schedule(job, **fields))

    def run(self, handler: str, payload: Any = None, /, **fields: Unpack[JobFields]) -> BenchRun:
        """See `Workbench.run`."""
        return self._run(self._bench.run(handler, payload, **fields))

    def advance(
        self,
        length: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """See `Workbench.advance`."""
        self._run(self._bench.advance(length, days=days, hours=hours, minutes=minutes, seconds=seconds))

    def advance_to(self, instant: datetime) -> None:
        """See `Workbench.advance_to`."""
        self._run(self._bench.advance_to(instant))

    def cancel(self, job_id: str) -> None:
        """See `Workbench.cancel`."""
        self._run(self._bench.cancel(job_id))

    def pause(self, job_id: str) -> None:
        """See `Workbench.pause`."""
        self._run(self._bench.pause(job_id))

    def resume(self, job_id: str) -> None:
        """See `Workbench.resume`."""
        self._run(self._bench.resume(job_id))

    def runs(self, job: str | None = None) -> list[BenchRun]:
        """See `Workbench.runs`."""
        return self._bench.runs(job)

    def results(self, job: str | None = None) -> list[Any]:
        """See `Workbench.results`."""
        return self._bench.results(job)

    def dead_letters(self, job: str | None = None) -> list[BenchRun]:
        """See `Workbench.dead_letters`."""
        return self._bench.dead_letters(job)

    def next_run(self, job_id: str) -> datetime | None:
        """See `Workbench.next_run`."""
        return self._bench.next_run(job_id)

    def close(self) -> None:
        """See `Workbench.aclose`."""
        self._run(self._bench.aclose())
        self._runner.close()

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(what)


class _Nobody:
    """Hears of what happens and does nothing about it."""

    def emit(self, event: Event) -> None:
        """Nobody looks."""


class _Webhooks:
    """Every endpoint answers 200; nothing is sent anywhere."""

    def __init__(self, report: Report, progress: Progress) -> None:
        self._report = report

    def start(self, works: Sequence[Work]) -> None:
        answer = Outcome(outcome_class=OutcomeClass.SUCCESS, http_status=200)
        tell: Callable[..., None] = self._report
        asyncio.get_running_loop().call_soon(tell, [work.slot for work in works], [answer] * len(works))

    def cancel(self, slots: Sequence[int]) -> None:
        """They have ended already."""

    async def aclose(self, grace_ms: int) -> None:
        """Nothing is open."""


def _shown(job: Job, row: LedgerRow) -> BenchRun:
    run = full_run(row)
    return BenchRun(
        run_id=run_id_text(run.job_id, run.scheduled_ms),
        job_id=job_id_text(run.job_id),
        job_name=job.name or None,
        handler=job.spec.target.name or None,
        status=run.state.name,
        scheduled_at=_instant(run.scheduled_ms),
        started_at=None if run.started_ms is None else _instant(run.started_ms),
        finished_at=None if run.finished_ms is None else _instant(run.finished_ms),
        attempt=run.attempt,
        error=run.error,
        result=None if run.result is None else msgspec.json.decode(run.result),
        result_dropped=run.result_dropped,
        errors=tuple(attempt.error for attempt in run.attempts if attempt.error is not None),
    )


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
