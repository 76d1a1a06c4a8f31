"""Seeded random histories of one process: jobs of all kinds, edits, cancels, pauses, crashes, stalls, a store that
fails before or after it writes. Whatever happens, the invariants hold when the dust has settled.

A failing seed is printed by its test id and replays exactly: time is virtual and every choice comes from the seed.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.errors import Conflict, NotFound, OutcomeUnknown, StoreUnavailable
from tickwheel.domain.job import CatchUp, JobState, Overlap
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.domain.run import TERMINAL, RunState
from tickwheel.ports.executor import Work
from tickwheel.services.jobs import Jobs
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.testing.seeded_randomness import SeededRandomness

from .world import FAILED, REFUSED, World

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "12"))
STEPS = 50
SECOND_MS = 1_000
FLAKY = ("claim", "complete", "renew", "load_work", "load_timers", "expired", "insert_jobs", "change_job")


class FlakyStore:
    """Fails some calls: before anything is written, or after all of it is."""

    def __init__(self, store: MemoryStore, rng: np.random.Generator) -> None:
        self._store, self._rng = store, rng
        self.rate = 0.0
        self.met: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        return self._flaky(name, verb) if name in FLAKY else verb

    def _flaky(self, name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any) -> Any:
            chance = self._rng.random()
            if chance < self.rate:
                self.met[f"{name} refused"] += 1
                raise StoreUnavailable("down")
            answer = await verb(*args)
            if chance < 2 * self.rate:
                self.met[f"{name} unknown"] += 1
                raise OutcomeUnknown("the answer was lost")
            return answer

        return call


class History:
    """One seed's story."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        settings = SchedulerSettings(webhook_slots=12, handler_slots=4, lease_ms=10_000)
        self.world = World(settings=settings)
        self.flaky = FlakyStore(self.world.memory, self.rng)
        self.world.store = self.flaky
        self.world.behave = self._behave
        self.scheduler: Scheduler | None = None
        self.jobs: list[bytes] = []
        self.cancelled: set[bytes] = set()
        self.calm = False  # from then on everything succeeds at once
        self.slow: dict[int, tuple[int, Work]] = {}

    async def tell(self) -> None:
        self.scheduler = await self._start()
        self.flaky.rate = 0.05
        for _ in range(STEPS):
            step = self.rng.choice(len(self._steps), p=[w for _, w in self._steps])
            await self._steps[step][0](self)
            await self.world.clock.advance(int(self.rng.integers(1, 1_500)))
            self._end_slow_ones()
        self.flaky.rate, self.calm = 0, True
        for _ in range(90):
            await self.world.clock.advance(2 * SECOND_MS)
            self._end_slow_ones()
        await self.scheduler.drain(0)

    async def _start(self) -> Scheduler:
        while True:
            try:
                return await self.world.start()
            except StoreUnavailable:
                continue

    def _behave(self, work: Work) -> Outcome | None:
        if self.calm:
            return OK
        kind = self.rng.choice(5, p=[0.5, 0.2, 0.05, 0.15, 0.1])
        if kind <= 2:
            return (OK, FAILED, REFUSED)[kind]
        executor = self.world.executors[-2]
        until_ms = self.world.clock.now_ms() + int(self.rng.integers(100, 3_000 if kind == 3 else 30_000))
        self.slow[id(work)] = (until_ms, work)
        assert executor is not None
        return None

    def _end_slow_ones(self) -> None:
        now_ms = self.world.clock.now_ms()
        for key, (until_ms, work) in list(self.slow.items()):
            if until_ms <= now_ms:
                del self.slow[key]
                for executor in self.world.executors:
                    if executor.open.get(work.slot) is work:
                        executor.finish(work.slot)

    async def _create(self) -> None:
        lot = [self._job() for _ in range(int(self.rng.integers(1, 6)))]
        try:
            await self.world.add(self.scheduler, *lot)
        except OutcomeUnknown:
            await self.world.memory.insert_jobs([])  # it is there all the same: it must run
        except StoreUnavailable:
            return
        self.jobs += [new.job.job_id for new in lot]

    def _job(self) -> Any:
        rng = self.rng
        retries = int(rng.integers(0, 4))
        if rng.random() < 0.3:
            first_ms = (self.world.clock.now_ms() // SECOND_MS + 1) * SECOND_MS
            overlap = list(Overlap)[rng.integers(3)]
            catch_up = list(CatchUp)[rng.integers(3)]
            cron = "*/2 * * * * *" if first_ms // SECOND_MS % 2 == 0 else "1/2 * * * * *"
            return self.world.job(
                cron=cron, first_ms=first_ms, overlap=overlap, catch_up=catch_up, retries=retries
            )
        return self.world.job(in_ms=int(rng.integers(0, 20_000)), retries=retries)

    async def _cancel(self) -> None:
        await self._change("cancel")

    async def _pause(self) -> None:
        await self._change("pause")

    async def _resume(self) -> None:
        await self._change("resume")

    async def _change(self, verb: str) -> None:
        if not self.jobs or self.scheduler is None:
            return
        job_id = self.jobs[self.rng.integers(len(self.jobs))]
        service = Jobs(self.world.store, self.scheduler, self.world.clock, SeededRandomness(3))
        try:
            await getattr(service, verb)("default", job_id)
        except (Conflict, NotFound, StoreUnavailable):
            return
        if verb == "cancel":
            self.cancelled.add(job_id)
            self._succeeded_before = None

    async def _crash(self) -> None:
        assert self.scheduler is not None
        await self.world.crash(self.scheduler)
        await self.world.clock.advance(int(self.rng.integers(1, 5_000)))
        self.scheduler = await self._start()

    async def _stall(self) -> None:
        self.world.clock.step_ms(int(self.rng.integers(1_000, 30_000)))

    async def _nothing(self) -> None:
        return

    _steps: tuple[tuple[Callable[["History"], Awaitable[None]], float], ...] = (
        (_create, 0.5),
        (_cancel, 0.1),
        (_pause, 0.08),
        (_resume, 0.12),
        (_crash, 0.05),
        (_stall, 0.05),
        (_nothing, 0.1),
    )


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_invariants_hold_after_a_random_history(seed: int) -> None:
    history = History(seed)
    await history.tell()
    await _check(history)


async def _check(history: History) -> None:
    world, memory = history.world, history.world.memory
    for call in world.calls:
        assert call.started_ms >= call.work.scheduled_ms, "early"
    tokens: dict[bytes, list[int]] = defaultdict(list)
    for call in world.calls:
        tokens[call.work.job_id].append(call.work.fence)
    for job_id, fences in tokens.items():
        assert len(set(fences)) == len(fences), f"two starts under one token of {job_id.hex()}"
    for job_id in history.jobs:
        view = await memory.get_job("default", job_id)
        assert view is not None
        runs = await world.runs(job_id)
        held = view.job.state is JobState.PAUSED or any(run.state is RunState.PAUSED for run in runs)
        for run in runs:
            if not view.job.recurring and not held:
                assert run.state in TERMINAL, f"{run} is not over"
            calls = [c for c in world.calls if c.work.job_id == job_id and c.work.scheduled_ms == run.scheduled_ms]
            assert run.attempt <= view.job.spec.retry.max_retries + 1
            if run.state is RunState.SUCCEEDED:
                assert run.fence in {call.work.fence for call in calls}
            if job_id in history.cancelled:
                assert run.state in TERMINAL
        if job_id in history.cancelled:
            assert view.live is None
        elif not view.job.recurring:
            assert runs or held, f"{job_id.hex()} was lost"
        elif view.job.state is JobState.ACTIVE:
            assert view.live is not None, f"the chain of {job_id.hex()} is dead"
            assert view.live.due_ms > world.clock.now_ms() - 10 * SECOND_MS
