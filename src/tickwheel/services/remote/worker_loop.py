"""A worker's heart: takes runs, has them executed, keeps their leases, reports how they ended.

It knows neither stores nor servers: both are a `WorkSource`. What is taken never exceeds the free slots of its
lane (but for what is taken ahead, which is handed back if it does not begin soon), so backlog waits where all
workers can get it. Four loops: `take`; `renew` (leases, and what attempts say of themselves); `session`; and
`guard`, which never waits for anybody:

- An attempt stops by itself when `lease - margin` has passed since its last renewal was *sent*, by this process's
  monotonic clock, and all stop when the session was silent for too long: another worker may have the runs by then.
  Example: the process is suspended for a minute. The first thing it does when it wakes up is to abort what it ran.
- What does not begin although the executor has it is handed back (`stalls`).

When the other side says that the session is over, everything is aborted, nothing of it is reported, and the worker
enlists anew.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.job import TargetType
from tickwheel.domain.lanes import LANE_COUNT, LaneSlots
from tickwheel.domain.latency_gradient import LatencyGradient
from tickwheel.domain.outcome import Outcome, OutcomeClass, ProgressNote
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink, SessionEnded, WorkerResized
from tickwheel.ports.executor import Executor, Progress, Report
from tickwheel.ports.remote_work import Assignment, Beat, Ended, SessionOver, Taken, WorkSource
from tickwheel.ports.workers import RENEW_MS, WorkerNote
from tickwheel.services.alarm import wait_at_most
from tickwheel.services.heartbeats import RENEWALS_PER_LEASE, SAFETY_MARGIN_MS, stop_after_ms
from tickwheel.services.remote.holding import Held, Holding
from tickwheel.services.remote.room import Prefetch, Room
from tickwheel.services.remote.stalls import StallWatch
from tickwheel.services.supervision import supervise

CHECK_MS: Final = 100
WAIT_MS: Final = 9_000  # how long a take waits for work; less than what a lease is renewed after
GATHER_MS: Final = 5
PROGRESS_MS: Final = 1_000  # at most so often what an attempt says of itself is passed on
AHEAD_MS: Final = 1_000  # what was taken ahead and has no slot after this time is handed back
PENDING_LIMIT: Final = 10_000  # with more ends unconfirmed, no new attempt starts
FLUSH_MS: Final = 3_000
"""So long a worker that leaves tries to get rid of its last ends, after the grace time."""
UNSTARTED: Final = Outcome(outcome_class=OutcomeClass.UNSTARTED, error="handed back: the worker did not begin it")

BuildExecutor = Callable[[Report, Progress], Executor]


class WorkerLoop:
    """One worker. `start` it, `drain` it once."""

    def __init__(
        self,
        *,
        source: WorkSource,
        clock: Clock,
        events: EventSink,
        note: WorkerNote,
        build: dict[TargetType, BuildExecutor],
        prefetch: int | None = 0,
        gradient: LatencyGradient | None = None,
    ) -> None:
        self._source, self._clock, self._events = source, clock, events
        self._note, self._gradient = note, gradient
        self._slots = LaneSlots(gradient.limit if gradient is not None else note.slots)
        self._holding, self._prefetch = Holding(), Prefetch(prefetch)
        self._executors = {kind: make(self._report, self._on_progress) for kind, make in build.items()}
        self._changed = asyncio.Event()
        self._session_mono_ms = 0  # when the latest proof of the session was sent
        self._draining = False
        self._session_number = 0
        self._enlisting = asyncio.Lock()
        self._stall = StallWatch(self._executors, clock, events)
        self._taking: asyncio.Task[Taken] | None = None
        self._loops: dict[str, asyncio.Task[None]] = {}

    @property
    def busy(self) -> int:
        """Attempts that run."""
        return self._holding.running_count

    def note(self) -> WorkerNote:
        """What it says of itself now."""
        return msgspec.structs.replace(
            self._note,
            slots=self._slots.capacity,
            busy=self.busy,
            run_ms=self._prefetch.mean_ms,
            draining=self._draining,
            stalled=self._stall.stalled,
        )

    async def start(self) -> None:
        """Enlist and begin to take. Raises what `enlist` does: a worker that can't begin says so at once."""
        await self._enlist()
        loops = {
            "take": self._take_for_ever,
            "renew": self._renew_for_ever,
            "session": self._keep_session,
            "guard": self._guard,
            "report": self._source.run,
        }
        for name, loop in loops.items():
            watched = supervise(f"worker {name}", loop, self._clock, self._events)
            self._loops[name] = asyncio.create_task(watched, name=f"tickwheel-worker-{name}")

    async def drain(self, grace_ms: int) -> None:
        """Take nothing more, let what runs end within the grace time, hand back the rest, leave."""
        self._draining = True
        await self._stop("take")
        await self._end_take()
        self._hand_back(self._holding.waiting())
        await asyncio.gather(*(executor.aclose(grace_ms) for executor in self._executors.values()))
        await wait_at_most(self._source.flushed(), FLUSH_MS, self._clock)
        for name in list(self._loops):
            await self._stop(name)
        with suppress(ConnectionError, StoreUnavailable):  # silence ends a session as well
            await self._source.leave()

    async def kill(self) -> None:
        """Stop without a word, as a process that is killed does. For tests."""
        self._draining = True
        for name in list(self._loops):
            await self._stop(name)
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)

    async def _stop(self, name: str) -> None:
        task = self._loops.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _end_take(self) -> None:
        """A take that was waiting may have been given something at the last moment."""
        try:
            if self._taking is not None:
                self._taking.cancel()
                (taken,) = await asyncio.gather(self._taking, return_exceptions=True)
                if not isinstance(taken, BaseException):
                    self._accept(taken.assignments)
                self._accept(await self._source.left_over())
        except (ConnectionError, StoreUnavailable, SessionOver):
            return  # it comes back with the session

    # Taking and starting

    async def _take_for_ever(self) -> None:
        while True:
            self._changed.clear()
            room = self._room()
            taken = await self._take(room, room.lanes)
            for held in self._holding.named(taken.stopped):
                self._abort(held)
            self._accept(taken.assignments)
            self._start_waiting()
            if taken.assignments and min(self._room().lanes) <= 0:
                # Where a lane has no room some more may end at once: one take for all of them, not one each.
                await wait_at_most(self._changed.wait(), GATHER_MS, self._clock)

    async def _take(self, room: Room, asked: Sequence[int]) -> Taken:
        """One take; empty when it was given up because there is room now where there was none."""
        session = self._session_number
        # A task of its own: when this loop is cancelled, the take is ended with care (`_end_take`).
        wait_ms = RENEW_MS if len(self._holding) else WAIT_MS  # what it says of itself is soon out of date
        taking = self._taking = asyncio.create_task(self._source.take(room, wait_ms, self.note()))
        while not await self._is_done(taking):
            self._changed.clear()
            now = self._room().lanes
            if any(had <= 0 < has for had, has in zip(asked, now, strict=True)):
                taking.cancel()
                await asyncio.gather(taking, return_exceptions=True)
                break
        self._taking = None
        if taking.cancelled():
            return Taken(())
        try:
            return taking.result()
        except SessionOver:
            await self._begin_anew(session)
            return Taken(())

    async def _is_done(self, taking: "asyncio.Task[Taken]") -> bool:
        """Whether it is; False when something has changed here before."""
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((taking, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            await asyncio.gather(changed, return_exceptions=True)
        return taking.done()

    def _room(self) -> Room:
        """What may be taken now."""
        ahead = self._prefetch.count(self._slots.capacity) - self._holding.waiting_count
        if self._source.pending > PENDING_LIMIT:
            return Room(self._slots, 0, limit=0)
        if self._stall.stalled:
            return Room(self._slots, min(0, ahead), limit=1 if self._stall.wants_probe else 0)
        return Room(self._slots, ahead)

    def _accept(self, assignments: Sequence[Assignment]) -> None:
        mono_ms = self._clock.monotonic_ms()
        if assignments:
            self._stall.taken()
        for given in assignments:
            if given.key not in self._holding:  # else given once more: our answer that we have it was lost
                self._holding.add(given, mono_ms)

    def _start_waiting(self) -> None:
        now_ms, mono_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        starting: list[Held] = []
        self._drop_outlived(mono_ms)
        for lane in range(LANE_COUNT):
            held_now = self._holding.first(lane, self._slots.free(lane))
            self._slots.take(lane, len(held_now))
            starting += held_now
        by_kind: dict[TargetType, list[Held]] = {}
        for held in starting:
            held.is_running, held.begun_mono_ms, held.started_ms = True, mono_ms, now_ms
            by_kind.setdefault(held.assignment.target.type, []).append(held)
        for kind, group in by_kind.items():
            executor = self._executors.get(kind)
            if executor is None:
                self._end(group, [UNSTARTED] * len(group))
            else:
                executor.start([held.work() for held in group])

    def _drop_outlived(self, mono_ms: int) -> None:
        """What waited for as long as its lease (the process stood still) is somebody else's: it must not start."""
        for held in self._holding.waiting():
            if mono_ms - held.renewed_mono_ms > stop_after_ms(self._source.lease_ms):
                self._abort(held)

    # Ends

    def _report(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        """The executors call this."""
        pairs = [(self._holding.at(slot), outcome) for slot, outcome in zip(slots, outcomes, strict=True)]
        known = [(held, outcome) for held, outcome in pairs if held is not None]
        self._end([held for held, _ in known], [outcome for _, outcome in known])

    def _end(self, group: Sequence[Held], outcomes: Sequence[Outcome]) -> None:
        now_ms, mono_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        ends, dropped = list[Ended](), list[Assignment]()
        for held, outcome in zip(group, outcomes, strict=True):
            if held.is_running:
                self._slots.release(held.assignment.lane, 1)
            self._holding.drop(held)
            if outcome.outcome_class is OutcomeClass.SUCCESS:
                self._prefetch.note(mono_ms - held.begun_mono_ms)
                if self._gradient is not None:
                    self._gradient.note(mono_ms - held.begun_mono_ms)
            if outcome.outcome_class is not OutcomeClass.UNSTARTED:
                self._stall.ended()
            # That an attempt did stop which was told to is no news: it was cancelled, or is somebody else's.
            if held.is_stopping and outcome.outcome_class is OutcomeClass.CANCELLED:
                dropped.append(held.assignment)
            else:
                ends.append(Ended(held.assignment, outcome, held.started_ms or now_ms, now_ms))
        if ends:
            self._source.report(ends)
        if dropped:
            self._source.forget(dropped)
        if self._holding.waiting_count and not self._draining:
            asyncio.get_running_loop().call_soon(self._start_waiting)  # not from inside of a report
        self._changed.set()

    def _hand_back(self, waiting: Sequence[Held]) -> None:
        """They have no slot, and won't have one soon."""
        if waiting:
            self._end(waiting, [UNSTARTED] * len(waiting))

    def _abort(self, held: Held) -> None:
        if held.is_stopping:
            return
        held.is_stopping = True
        if not held.is_running:
            self._holding.drop(held)
            self._source.forget([held.assignment])
            return
        self._executors[held.assignment.target.type].cancel([held.slot])

    # Leases and progress

    def _on_progress(self, slot: int, progress: ProgressNote) -> None:
        held = self._holding.at(slot)
        if held is not None:
            held.progress = progress

    async def _renew_for_ever(self) -> None:
        told_mono_ms = 0
        while True:
            await self._clock.sleep_ms(CHECK_MS)
            mono_ms = self._clock.monotonic_ms()
            with_progress = mono_ms - told_mono_ms >= PROGRESS_MS
            due = [held for held in self._holding if self._is_due(held, mono_ms, with_progress)]
            if not due:
                continue
            if with_progress:
                told_mono_ms = mono_ms
            await self._renew(due, mono_ms)

    def _is_due(self, held: Held, mono_ms: int, with_progress: bool) -> bool:
        if held.is_stopping or mono_ms - held.renewed_mono_ms > stop_after_ms(self._source.lease_ms):
            return False
        old = mono_ms - held.renewed_mono_ms >= self._source.lease_ms // RENEWALS_PER_LEASE
        return old or (with_progress and held.progress is not None)

    async def _renew(self, due: Sequence[Held], mono_ms: int) -> None:
        session = self._session_number
        beats = [Beat(held.assignment, held.started_ms, held.progress) for held in due]
        try:
            kept = await self._source.renew(beats)
        except SessionOver:
            await self._begin_anew(session)
            return
        for held, beat, goes_on in zip(due, beats, kept, strict=True):
            if self._holding.at(held.slot) is not held:
                continue  # it has ended meanwhile
            if not goes_on:
                self._abort(held)
                continue
            held.renewed_mono_ms = mono_ms
            if held.progress is beat.progress:
                held.progress = None

    # The session

    async def _enlist(self) -> None:
        mono_ms = self._clock.monotonic_ms()
        await self._source.enlist(self.note())
        self._session_mono_ms = mono_ms
        self._session_number += 1

    async def _keep_session(self) -> None:
        while True:
            await self._clock.sleep_ms(RENEW_MS)
            session, mono_ms = self._session_number, self._clock.monotonic_ms()
            try:
                await self._source.beat(self.note())
            except SessionOver:
                await self._begin_anew(session)
            else:
                self._session_mono_ms = max(self._session_mono_ms, mono_ms)

    async def _begin_anew(self, session: int) -> None:
        """The other side does not know that session any more, so nothing that we hold from it is ours."""
        async with self._enlisting:
            if session != self._session_number:
                return  # somebody was here before
            held = list(self._holding)
            for one in held:
                self._abort(one)
            self._events.emit(SessionEnded(held_count=len(held)))
            await self._enlist()
        self._changed.set()

    # What watches without waiting

    async def _guard(self) -> None:
        while True:
            await self._clock.sleep_ms(CHECK_MS)
            self._stop_unleased()
            if self._stall.look([held for held in self._holding if held.is_running]):
                self._hand_back(self._holding.waiting())
            self._hand_back(self._holding.too_long(self._clock.monotonic_ms() - AHEAD_MS))
            self._resize()
            if self._waits_for_itself and max(self._room().lanes) > 0:
                self._changed.set()

    @property
    def _waits_for_itself(self) -> bool:
        """Whether there will be room although no attempt ends: time passes, or ends are confirmed."""
        return self._stall.stalled or self._source.pending > 0

    def _stop_unleased(self) -> None:
        mono_ms = self._clock.monotonic_ms()
        limit_ms = stop_after_ms(self._source.lease_ms)
        silent = mono_ms - self._session_mono_ms > self._source.session_ms - SAFETY_MARGIN_MS
        for held in self._holding:
            if silent or mono_ms - held.renewed_mono_ms > limit_ms:
                self._abort(held)

    def _resize(self) -> None:
        if self._gradient is None:
            return
        is_full = any(not self._slots.free(lane) for lane in range(LANE_COUNT))
        limit = self._gradient.adjust(self._clock.monotonic_ms(), is_full)
        if limit != self._slots.capacity:
            self._events.emit(WorkerResized(slots=limit, before=self._slots.capacity))
            self._slots.resize(limit)
            self._start_waiting()
            self._changed.set()
