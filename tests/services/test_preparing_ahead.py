"""The next batch is prepared while one is being claimed: what becomes of it when something comes between."""

import asyncio
from collections.abc import Mapping, Sequence

from tickwheel.domain.columns import Rows
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.store import AttemptNote, Completed
from tickwheel.services.claim_preparation import BATCH_TIMERS
from tickwheel.services.claims import AHEAD_TIMERS
from tickwheel.services.scheduler import Scheduler, SchedulerSettings

from .world import World

COUNT = BATCH_TIMERS + AHEAD_TIMERS


class HeldStore:
    """The world's store, whose first claim waits until it is told how to go on."""

    def __init__(self, world: World) -> None:
        self.loads: list[int] = []
        self.claims: list[Rows] = []
        self.go_on = asyncio.Event()
        self.fails = False
        self._claim, self._load = world.memory.claim, world.memory.load_work
        world.memory.claim = self._held_claim  # type: ignore[method-assign]
        world.memory.load_work = self._counted_load  # type: ignore[method-assign, assignment]

    async def _counted_load(self, job_ids: Sequence[bytes]) -> object:
        self.loads.append(len(job_ids))
        return await self._load(job_ids)

    async def _held_claim(self, batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        self.claims.append(batch.copy())
        if len(self.claims) == 1:
            await self.go_on.wait()
            if self.fails:
                raise StoreUnavailable("down")
        return await self._claim(batch, now_ms, lease_ms, queued=queued)


async def _claiming(count: int = COUNT) -> tuple[World, Scheduler, HeldStore]:
    """A world in which `count` jobs are due and the first claim is under way."""
    world = World(settings=SchedulerSettings(webhook_slots=16, handler_slots=5_000))
    store = HeldStore(world)
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=100, handler="h") for _ in range(count)))
    await world.clock.advance(200)
    assert len(store.claims) == 1
    return world, scheduler, store


def _slots_in_use(scheduler: Scheduler) -> int:
    return sum(sum(pool.slots.used) for pool in scheduler.pools)


async def test_the_next_batch_is_read_while_one_is_claimed_and_each_run_starts_once() -> None:
    world, scheduler, store = await _claiming()
    assert store.loads == [BATCH_TIMERS, AHEAD_TIMERS]
    assert not world.calls
    store.go_on.set()
    await world.clock.advance(100)
    assert len(world.calls) == len({call.work.job_id for call in world.calls}) == COUNT
    assert _slots_in_use(scheduler) == 0
    await scheduler.drain(0)


async def test_where_little_waits_nothing_is_prepared_so_that_batches_stay_long() -> None:
    world, scheduler, store = await _claiming(BATCH_TIMERS + 10)
    assert store.loads == [BATCH_TIMERS]
    store.go_on.set()
    await world.clock.advance(100)
    assert len(world.calls) == BATCH_TIMERS + 10
    await scheduler.drain(0)


async def test_a_prepared_batch_goes_back_when_the_claim_before_it_fails() -> None:
    world, scheduler, store = await _claiming()
    store.fails = True
    store.go_on.set()
    await world.clock.advance(10_000)
    assert len(world.calls) == len({call.work.job_id for call in world.calls}) == COUNT
    assert _slots_in_use(scheduler) == 0
    await scheduler.drain(0)


async def test_a_stop_claims_no_batch_that_was_prepared() -> None:
    world, scheduler, store = await _claiming()
    scheduler._claims.stop()
    store.go_on.set()
    await world.clock.advance(100)
    assert len(store.claims) == 1
    assert len(world.calls) == BATCH_TIMERS
    assert len(scheduler.ready) == AHEAD_TIMERS
    assert _slots_in_use(scheduler) == 0
    await scheduler.drain(0)


async def test_a_silent_shard_is_not_claimed_though_its_batch_was_prepared_before() -> None:
    """Who waits for `settled` after `silence` may hand the shard over: no claim of it may follow."""
    world, scheduler, store = await _claiming()
    quiesced = asyncio.create_task(scheduler.intake.quiesce(range(SHARD_COUNT)))
    await world.clock.advance(10)
    assert not quiesced.done()
    store.go_on.set()
    await world.clock.advance(100)
    assert quiesced.done()
    assert len(store.claims) == 1
    assert len(world.calls) == BATCH_TIMERS
    assert _slots_in_use(scheduler) == 0
    await scheduler.drain(0)


async def test_prepared_timers_count_as_unresolved() -> None:
    """C1: what a pair says to be resolved must not be in a batch that is not claimed yet."""
    _, scheduler, store = await _claiming()
    assert len(scheduler._claims.rows()) == COUNT
    store.go_on.set()
    await scheduler.drain(0)
    assert len(scheduler._claims.rows()) == 0


async def test_ends_are_gathered_only_while_much_waits() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=16, handler_slots=64))
    commits: list[tuple[int, int]] = []
    complete = world.memory.complete

    async def counted(batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        commits.append((world.clock.now_ms(), len(batch)))
        return await complete(batch, notes)

    world.memory.complete = counted  # type: ignore[method-assign]
    scheduler = await world.start()
    began_ms = world.clock.now_ms()
    await world.add(scheduler, world.job(in_ms=100, handler="h"))
    await world.clock.advance(100)
    assert commits == [(began_ms + 100, 1)], "a lone end waits for nothing"
    await world.add(scheduler, *(world.job(in_ms=100, handler="h") for _ in range(COUNT)))
    await world.clock.advance(2_000)
    assert len(world.calls) == COUNT + 1
    assert sum(size for _, size in commits) == COUNT + 1
    gathered = [size for _, size in commits[1:]]
    assert max(gathered) > AHEAD_TIMERS, gathered
    await scheduler.drain(0)
