"""What jobs call: notes every start, and takes its time, fails or hangs as the seed has it."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.ports.clock import Clock
from tickwheel.ports.executor import Report, Work
from tickwheel.testing.model import Process

FAILED = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="no luck")
REFUSED = Outcome(outcome_class=OutcomeClass.PERMANENT, error="never")
CANCELLED = Outcome(outcome_class=OutcomeClass.CANCELLED)
UNSTARTED = Outcome(outcome_class=OutcomeClass.UNSTARTED)
AT_ONCE_MS = 2


@dataclass(frozen=True)
class Start:
    """One attempt as the target saw it."""

    process: str
    job_id: bytes
    scheduled_ms: int
    fence: int
    at_ms: int

    def __str__(self) -> str:
        return f"run {self.job_id.hex()[-6:]}@{self.scheduled_ms % 10**8} by {self.process}, token {self.fence:#x}"


class Witness(Protocol):
    """Who is told about starts."""

    def saw_start(self, start: Start) -> None: ...

    def saw_hand_back(self, job_id: bytes, scheduled_ms: int) -> None: ...

    def broken(self, name: str, text: str) -> None: ...


@dataclass(frozen=True)
class Fate:
    """How an attempt goes."""

    takes_ms: int
    outcome: Outcome


class Targets:
    """All targets, seen from everywhere."""

    def __init__(self, rng: random.Random, clock: Clock, witness: Witness) -> None:
        self._rng, self.clock, self.witness = rng, clock, witness
        self.behave: Callable[[Work], Fate] = self._draw
        self.is_calm = False

    def _draw(self, work: Work) -> Fate:
        if self.is_calm:
            return Fate(AT_ONCE_MS, OK)
        chance = self._rng.random()
        if chance < 0.55:
            return Fate(AT_ONCE_MS, OK)
        if chance < 0.75:
            return Fate(self._rng.randrange(20, 900), OK)
        if chance < 0.80:
            return Fate(self._rng.randrange(900, 6_000), OK)
        if chance < 0.97:
            return Fate(self._rng.randrange(2, 200), FAILED)
        return Fate(AT_ONCE_MS, REFUSED)


class TargetExecutor:
    """Implements `ports.executor.Executor` for a process."""

    def __init__(
        self,
        report: Report,
        targets: Targets,
        process: Process,
        spawn: Callable[[Awaitable[None]], object],
        slots: int,
        tenant_id: str | None = None,
    ) -> None:
        """`tenant_id`: the process is a worker of that tenant."""
        self._report, self._targets, self._process, self._spawn = report, targets, process, spawn
        self._open: dict[int, Work] = {}
        self._slots, self._tenant_id = slots, tenant_id

    def start(self, works: Sequence[Work]) -> None:
        if not self._process.alive:
            return
        now_ms = self._targets.clock.now_ms()
        for work in works:
            self._targets.witness.saw_start(
                Start(self._process.name, work.job_id, work.scheduled_ms, work.fence, now_ms)
            )
            if self._tenant_id not in (None, work.tenant_id):
                self._targets.witness.broken("T1 tenant", f"{self._process.name} got a run of {work.tenant_id}")
            self._open[work.slot] = work
            if len(self._open) > self._slots:
                self._targets.witness.broken("I12 slots", f"{len(self._open)} attempts at once")
            self._spawn(self._attempt(work, self._targets.behave(work)))

    async def _attempt(self, work: Work, fate: Fate) -> None:
        await self._targets.clock.sleep_ms(fate.takes_ms)
        await self._process.pass_gate()
        self._end(work, fate.outcome)

    def _end(self, work: Work, outcome: Outcome) -> None:
        if outcome is UNSTARTED:
            self._targets.witness.saw_hand_back(work.job_id, work.scheduled_ms)
        if self._open.get(work.slot) is work:
            del self._open[work.slot]
            self._report([work.slot], [outcome])

    def cancel(self, slots: Sequence[int]) -> None:
        for slot in slots:
            work = self._open.get(slot)
            if work is not None:
                self._spawn(self._attempt(work, Fate(AT_ONCE_MS, CANCELLED)))

    async def aclose(self, grace_ms: int) -> None:
        until_ms = self._targets.clock.monotonic_ms() + grace_ms
        while self._open and self._targets.clock.monotonic_ms() < until_ms:
            await self._targets.clock.sleep_ms(20)
        await self._process.pass_gate()
        for work in list(self._open.values()):
            self._end(work, UNSTARTED)
