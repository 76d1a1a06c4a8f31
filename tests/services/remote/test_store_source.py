"""Workers with the store and the queue in their own hands; on the memory store and virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.columns import CLAIM, ClaimVerdict
from tickwheel.domain.ids import make_job_id, shard_of
from tickwheel.domain.job import Job, Lane, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.lanes import LaneSlots
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass, ProgressNote, RetryPolicy
from tickwheel.domain.run import RunState, fencing_token
from tickwheel.ports.executor import Progress, Report, Work
from tickwheel.ports.queue import HINT, Delivery, Topic, route_of
from tickwheel.ports.store import Change, FirstTimer, JobView, LedgerWrite, NewJob, Run
from tickwheel.ports.workers import WorkerNote
from tickwheel.services.remote.room import Room
from tickwheel.services.remote.store_source import StoreSource
from tickwheel.services.remote.worker_loop import WorkerLoop
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.testing.virtual_clock import VirtualClock

from ..world import Events, FakeExecutor

LEASE_MS = 30_000
TARGET = Target(type=TargetType.HANDLER, name="work")
POLICY = RetryPolicy(max_retries=3, initial_interval_ms=60_000)


class Yard:
    """A store, a queue, and an owner who hands out what is `offered`."""

    def __init__(self) -> None:
        self.clock, self.events = VirtualClock(), Events()
        self.store = MemoryStore(self.clock)
        self.queue = MemoryQueue(self.clock, visible_again_ms=5_000)
        self.workers: list[StoreWorker] = []
        self._randomness = SeededRandomness(7)
        self._sequence = 0

    async def offer(self, count: int = 1, lane: Lane = Lane.DEFAULT) -> list[tuple[bytes, int]]:
        """Jobs that are due now, claimed for the queue; the keys of their runs."""
        epochs, now_ms = await self.store.acquire("owner"), self.clock.now_ms()
        claims, hints = np.zeros(count, dtype=CLAIM), np.zeros(count, dtype=HINT)
        keys = []
        for number in range(count):
            random48 = self._randomness.random_bytes(6)
            job_id = make_job_id(created_ms=now_ms, shard=0, due_ms=now_ms, random48=random48)
            job = Job(
                job_id=job_id,
                tenant_id="default",
                name="",
                schedule_type=ScheduleType.INSTANT,
                lane=lane,
                spec=Spec(target=TARGET, retry=POLICY),
                payload='{"n":1}',
                created_ms=now_ms,
                scheduled_ms=now_ms,
            )
            await self.store.insert_jobs([NewJob(job, FirstTimer(now_ms, now_ms, 1))])
            keys.append((job_id, now_ms))
            self._sequence += 1
            row = claims[number]
            row["job_id"], row["due_ms"], row["scheduled_ms"] = np.void(job_id), now_ms, now_ms
            row["gen"], row["flags"], row["next_ms"], row["max_attempts"] = 1, lane, -1, 4
            row["fence"] = fencing_token(int(epochs[shard_of(job_id)]), self._sequence)
        for name in ("job_id", "scheduled_ms", "fence", "flags"):
            hints[name] = claims[name]
        answers = await self.store.claim(claims, now_ms, 0, queued=True)
        assert set(answers["verdict"].tolist()) == {ClaimVerdict.WON}
        await self.queue.publish(Topic(lane, route_of(TARGET)), hints)
        return keys

    async def runs(self, keys: list[tuple[bytes, int]]) -> list[Run]:
        found = [run for run in await self.store.find_runs(keys) if run is not None]
        assert len(found) == len(keys)
        return found

    async def states(self, keys: list[tuple[bytes, int]]) -> set[RunState]:
        return {run.state for run in await self.runs(keys)}


class StoreWorker:
    """One worker at the yard."""

    def __init__(self, yard: Yard, *, slots: int = 8) -> None:
        self.behave: Callable[[Work], Outcome | None] = lambda work: OK
        self.executors: list[FakeExecutor] = []
        self.progress: Progress | None = None
        self.source = StoreSource(
            store=yard.store,
            queue=yard.queue,
            clock=yard.clock,
            randomness=SeededRandomness(len(yard.workers)),
            events=yard.events,
            process=f"worker-{len(yard.workers)}",
            handlers=["work"],
            webhooks=False,
            lease_ms=LEASE_MS,
        )

        def build(report: Report, progress: Progress) -> FakeExecutor:
            self.progress = progress
            self.executors.append(FakeExecutor(report, yard.clock, lambda work: self.behave(work)))
            return self.executors[-1]

        self.loop = WorkerLoop(
            source=self.source,
            clock=yard.clock,
            events=yard.events,
            note=WorkerNote(name="w", handlers=("work",), slots=slots),
            build={TargetType.HANDLER: build},
        )
        yard.workers.append(self)

    @property
    def executor(self) -> FakeExecutor:
        return self.executors[0]


@asynccontextmanager
async def at_work(count: int = 1, slots: int = 8) -> AsyncIterator[tuple[Yard, list[StoreWorker]]]:
    yard = Yard()
    workers = [StoreWorker(yard, slots=slots) for _ in range(count)]
    for worker in workers:
        await worker.loop.start()
    try:
        yield yard, workers
    finally:
        for worker in workers:
            await worker.loop.kill()


async def test_hundreds_of_runs_are_shared_and_each_is_made_once() -> None:
    async with at_work(2) as (yard, [one, two]):
        keys = await yard.offer(300)
        await yard.clock.advance(3_000)
        assert await yard.states(keys) == {RunState.SUCCEEDED}
        assert len(one.executor.calls) + len(two.executor.calls) == 300
        assert {run.worker for run in await yard.runs(keys)} <= {"worker-0.1", "worker-1.1"}


async def test_no_lane_takes_what_is_kept_for_another() -> None:
    async with at_work(slots=10) as (yard, [worker]):
        worker.behave = lambda work: None
        await yard.offer(40)
        await yard.offer(40, Lane.LOW)
        await yard.clock.advance(1_000)
        await yard.offer(5, Lane.CRITICAL)
        await yard.clock.advance(1_000)
        lanes = sorted(work.lane for work in worker.executor.open.values())
        assert lanes == [Lane.CRITICAL] * 2 + [Lane.DEFAULT] * 7 + [Lane.LOW]


@pytest.mark.parametrize(
    ("outcome", "state", "attempt"),
    [
        (Outcome(outcome_class=OutcomeClass.PERMANENT, error="never"), RunState.FAILED, 1),
        (Outcome(outcome_class=OutcomeClass.RETRYABLE, error="later"), RunState.SCHEDULED, 1),
        (Outcome(outcome_class=OutcomeClass.UNSTARTED), RunState.SCHEDULED, 0),
        (Outcome(outcome_class=OutcomeClass.SNOOZE, retry_after_ms=9_000), RunState.SCHEDULED, 0),
        (Outcome(outcome_class=OutcomeClass.CANCELLED), RunState.CANCELLED, 1),
    ],
)
async def test_every_end_is_committed(outcome: Outcome, state: RunState, attempt: int) -> None:
    async with at_work() as (yard, [worker]):
        worker.behave = lambda work: outcome
        keys = await yard.offer()
        await yard.clock.advance(200)
        [run] = await yard.runs(keys)
        assert (run.state, run.attempt) == (state, attempt)


async def test_results_and_progress_are_kept() -> None:
    async with at_work() as (yard, [worker]):
        worker.behave = lambda work: None
        [(job_id, scheduled_ms)] = await yard.offer()
        await yard.clock.advance(2_000)
        [slot] = worker.executor.open
        assert worker.progress is not None
        worker.progress(slot, ProgressNote(progress=0.5, note="half"))
        await yard.clock.advance(2_000)
        run = await yard.store.get_run("default", job_id, scheduled_ms)
        assert run is not None
        assert (run.progress, run.note) == (0.5, "half")
        worker.executor.finish(slot, Outcome(outcome_class=OutcomeClass.SUCCESS, result=b"[1]"))
        await yard.clock.advance(200)
        run = await yard.store.get_run("default", job_id, scheduled_ms)
        assert run is not None
        assert (run.state, run.result) == (RunState.SUCCEEDED, "[1]")


async def test_the_session_and_the_leases_are_kept() -> None:
    async with at_work() as (yard, [worker]):
        worker.behave = lambda work: None
        keys = await yard.offer()
        await yard.clock.advance(5 * LEASE_MS)
        [run] = await yard.runs(keys)
        assert run.state is RunState.RUNNING
        assert run.lease_ms is not None
        assert run.lease_ms > yard.clock.now_ms() + LEASE_MS // 2
        [state] = await yard.store.workers()
        assert (state.incarnation, state.note.busy) == ("worker-0.1", 1)
        assert yard.clock.now_ms() - state.seen_ms <= 3_100


async def test_a_worker_that_was_declared_dead_goes_on_under_another_name() -> None:
    async with at_work() as (yard, [worker]):
        worker.behave = lambda work: None
        await yard.offer()
        await yard.clock.advance(500)
        await yard.store.end_worker("worker-0.1")
        await yard.clock.advance(4_000)
        assert worker.executor.cancelled
        assert [state.incarnation for state in await yard.store.workers()] == ["worker-0.2"]
        worker.behave = lambda work: OK
        keys = await yard.offer(3)
        await yard.clock.advance(500)
        assert await yard.states(keys) == {RunState.SUCCEEDED}


async def test_a_worker_that_leaves_hands_back_what_it_has_just_taken() -> None:
    async with at_work() as (yard, [worker]):
        worker.behave = lambda work: None
        keys = await yard.offer(3)
        await yard.clock.advance(500)
        draining = asyncio.ensure_future(worker.loop.drain(2_000))
        await yard.clock.advance(6_000)
        await draining
        runs = await yard.runs(keys)
        assert {(run.state, run.attempt) for run in runs} == {(RunState.SCHEDULED, 0)}
        assert await yard.store.workers() == []


async def test_one_slot_serves_all_lanes_in_time() -> None:
    """With so few slots none is reserved: the lowest lane still gets its turn under a flood of the highest."""
    async with at_work(slots=1) as (yard, [worker]):
        worker.behave = lambda work: None
        await yard.offer(64, Lane.CRITICAL)
        low = await yard.offer(1, Lane.LOW)
        for _ in range(40):
            await yard.clock.advance(1_000)
            for slot in list(worker.executor.open):
                worker.executor.finish(slot)
        await yard.clock.advance(100)
        assert await yard.states(low) == {RunState.SUCCEEDED}


@pytest.mark.parametrize("slots", [1, 8])
async def test_a_cancel_is_noticed_long_before_the_next_renewal(slots: int) -> None:
    """With free slots, while it waits for work, and without."""

    def cancelled(view: JobView, run: Run, now_ms: int) -> Change:
        return Change(runs=(LedgerWrite(run.scheduled_ms, RunState.CANCELLED),))

    async with at_work(slots=slots) as (yard, [worker]):
        worker.behave = lambda work: None
        [key] = await yard.offer()
        await yard.clock.advance(2_500)
        assert not worker.executor.cancelled
        await yard.store.change_run("default", *key, cancelled)
        await yard.clock.advance(1_500)
        assert worker.executor.cancelled
        assert await yard.states([key]) == {RunState.CANCELLED}


async def test_what_was_begun_before_the_process_stood_still_is_not_started_after_its_lease() -> None:
    async with at_work() as (yard, [worker]):
        keys = await yard.offer()
        load = yard.store.load_work

        async def slowly(job_ids: Sequence[bytes]) -> object:
            works = await load(job_ids)
            yard.clock.step_ms(LEASE_MS)  # the process stood still, here of all places
            return works

        yard.store.load_work = slowly  # type: ignore[method-assign, assignment]
        await yard.clock.advance(1_000)
        assert not worker.executor.calls
        assert await yard.states(keys) == {RunState.RUNNING}, "whoever finds its lease over starts it elsewhere"


async def test_a_queue_that_is_away_is_told_of_once_per_look() -> None:
    async with at_work(0) as (yard, _):
        worker = StoreWorker(yard)
        note, room = WorkerNote(name="w", handlers=("work",), slots=1), Room(LaneSlots(1), 0)
        await worker.source.enlist(note)
        [key] = await yard.offer()
        take, yard.queue.take = yard.queue.take, away  # type: ignore[method-assign]
        with pytest.raises(ConnectionError):
            await worker.source.take(room, 0, note)
        yard.queue.take = take  # type: ignore[method-assign]
        assert [one.key[:2] for one in (await worker.source.take(room, 0, note)).assignments] == [key]


async def away(topics: Sequence[Topic], limit: int) -> Sequence[Delivery]:
    raise ConnectionError("no route")
