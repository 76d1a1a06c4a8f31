"""The other side of a worker, as a fake that does as it is told: gives runs, loses answers, ends sessions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

from tickwheel.domain.ids import make_job_id
from tickwheel.domain.job import Lane, Target, TargetType
from tickwheel.domain.latency_gradient import LatencyGradient
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.ports.executor import Progress, Report, Work
from tickwheel.ports.remote_work import Assignment, Beat, Ended, Key, Room, SessionOver, Taken
from tickwheel.ports.workers import WorkerNote
from tickwheel.services.remote.worker_loop import WorkerLoop
from tickwheel.testing.virtual_clock import VirtualClock

from ..world import Events, FakeExecutor

LEASE_MS = 30_000
SESSION_MS = 15_000
HANDLER = Target(type=TargetType.HANDLER, name="work")


class Employer:
    """Implements `ports.remote_work.WorkSource`."""

    session_ms, lease_ms, pending = SESSION_MS, LEASE_MS, 0

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.backlog: list[Assignment] = []
        self.taken: list[Key] = []
        self.ends: list[Ended] = []
        self.forgotten: list[Key] = []
        self.beats: list[Beat] = []
        self.notes: list[WorkerNote] = []
        self.enlisted = self.left = 0
        self.refuse_renewals: Callable[[Beat], bool] = lambda beat: False
        self.away = self.session_is_over = False
        self.stopped: list[Key] = []
        self.takes: list[Sequence[int]] = []
        self._numbers = 0
        self._more = asyncio.Event()

    def offer(self, count: int = 1, lane: Lane = Lane.DEFAULT, target: Target = HANDLER) -> list[Assignment]:
        given = []
        for _ in range(count):
            self._numbers += 1
            random48 = self._numbers.to_bytes(6)
            job_id = make_job_id(created_ms=1_000, shard=0, due_ms=None, random48=random48)
            given.append(
                Assignment(
                    job_id=job_id,
                    scheduled_ms=2_000,
                    fence=self._numbers,
                    attempt=1,
                    max_attempts=4,
                    lane=lane,
                    tenant_id="default",
                    target=target,
                    payload=b"{}",
                    idempotency_key=None,
                    job_name="",
                    sent_mono_ms=0,
                )
            )
        self.backlog += given
        self._more.set()
        return given

    def stop(self, keys: Sequence[Key]) -> None:
        self.stopped += keys
        self._more.set()

    async def enlist(self, note: WorkerNote) -> None:
        self._fail_if_away()
        self.enlisted += 1
        self.session_is_over = False

    async def beat(self, note: WorkerNote) -> None:
        self._fail()
        self.notes.append(note)

    async def take(self, room: Room, wait_ms: int, note: WorkerNote) -> Taken:
        self._fail()
        self.takes.append([room.free(lane) for lane in Lane])
        sent_ms = self._clock.monotonic_ms()
        given = self._pick(room, sent_ms)
        if not given and not self.stopped and wait_ms:
            await self._wait(wait_ms)
            self._fail()
            given = self._pick(room, sent_ms)
        stopped, self.stopped = self.stopped, []
        return Taken(given, stopped)

    def _pick(self, room: Room, sent_ms: int) -> list[Assignment]:
        self._more.clear()
        given = []
        for one in sorted(self.backlog, key=lambda a: a.lane):
            if room.free(one.lane) > 0:
                room.take(one.lane, 1)
                given.append(one)
        for one in given:
            self.backlog.remove(one)
            self.taken.append(one.key)
        return [
            Assignment(
                **{f: getattr(one, f) for f in one.__struct_fields__ if f != "sent_mono_ms"}, sent_mono_ms=sent_ms
            )
            for one in given
        ]

    async def _wait(self, wait_ms: int) -> None:
        tasks = [asyncio.ensure_future(self._more.wait()), asyncio.ensure_future(self._clock.sleep_ms(wait_ms))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def left_over(self) -> Sequence[Assignment]:
        return ()

    async def renew(self, beats: Sequence[Beat]) -> Sequence[bool]:
        self._fail()
        self.beats += beats
        return [not self.refuse_renewals(beat) for beat in beats]

    def report(self, ends: Sequence[Ended]) -> None:
        self.ends += ends

    def forget(self, assignments: Sequence[Assignment]) -> None:
        self.forgotten += [one.key for one in assignments]

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def flushed(self) -> None:
        return

    async def leave(self) -> None:
        self.left += 1

    def of(self, outcome: OutcomeClass) -> list[Key]:
        return [end.assignment.key for end in self.ends if end.outcome.outcome_class is outcome]

    def _fail_if_away(self) -> None:
        if self.away:
            raise ConnectionError("nobody answers")

    def _fail(self) -> None:
        self._fail_if_away()
        if self.session_is_over:
            raise SessionOver("the session is over")


class PatientExecutor(FakeExecutor):
    """Begins nothing while it is `blocked`."""

    def __init__(self, report: Report, clock: VirtualClock, behave: Callable[[Work], Outcome | None]) -> None:
        super().__init__(report, clock, behave)
        self.blocked = False
        self.not_begun: dict[int, Work] = {}

    def start(self, works: Sequence[Work]) -> None:
        if self.blocked:
            self.not_begun |= {work.slot: work for work in works}
        else:
            super().start(works)

    def withdraw(self, slots: Sequence[int]) -> Sequence[int]:
        taken = [slot for slot in slots if self.not_begun.pop(slot, None) is not None]
        if taken:
            outcome = Outcome(outcome_class=OutcomeClass.UNSTARTED)
            asyncio.get_running_loop().call_soon(self._report, taken, [outcome] * len(taken))
        return taken


class Workplace:
    """One worker with its employer and executor."""

    def __init__(
        self, *, slots: int = 4, prefetch: int | None = 0, gradient: LatencyGradient | None = None
    ) -> None:
        self.clock, self.events = VirtualClock(), Events()
        self.employer = Employer(self.clock)
        self.behave: Callable[[Work], Outcome | None] = lambda work: OK
        self.executors: list[PatientExecutor] = []
        self.progress: Progress | None = None

        def build(report: Report, progress: Progress) -> PatientExecutor:
            self.progress = progress
            self.executors.append(PatientExecutor(report, self.clock, lambda work: self.behave(work)))
            return self.executors[-1]

        self.loop = WorkerLoop(
            source=self.employer,
            clock=self.clock,
            events=self.events,
            note=WorkerNote(name="w", handlers=("work",), slots=slots),
            build={TargetType.HANDLER: build},
            prefetch=prefetch,
            gradient=gradient,
        )

    @property
    def executor(self) -> PatientExecutor:
        return self.executors[0]

    def keep_going(self) -> None:
        """Attempts end only when they are told to."""
        self.behave = lambda work: None

    async def start(self) -> None:
        await self.loop.start()
        await self.clock.advance(0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Without a word, at the end of a test."""
        await self.loop.kill()
