"""Work straight from the store and the queue: `ports.remote_work.WorkSource` for workers inside the trust zone.

The worker does itself what an API node does for those outside: it takes hints, begins the runs in the ledger under
its incarnation (`Taking`), renews, and commits the ends (`Completions`). Follow-up timers need nobody to be told:
the owner of the shard sees them in its feed.

Lanes. One take for all lanes is a single look at the queue, but may give as much as the fullest lane has room for;
so where lanes differ much, because slots are short, each lane is asked for its own, highest first. With fewer than
four slots nothing is reserved, and a lane that got nothing for a while goes ahead of the others.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

import numpy as np

from tickwheel.domain.columns import COMPLETION, FLAG_LANE_MASK, RENEWAL, CompletionCause, Rows
from tickwheel.domain.job import Lane
from tickwheel.domain.lanes import AGING_MS, SMALLEST_RESERVING
from tickwheel.domain.outcome import Outcome, OutcomeClass, decide
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.events import EventSink
from tickwheel.ports.queue import Queue, Topic
from tickwheel.ports.remote_work import Assignment, Beat, Ended, Key, Room, SessionOver
from tickwheel.ports.remote_work import Taken as Given
from tickwheel.ports.store import AttemptNote, Store
from tickwheel.ports.workers import SESSION_MS, WorkerNote, WorkerStore
from tickwheel.services.attempt_notes import failure_note, result_note, write_decision
from tickwheel.services.completion import Completions
from tickwheel.services.ownership.node_note import incarnation_of
from tickwheel.services.remote.held import trace_of
from tickwheel.services.remote.routes import worker_routes
from tickwheel.services.remote.taking import Begun, Taken, Taking

STOPPED_LOOK_MS: Final = 1_000
"""How often the ledger is asked whether attempts that go on were cancelled; renewals come much more seldom."""
STOPPED_LIMIT: Final = 1_000
_BROKEN: Final = Outcome(outcome_class=OutcomeClass.PERMANENT, error="the job's definition can't be read")


class StoreWithWorkers(Store, WorkerStore, Protocol):
    """What such a worker needs of its store."""


class StoreSource:
    """One worker's. `process` names this start of the program; its sessions are `process.1`, `process.2`, ...

    `tenant_id`: it gets runs of that tenant only, as its note has to say too.
    """

    session_ms = SESSION_MS

    def __init__(
        self,
        *,
        store: StoreWithWorkers,
        queue: Queue,
        clock: Clock,
        randomness: Randomness,
        events: EventSink,
        process: str,
        handlers: Sequence[str],
        webhooks: bool,
        lease_ms: int,
        tenant_id: str | None = None,
    ) -> None:
        self._store, self._clock, self._randomness = store, clock, randomness
        self._process, self.lease_ms, self._tenant_id = process, lease_ms, tenant_id
        self._taking = Taking(queue=queue, store=store, clock=clock, lease_length_ms=lease_ms)
        routes = worker_routes(handlers, webhooks=webhooks, tenant_id=tenant_id)
        self._topics = {lane: [Topic(lane, route) for route in routes] for lane in Lane}
        self._sessions = 0
        self._given: dict[Key, Begun] = {}
        self._unfinished: asyncio.Task[Given] | None = None  # a look at the queue that nobody waits for any more
        self._looked_mono_ms = clock.monotonic_ms()
        self._got_mono_ms = [clock.monotonic_ms()] * len(Lane)
        self._completions = Completions(
            ledger=store,
            clock=clock,
            events=events,
            arm=lambda rows: None,
            on_room=lambda: None,
            on_given_up=lambda rows: None,
        )

    @property
    def incarnation(self) -> str:
        """The name of the session."""
        return incarnation_of(self._process, self._sessions)

    @property
    def pending(self) -> int:
        return self._completions.pending

    async def enlist(self, note: WorkerNote) -> None:
        self._sessions += 1
        await self._store.enlist_worker(self.incarnation, note)

    async def beat(self, note: WorkerNote) -> None:
        if not await self._store.renew_worker(self.incarnation, note):
            raise SessionOver("this worker was declared dead")

    async def take(self, room: Room, wait_ms: int, note: WorkerNote) -> Given:
        if self._unfinished is not None:
            return Given(await self.left_over())
        until_ms = self._clock.monotonic_ms() + wait_ms
        while room.total > 0:
            given = await self._look(room)
            if given.assignments or (left_ms := until_ms - self._clock.monotonic_ms()) <= 0:
                return given
            open_lanes = [lane for lane in Lane if room.free(lane) > 0]
            topics = [topic for lane in open_lanes for topic in self._topics[lane]]
            await self._taking.wait(topics, min(left_ms, STOPPED_LOOK_MS))
            if stopped := await self._stopped():
                return Given((), stopped)
        while (left_ms := until_ms - self._clock.monotonic_ms()) > 0:
            await self._clock.sleep_ms(min(left_ms, STOPPED_LOOK_MS))
            if stopped := await self._stopped():
                return Given((), stopped)
        return Given(())

    async def _stopped(self) -> Sequence[Key]:
        """Which of the attempts that have gone on for a while were cancelled, or are somebody else's by now."""
        mono_ms = self._clock.monotonic_ms()
        if mono_ms - self._looked_mono_ms < STOPPED_LOOK_MS:
            return ()
        self._looked_mono_ms = mono_ms
        begun = self._given.values()
        keys = [_key(one) for one in begun if mono_ms - one.sent_mono_ms >= STOPPED_LOOK_MS][:STOPPED_LIMIT]
        runs = await self._store.find_runs([key[:2] for key in keys]) if keys else ()
        return [
            key
            for key, run in zip(keys, runs, strict=True)
            if run is None or run.state not in IN_FLIGHT or run.fence != key[2]
        ]

    async def left_over(self) -> Sequence[Assignment]:
        if self._unfinished is None:
            return ()
        unfinished, self._unfinished = self._unfinished, None
        return (await unfinished).assignments

    async def _look(self, room: Room) -> Given:
        """What there is; goes on to its end when nobody waits for it any more, because runs may have begun."""
        self._unfinished = looking = asyncio.create_task(self._take_by_lanes(room))
        try:
            given = await asyncio.shield(looking)
        except Exception:
            self._unfinished = None  # it failed, and whoever waits is told so once
            raise
        self._unfinished = None
        return given

    async def _take_by_lanes(self, room: Room) -> Given:
        taken: list[Assignment] = []
        try:
            for topics, limit in self._wanted(room):
                part = await self._taking.take(self.incarnation, topics, limit(), self._tenant_id)
                self._fail_broken(part.broken)
                taken += self._accept(part, room)
        except Exception:  # what has begun has to be worked on; the next take meets the error again
            if not taken:
                raise
        return Given(taken)

    def _wanted(self, room: Room) -> list[tuple[Sequence[Topic], Callable[[], int]]]:
        lanes = [lane for lane in self._order(room) if room.free(lane) > 0]
        if not lanes or not self._topics[Lane.DEFAULT]:
            return []
        least = min(room.free(lane) for lane in lanes)
        if least * 2 >= room.total:
            return [([topic for lane in lanes for topic in self._topics[lane]], lambda: least)]
        return [(self._topics[lane], partial(room.free, lane)) for lane in lanes]

    def _order(self, room: Room) -> list[Lane]:
        """Highest first, but without reserved slots one that got nothing for long goes ahead."""
        if room.total + sum(room.busy) >= SMALLEST_RESERVING:
            return list(Lane)
        old_ms = self._clock.monotonic_ms() - AGING_MS
        return sorted(Lane, key=lambda lane: (self._got_mono_ms[lane] > old_ms, lane))

    def _accept(self, taken: Taken, room: Room) -> list[Assignment]:
        given = []
        for begun in taken.begun:
            one = _assignment(begun)
            room.take(one.lane, 1)
            self._got_mono_ms[one.lane] = self._clock.monotonic_ms()
            self._given[one.key] = begun
            given.append(one)
        return given

    async def renew(self, beats: Sequence[Beat]) -> Sequence[bool]:
        now_ms = self._clock.now_ms()
        rows = np.zeros(len(beats), dtype=RENEWAL)
        for number, beat in enumerate(beats):
            row, given = rows[number], beat.assignment
            row["job_id"], row["scheduled_ms"], row["fence"] = (
                np.void(given.job_id),
                given.scheduled_ms,
                given.fence,
            )
            row["started_ms"] = beat.started_ms
        rows["lease_ms"], rows["beat_ms"], rows["mark_running"] = now_ms + self.lease_ms, now_ms, 1
        notes = {number: beat.progress for number, beat in enumerate(beats) if beat.progress is not None}
        return [bool(kept) for kept in await self._store.renew(rows, notes)]

    def report(self, ends: Sequence[Ended]) -> None:
        known = [(ended, begun) for ended in ends if (begun := self._given.pop(ended.assignment.key, None))]
        if known:
            self._commit([begun for _, begun in known], [ended for ended, _ in known])

    def forget(self, assignments: Sequence[Assignment]) -> None:
        for one in assignments:
            self._given.pop(one.key, None)

    async def run(self) -> None:
        await self._completions.run()

    async def flushed(self) -> None:
        await self._completions.flushed()

    async def leave(self) -> None:
        await self._store.end_worker(self.incarnation)

    def _commit(self, begun: Sequence[Begun], ends: Sequence[Ended]) -> None:
        rows, notes = np.zeros(len(ends), dtype=COMPLETION), dict[int, AttemptNote]()
        rows["due_ms"], rows["retry_ms"] = -1, -1  # which timer: the row knows
        rows["cause"], rows["state"] = CompletionCause.WORKER, RunState.SUCCEEDED
        for number, (one, ended) in enumerate(zip(begun, ends, strict=True)):
            row = rows[number]
            row["job_id"], row["scheduled_ms"], row["fence"] = np.void(one.job_id), one.scheduled_ms, one.fence
            row["attempt"], row["flags"] = one.attempt, one.flags
            row["started_ms"], row["finished_ms"] = ended.started_ms, ended.finished_ms
            row["outcome"], row["http_status"] = ended.outcome.outcome_class, ended.outcome.http_status
            note = self._decide(row, one, ended.outcome)
            if note is not None:
                notes[number] = note
        self._completions.add(rows, notes, [None] * len(rows))

    def _decide(self, row: np.void, begun: Begun, outcome: Outcome) -> AttemptNote | None:
        if outcome.outcome_class is OutcomeClass.SUCCESS:
            return result_note(outcome)
        policy, fraction = begun.spec.retry, self._randomness.fraction()
        decision = decide(outcome, begun.attempt, begun.lost_count, policy, fraction, self._clock.now_ms())
        write_decision(row, decision)
        return failure_note(outcome, decision)

    def _fail_broken(self, broken: Sequence[tuple[bytes, int, int]]) -> None:
        """These began, and nobody can read what they are to do."""
        if not broken:
            return
        rows: Rows = np.zeros(len(broken), dtype=COMPLETION)
        for number, (job_id, scheduled_ms, fence) in enumerate(broken):
            row = rows[number]
            row["job_id"], row["scheduled_ms"], row["fence"] = np.void(job_id), scheduled_ms, fence
        rows["due_ms"], rows["retry_ms"], rows["finished_ms"] = -1, -1, self._clock.now_ms()
        rows["attempt"], rows["state"] = 1, RunState.FAILED
        rows["cause"], rows["outcome"] = CompletionCause.WORKER, _BROKEN.outcome_class
        note = AttemptNote(error=_BROKEN.error, excerpt=None)
        self._completions.add(rows, dict.fromkeys(range(len(rows)), note), [None] * len(rows))


def _assignment(begun: Begun) -> Assignment:
    definition, spec = begun.definition, begun.spec
    return Assignment(
        job_id=begun.job_id,
        scheduled_ms=begun.scheduled_ms,
        fence=begun.fence,
        attempt=begun.attempt,
        max_attempts=spec.retry.max_attempts,
        lane=begun.flags & FLAG_LANE_MASK,
        tenant_id=definition.tenant_id,
        target=spec.target,
        payload=definition.payload.encode(),
        idempotency_key=definition.idempotency_key,
        job_name=definition.name,
        sent_mono_ms=begun.sent_mono_ms,
        trace=trace_of(begun),
    )


def _key(begun: Begun) -> Key:
    return begun.job_id, begun.scheduled_ms, begun.fence
