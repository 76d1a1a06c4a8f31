"""A seeded history of one process: jobs of all kinds and whatever people and fate do to them.

Every choice comes from the seed and time is virtual, so a seed replays exactly. After each step the `Ledgers` look
at everything in the store: what must hold always, and what must never change again.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

import numpy as np
from msgspec.structs import replace

from tickwheel.domain.concurrency import Limit, Scope, counted
from tickwheel.domain.errors import Conflict, InvalidRequest, NotFound, OutcomeUnknown, StoreUnavailable
from tickwheel.domain.job import CatchUp, Overlap
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.domain.requests.instants import format_instant
from tickwheel.domain.requests.patch import parse_patch
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.domain.run import FINAL, IN_FLIGHT, RunState
from tickwheel.ports.audit import Audited
from tickwheel.ports.executor import Work
from tickwheel.ports.store import JobQuery, JobView, NewJob, Run, Store
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.jobs import Jobs
from tickwheel.services.runs import Runs
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.testing.seeded_randomness import SeededRandomness

from .world import FAILED, REFUSED, World

STEPS = 60
SECOND_MS = 1_000
TENANT = "default"
CRONS = ("*/2 * * * * *", "1/2 * * * * *", "*/5 * * * * *", "0 * * * * *")
LIMITS: Final[Sequence[tuple[Limit, ...]]] = (
    (),
    (),
    (),
    (Limit(1, key="one"),),
    (Limit(3, key="three"), Limit(5, Scope.TENANT)),
    (Limit(2, key="few", max_waiting=2),),
)
"""Each key has one limit, so that it can be said what must hold."""
FLAKY = (
    "claim",
    "complete",
    "renew",
    "load_work",
    "load_timers",
    "expired",
    "insert_jobs",
    "change_job",
    "change_run",
    "put_named",
    "broken_chains",
)


class FlakyStore:
    """Fails some calls: before anything is written, or after all of it is."""

    def __init__(self, store: Store, rng: np.random.Generator) -> None:
        self._store, self._rng = store, rng
        self.rate = 0.0
        self.met: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        return self._flaky(name, verb) if name in FLAKY else verb

    def _flaky(self, name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            chance = self._rng.random()
            if chance < self.rate:
                self.met[f"{name} refused"] += 1
                raise StoreUnavailable("down")
            answer = await verb(*args, **options)
            if chance < 2 * self.rate:
                self.met[f"{name} unknown"] += 1
                raise OutcomeUnknown("the answer was lost")
            return answer

        return call


class Ledgers:
    """What was seen of all runs so far."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._final: dict[tuple[bytes, int], Run] = {}
        self.never: set[tuple[bytes, int]] = set()  # runs that may not succeed any more: a cancel has answered
        self.views: list[JobView] = []

    async def look(self) -> None:
        page = await self._store.list_jobs(JobQuery(TENANT, limit=10_000))
        assert page.next_cursor is None
        self.views = list(page.items)
        timers = Counter(job_id.tobytes() for job_id in (await self._store.load_timers(0, 2**62, 10**6))["job_id"])
        for view in self.views:
            self._look_at_timers(view, timers.pop(view.job.job_id, 0))
            for run in await self.runs(view):
                self._look_at(run)
        assert not timers, "timers of jobs that are gone"
        self._look_at_limits()
        assert await cast(Audited, self._store).audit_slots() == 0
        assert (await self._store.broken_chains(b"", 10_000)).broken == ()

    async def runs(self, view: JobView) -> list[Run]:
        page = await self._store.list_runs(TENANT, view.job.job_id, 10_000, None)
        return list(page.items)

    def _look_at_timers(self, view: JobView, timer_count: int) -> None:
        under_way = [run for run in view.open_runs if run.state is not RunState.PAUSED]
        assert timer_count == len(under_way) + (view.live is not None), f"{timer_count} timers: {view}"
        if view.job.recurring and view.job.spec.overlap is not Overlap.ALLOW and "overlapped" not in view.job.tags:
            assert sum(run.state in IN_FLIGHT for run in view.open_runs) <= 1, f"two at once: {view.open_runs}"

    def _look_at_limits(self) -> None:
        flying: Counter[str] = Counter()
        most: dict[str, int] = {}
        for view in self.views:
            job = view.job
            for limit in counted(job.spec.concurrency, job.tenant_id, job.name):
                flying[limit.name] += sum(run.state in IN_FLIGHT for run in view.open_runs)
                most[limit.name] = limit.limit
        assert all(flying[name] <= limit for name, limit in most.items()), f"{flying} of {most}"

    def _look_at(self, run: Run) -> None:
        key = (run.job_id, run.scheduled_ms)
        before = self._final.get(key)
        if before is not None:
            assert (run.state, run.fence) == (before.state, before.fence), f"{before} became {run}"
        elif run.state in FINAL:
            self._final[key] = run
        assert run.state is not RunState.SUCCEEDED or key not in self.never, f"{run} after its cancel"


class History:
    """One seed's story."""

    def __init__(self, seed: int, store: Store | None = None, world: World | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        settings = SchedulerSettings(webhook_slots=12, handler_slots=4, lease_ms=10_000)
        self.world = world or World(settings=settings)
        self.world.settings = settings
        self.store: Store = store or self.world.memory
        self.flaky = FlakyStore(self.store, self.rng)
        self.world.store = self.flaky
        self.world.behave = self._behave
        self.scheduler: Scheduler
        self.ledgers = Ledgers(self.store)
        self.inserted: set[bytes] = set()
        self.maybe_deleted: set[bytes] = set()
        self.calm = False  # from then on everything succeeds at once
        self.slow: dict[int, tuple[int, Work]] = {}
        self._ids = SeededRandomness(3)

    async def tell(self) -> None:
        self.scheduler = await self._start()
        self.flaky.rate = 0.05
        for _ in range(STEPS):
            step = self.rng.choice(len(self._steps), p=[w for _, w in self._steps])
            await self._steps[step][0](self)
            await self.ledgers.look()
            await self.world.clock.advance(int(self.rng.integers(1, 1_500)))
            self._end_slow_ones()
            await self.ledgers.look()
        self.flaky.rate, self.calm = 0, True
        for _ in range(90):
            await self.world.clock.advance(2 * SECOND_MS)
            self._end_slow_ones()
        await self.ledgers.look()
        await self.scheduler.drain(0)

    async def _start(self) -> Scheduler:
        while True:
            try:
                return await self.world.start()
            except StoreUnavailable:
                continue

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def _behave(self, work: Work) -> Outcome | None:
        if self.calm:
            return OK
        kind = self.rng.choice(5, p=[0.5, 0.2, 0.05, 0.15, 0.1])
        if kind <= 2:
            return (OK, FAILED, REFUSED)[kind]
        until_ms = self.now_ms + int(self.rng.integers(100, 3_000 if kind == 3 else 30_000))
        self.slow[id(work)] = (until_ms, work)
        return None

    def _end_slow_ones(self) -> None:
        for key, (until_ms, work) in list(self.slow.items()):
            if until_ms <= self.now_ms:
                del self.slow[key]
                for executor in self.world.executors:
                    if executor.open.get(work.slot) is work:
                        executor.finish(work.slot)

    async def _create(self) -> None:
        lot = [self._limited(self._job()) for _ in range(int(self.rng.integers(1, 6)))]
        try:
            await self.world.add(self.scheduler, *lot)
        except OutcomeUnknown:
            pass  # it is there all the same: it must run
        except StoreUnavailable:
            return
        self.inserted |= {new.job.job_id for new in lot}

    def _job(self) -> Any:
        rng = self.rng
        retries = int(rng.integers(0, 4))
        if rng.random() < 0.3:
            first_ms = (self.now_ms // SECOND_MS + 1) * SECOND_MS
            overlap = list(Overlap)[rng.integers(3)]
            catch_up = list(CatchUp)[rng.integers(3)]
            cron = CRONS[0] if first_ms // SECOND_MS % 2 == 0 else CRONS[1]
            return self.world.job(
                cron=cron, first_ms=first_ms, overlap=overlap, catch_up=catch_up, retries=retries
            )
        handler = "h" if rng.random() < 0.2 else ""
        return self.world.job(in_ms=int(rng.integers(0, 20_000)), retries=retries, handler=handler)

    def _limited(self, new: NewJob) -> NewJob:
        spec = replace(new.job.spec, concurrency=LIMITS[int(self.rng.integers(len(LIMITS)))])
        return replace(new, job=replace(new.job, spec=spec))

    def _pick(self) -> JobView | None:
        return self.ledgers.views[self.rng.integers(len(self.ledgers.views))] if self.ledgers.views else None

    def _jobs(self) -> Jobs:
        return Jobs(self.world.store, self.scheduler, self.world.clock, self._ids)

    async def _try(self, change: Awaitable[object]) -> bool:
        """Whether the change has answered; what is refused or unknown is no promise."""
        try:
            await change
        except (Conflict, InvalidRequest, NotFound, StoreUnavailable):
            return False
        return True

    async def _cancel(self) -> None:
        await self._end(self._jobs().cancel)

    async def _delete(self) -> None:
        view = await self._end(self._jobs().delete)
        if view is not None:
            self.maybe_deleted.add(view.job.job_id)

    async def _end(self, verb: Callable[[str, bytes], Awaitable[object]]) -> JobView | None:
        view = self._pick()
        if view is not None and await self._try(verb(TENANT, view.job.job_id)):
            for run in await self.ledgers.runs(view):
                if run.state is not RunState.SUCCEEDED:
                    self.ledgers.never.add((run.job_id, run.scheduled_ms))
        return view

    async def _cancel_run(self) -> None:
        view = self._pick()
        if view is None:
            return
        instants = [run.scheduled_ms for run in view.open_runs]
        instants += [view.live.scheduled_ms] if view.live is not None else []
        if instants:
            at_ms = instants[self.rng.integers(len(instants))]
            runs = Runs(self.world.store, self.scheduler, self.world.clock)
            if await self._try(runs.cancel(TENANT, view.job.job_id, at_ms)):
                self.ledgers.never.add((view.job.job_id, at_ms))

    async def _hold(self) -> None:
        view = self._pick()
        if view is not None:
            verb = self._jobs().resume if self.rng.random() < 0.6 else self._jobs().pause
            await self._try(verb(TENANT, view.job.job_id))

    async def _edit(self) -> None:
        view = self._pick()
        if view is None:
            return
        members: dict[str, object] = {"payload": int(self.rng.integers(3))}
        if view.job.recurring:
            members["cron_expression"] = CRONS[self.rng.integers(len(CRONS))]
            if self.rng.random() < 0.2:
                members |= {"overlap": list(Overlap)[self.rng.integers(3)].value, "tags": ["overlapped"]}
        elif self.rng.random() < 0.6:
            members["execute_at"] = format_instant(self.now_ms + int(self.rng.integers(-20, 20)) * SECOND_MS)
        if self.rng.random() < 0.3:
            members["retry_policy"] = {"max_retries": int(self.rng.integers(4))}
        await self._try(self._jobs().edit(TENANT, view.job.job_id, parse_patch(json.dumps(members).encode())))

    async def _put(self) -> None:
        cron = CRONS[self.rng.integers(len(CRONS))]
        asked = {"schedule_type": "CRON", "cron_expression": cron, "target": {"endpoint": "https://a.example/x"}}
        request = parse_job_request(json.dumps(asked).encode())
        await self._try(self._jobs().put_named(f"named-{self.rng.integers(2)}", request))

    async def _trigger(self) -> None:
        view = self._pick()
        if view is not None:
            await self._try(self._jobs().trigger(TENANT, view.job.job_id))

    async def _redrive(self) -> None:
        letters = DeadLetters(self.world.store, self.scheduler, self.world.clock)
        await self._try(letters.redrive_all(TENANT))

    async def _crash(self) -> None:
        await self.world.crash(self.scheduler)
        await self._start_again()

    async def _restart(self) -> None:
        drained = asyncio.ensure_future(self.scheduler.drain(int(self.rng.integers(0, 3_000))))
        await self.world.clock.advance(10 * SECOND_MS)
        await drained
        await self._start_again()

    async def _start_again(self) -> None:
        await self.world.clock.advance(int(self.rng.integers(1, 5_000)))
        self.scheduler = await self._start()

    async def _stall(self) -> None:
        self.world.clock.step_ms(int(self.rng.integers(1_000, 30_000)))

    async def _nothing(self) -> None:
        return

    _steps: tuple[tuple[Callable[["History"], Awaitable[None]], float], ...] = (
        (_create, 0.3),
        (_cancel, 0.05),
        (_delete, 0.03),
        (_cancel_run, 0.1),
        (_hold, 0.15),
        (_edit, 0.12),
        (_put, 0.03),
        (_trigger, 0.03),
        (_redrive, 0.03),
        (_crash, 0.04),
        (_restart, 0.03),
        (_stall, 0.04),
        (_nothing, 0.05),
    )
