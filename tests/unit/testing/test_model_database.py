"""The model database behaves as PostgreSQL does where it matters: visibility, locks, crashes, lost answers."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import numpy as np
import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import CLAIM, TIMER, ClaimAction, ClaimVerdict, Rows
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.ids import make_job_id
from tickwheel.domain.job import Job, JobState, Lane, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.run import fencing_token
from tickwheel.ports.shards import FeedSessionLost, HeldPair, Pair
from tickwheel.ports.store import Change, FirstTimer, JobView, NewJob
from tickwheel.testing.model import Fate, ModelDatabase, ModelStore, Process
from tickwheel.testing.model.rules import Rules
from tickwheel.testing.virtual_clock import VirtualClock

T = TypeVar("T")
SPEC = Spec(target=Target(TargetType.HTTP_WEBHOOK, endpoint="http://sink.example/"))
FAR_MS = 1 << 50


class Sky:
    """The next calls of a verb fare as told; all others get through at once."""

    def __init__(self) -> None:
        self.fates: dict[str, list[Fate]] = {}
        self.opens: dict[str, list[int]] = {}

    def fate(self, verb: str) -> Fate:
        return self.fates[verb].pop(0) if self.fates.get(verb) else Fate.FINE

    def way_ms(self, verb: str) -> int:
        return 1

    def open_ms(self, verb: str) -> int:
        return self.opens[verb].pop(0) if self.opens.get(verb) else 0


class Bench:
    """A database, and processes that own shard 3 in turn."""

    def __init__(self, *dropped: str) -> None:
        self.clock = VirtualClock()
        self.database = ModelDatabase(self.clock, Rules(dropped))
        self.sky = Sky()
        self.job_count = 0

    def store(self, name: str = "a") -> ModelStore:
        return ModelStore(self.database, Process(name), self.sky)

    async def node(self, name: str) -> ModelStore:
        store = self.store(name)
        await self.now(store.enlist(name))
        return store

    async def now(self, work: Awaitable[T]) -> T:
        """Let it end, however long it takes."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await self.clock.advance(10)
        return task.result()

    def job(self, *, recurring: bool = False, in_ms: int = 0) -> NewJob:
        self.job_count += 1
        now_ms = self.clock.now_ms()
        due_ms = now_ms + in_ms
        job = Job(
            job_id=make_job_id(
                created_ms=now_ms, shard=3, due_ms=None, random48=self.job_count.to_bytes(6, "big")
            ),
            tenant_id="default",
            name="j",
            schedule_type=ScheduleType.CRON if recurring else ScheduleType.ONE_OFF,
            lane=Lane.DEFAULT,
            spec=SPEC,
            payload="{}",
            created_ms=now_ms,
            scheduled_ms=None if recurring else due_ms,
        )
        return NewJob(job=job, timer=FirstTimer(due_ms, due_ms, 1))

    def claims(self, new: NewJob, epoch: int, sequence: int) -> Rows:
        assert new.timer is not None
        rows = np.zeros(1, dtype=CLAIM)
        due_ms, scheduled_ms, gen = new.timer.due_ms, new.timer.scheduled_ms, new.timer.gen
        rows[0] = (
            *(due_ms, new.job.job_id, scheduled_ms, gen, new.job.timer_flags, ClaimAction.RUN, 0, 0, 4),
            *(fencing_token(epoch, sequence), scheduled_ms + 1_000 if new.job.recurring else -1, 0, 0, 0, 0),
        )
        return rows

    async def claim(self, store: ModelStore, new: NewJob, epoch: int = 1, sequence: int = 1) -> ClaimVerdict:
        now_ms = self.clock.now_ms()
        answers = await store.claim(self.claims(new, epoch, sequence), now_ms, now_ms + 30_000)
        return ClaimVerdict(int(answers["verdict"][0]))


def ids(rows: Rows) -> list[bytes]:
    assert rows.dtype == TIMER
    return [bytes(job_id) for job_id in rows["job_id"].tolist()]


async def test_an_open_insert_is_seen_when_it_commits_though_a_later_one_came_first() -> None:
    bench = Bench()
    store = bench.store()
    late, quick = bench.job(), bench.job()
    prev = await bench.now(store.take_snapshot())
    bench.sky.opens["insert_jobs"] = [3_000]
    held = asyncio.ensure_future(bench.store().insert_jobs([late]))
    await bench.clock.advance(5)
    await bench.now(store.insert_jobs([quick]))
    first = await bench.now(store.feed(prev, [3], FAR_MS))
    assert ids(first.rows) == [quick.job.job_id]
    assert ids(await bench.now(store.load_timers(0, FAR_MS, 100))) == [quick.job.job_id]
    assert bench.database.open_count == 1
    with pytest.raises(OutcomeUnknown):  # the client did not wait for so long
        await bench.now(held)
    await bench.clock.advance(2_000)
    second = await bench.now(store.feed(first.snapshot, [3], FAR_MS))
    assert ids(second.rows) == [late.job.job_id]
    assert not len((await bench.now(store.feed(second.snapshot, [3], FAR_MS))).rows)


async def test_deposing_waits_for_open_claims() -> None:
    """D1: after the answer no claim of that incarnation commits."""
    bench = Bench()
    old, new_owner = await bench.node("a"), await bench.node("b")
    job = bench.job()
    await bench.now(old.insert_jobs([job]))
    await bench.now(old.take("a", {3: 0}))
    bench.sky.opens["claim"] = [700]
    claim = asyncio.ensure_future(bench.claim(old, job))
    await bench.clock.advance(100)
    depose = asyncio.ensure_future(new_owner.depose("a", proved_dead=False))
    await bench.clock.advance(300)
    assert not depose.done()
    assert await bench.now(claim) is ClaimVerdict.WON
    await bench.now(depose)
    [taken] = await bench.now(new_owner.take("b", {3: 1}))
    assert taken.epoch == 2
    assert await bench.now(bench.claim(old, bench.job(), sequence=2)) is ClaimVerdict.DEPOSED


async def test_without_the_lock_an_old_claim_commits_after_the_takeover() -> None:
    bench = Bench("D1")
    old, new_owner = await bench.node("a"), await bench.node("b")
    job = bench.job()
    await bench.now(old.insert_jobs([job]))
    await bench.now(old.take("a", {3: 0}))
    bench.sky.opens["claim"] = [700]
    claim = asyncio.ensure_future(bench.claim(old, job))
    await bench.clock.advance(100)
    await bench.now(new_owner.depose("a", proved_dead=False))
    await bench.now(new_owner.take("b", {3: 1}))
    assert not claim.done()
    assert await bench.now(claim) is ClaimVerdict.WON


@pytest.mark.parametrize("dropped", [False, True])
async def test_a_change_waits_for_open_claims_of_a_recurring_job(dropped: bool) -> None:
    """E1: cancel answers when the claim that was open is there to be cancelled."""
    bench = Bench(*["E1"] * dropped)
    store = await bench.node("a")
    job = bench.job(recurring=True)
    await bench.now(store.insert_jobs([job]))
    await bench.now(store.take("a", {3: 0}))
    bench.sky.opens["claim"] = [700]
    claim = asyncio.ensure_future(bench.claim(store, job))
    await bench.clock.advance(100)
    changed = asyncio.ensure_future(store.change_job("default", job.job.job_id, _cancel))
    await bench.clock.advance(300)
    assert changed.done() is dropped
    await bench.now(claim)
    done = await bench.now(changed)
    assert done is not None
    assert (done.view.last_run is None) is dropped


async def test_a_claim_that_waits_too_long_for_a_row_is_given_up() -> None:
    bench = Bench()
    store = await bench.node("a")
    job = bench.job(recurring=True)
    await bench.now(store.insert_jobs([job]))
    await bench.now(store.take("a", {3: 0}))
    bench.sky.opens["change_job"] = [1_900]
    changed = asyncio.ensure_future(store.change_job("default", job.job.job_id, lambda view, now_ms: Change()))
    await bench.clock.advance(100)
    with pytest.raises(StoreUnavailable):
        await bench.now(bench.claim(store, job))
    assert await bench.now(changed) is not None


async def test_a_crash_ends_open_transactions_and_gives_out_their_ids_again() -> None:
    """B5: a snapshot of before the crash would hide what comes after it; a stored one would not."""
    bench = Bench()
    store = await bench.node("a")
    await bench.now(store.take("a", {3: 0}))
    stored = await bench.now(store.take_snapshot())
    await bench.now(store.store_pairs("a", [HeldPair(3, 1, Pair(0, stored))]))
    bench.sky.opens["insert_jobs"] = [1_000, 1_000, 0]
    lost = [asyncio.ensure_future(bench.store().insert_jobs([bench.job()])) for _ in range(2)]
    await bench.clock.advance(5)
    bench.sky.opens["enlist"] = [0]
    bench.sky.fates["enlist"] = [Fate.ABORTED]
    with pytest.raises(StoreUnavailable):
        await bench.now(store.enlist("x"))  # its id is above those of the open ones, and it has ended
    prev = await bench.now(store.take_snapshot())
    bench.database.crash()
    bench.database.restart()
    for insert in lost:
        with pytest.raises(OutcomeUnknown):
            await bench.now(insert)
    after = bench.job()
    await bench.now(bench.store().insert_jobs([after]))
    assert ids(await bench.now(store.load_timers(0, FAR_MS, 100))) == [after.job.job_id]
    with pytest.raises(FeedSessionLost):
        await bench.now(store.feed(prev, [3], FAR_MS))
    [taken] = await bench.now(store.take("a", {3: 1}))
    assert taken.pair is not None
    assert ids((await bench.now(store.feed(taken.pair.snapshot, [3], FAR_MS))).rows) == [after.job.job_id]


@pytest.mark.parametrize(
    ("fate", "error", "written"),
    [
        (Fate.REFUSED, StoreUnavailable, False),
        (Fate.ABORTED, StoreUnavailable, False),
        (Fate.ANSWER_LOST, OutcomeUnknown, True),
    ],
)
async def test_calls_fail_before_or_after_the_write(fate: Fate, error: type[Exception], written: bool) -> None:
    bench = Bench()
    store = bench.store()
    bench.sky.fates["insert_jobs"] = [fate]
    with pytest.raises(error):
        await bench.now(store.insert_jobs([bench.job()]))
    assert len(await bench.now(store.load_timers(0, FAR_MS, 100))) == written


async def test_a_stopped_process_takes_its_answer_when_it_goes_on() -> None:
    bench = Bench()
    process = Process("a")
    store = ModelStore(bench.database, process, bench.sky)
    insert = asyncio.ensure_future(store.insert_jobs([bench.job()]))
    await bench.clock.advance(1)
    process.stop()
    await bench.clock.advance(40_000)
    assert not insert.done()
    assert len(await bench.now(bench.store().load_timers(0, FAR_MS, 100))) == 1
    process.go_on()
    assert await bench.now(insert)


async def test_what_is_open_when_the_connection_is_cut_has_an_unknown_end() -> None:
    bench = Bench()
    process = Process("a")
    store = ModelStore(bench.database, process, bench.sky)
    bench.sky.opens["insert_jobs"] = [500]
    insert = asyncio.ensure_future(store.insert_jobs([bench.job()]))
    await bench.clock.advance(100)
    process.reaches_store = False
    with pytest.raises(OutcomeUnknown):
        await bench.now(insert)
    with pytest.raises(StoreUnavailable):
        await bench.now(store.now_ms())
    assert len(await bench.now(bench.store().load_timers(0, FAR_MS, 100))) == 1


async def test_a_due_time_in_the_past_is_raised_to_the_clock_of_the_statement() -> None:
    """A2: so what is inserted late can't land in a leaf that is sealed."""
    bench = Bench()
    store, new = bench.store(), bench.job(in_ms=-50_000)
    await bench.now(store.insert_jobs([new]))
    [due_ms] = (await bench.now(store.load_timers(0, FAR_MS, 100)))["due_ms"].tolist()
    assert due_ms >= bench.clock.now_ms() - 100


async def test_a_leaf_waits_for_every_pair_and_every_older_transaction() -> None:
    """C6: an insert that is still open could write into it."""
    bench = Bench()
    store = await bench.node("a")
    await bench.now(store.take("a", dict.fromkeys(range(256), 0)))
    bench.sky.opens["insert_jobs"] = [8_000]
    held = asyncio.ensure_future(bench.store().insert_jobs([bench.job()]))
    await bench.clock.advance(6_500)
    assert held.done()  # given up by its client, and still open
    await _store_pairs(bench, store, 255)
    assert bench.database.seal() is None  # the pair of a shard is missing
    await _store_pairs(bench, store, 256)
    assert bench.database.seal() is None  # the insert is older
    await bench.clock.advance(3_000)
    await _store_pairs(bench, store, 256)
    assert bench.database.seal() is not None
    with pytest.raises(OutcomeUnknown):
        held.result()


async def _store_pairs(bench: Bench, store: ModelStore, count: int) -> None:
    bench.database.seal()  # draws the id that marks the leaf
    snapshot = await bench.now(store.take_snapshot())
    pairs = [HeldPair(shard, 1, Pair(bench.clock.now_ms(), snapshot)) for shard in range(count)]
    assert await bench.now(store.store_pairs("a", pairs)) == []


def _cancel(view: JobView, now_ms: int) -> Change:
    return Change(job=replace(view.job, state=JobState.CANCELLED), drop_live=True, cancel_open=True)
