"""Rules B: nothing that is committed after a slice was read is missed, whatever the order of events."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tickwheel.domain.columns import Rows
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.run import RunState
from tickwheel.ports.shards import Fed, Snapshot
from tickwheel.services.ownership.feed import AHEAD_MS

from .fleet import SETTINGS, Fleet, shard_of_job, with_fleet

SMALL = replace(SETTINGS, window_ms=120_000)
"""Slices of two minutes, for tests that outlive several of them: nothing hangs on their length."""
HALF = range(128)
REST = range(128, 256)


def succeeded(fleet: Fleet, *jobs: Any) -> list[bool]:
    runs = [fleet.run_of(new) for new in jobs]
    return [run is not None and run.state is RunState.SUCCEEDED for run in runs]


@with_fleet
async def test_what_another_process_inserts_is_fired_on_time(fleet: Fleet) -> None:
    [a] = await fleet.start("a")
    await a.take()
    await fleet.pass_ms(1_000)
    jobs = [fleet.job(in_ms=500 + n) for n in range(50)]
    await fleet.insert(*jobs)
    await fleet.pass_ms(2_000)
    assert all(succeeded(fleet, *jobs))
    assert {call.started_ms - call.work.scheduled_ms for call in a.calls} == {0}


@with_fleet
async def test_what_this_process_inserts_is_claimed_once_though_the_feed_brings_it_too(fleet: Fleet) -> None:
    """A4: local arming only makes it sooner, and the feed leaves nothing out; either may come first."""
    [a] = await fleet.start("a")
    await a.take()
    await fleet.pass_ms(1_000)
    first, second = fleet.job(in_ms=2_000), fleet.job(in_ms=2_000)
    await fleet.insert(first)
    a.arm(first)  # before the feed
    await fleet.insert(second)
    await fleet.pass_ms(500)
    a.arm(second)  # after it
    await fleet.pass_ms(5_000)
    assert all(succeeded(fleet, first, second))
    assert a.claim_count == 2


@with_fleet
async def test_an_insert_that_was_never_armed_here_comes_by_the_feed(fleet: Fleet) -> None:
    """A4: the process died, or forgot, between commit and arming."""
    [a] = await fleet.start("a")
    await a.take()
    await fleet.pass_ms(1_000)
    new = fleet.job(in_ms=300)
    await a.store.insert_jobs([new])
    await fleet.pass_ms(1_000)
    assert succeeded(fleet, new) == [True]


@with_fleet
async def test_a_commit_that_hangs_for_seconds_is_not_missed(fleet: Fleet) -> None:
    """A younger transaction was seen long before the older one committed."""
    [a] = await fleet.start("a")
    await a.take()
    await fleet.pass_ms(1_000)
    late, hanging = fleet.job(in_ms=1_000), fleet.begin_insert()
    young = fleet.job(in_ms=500)
    await fleet.insert(young)
    await fleet.pass_ms(5_000)
    assert succeeded(fleet, young, late) == [True, False]
    hanging.commit(late)
    await fleet.pass_ms(500)
    assert succeeded(fleet, late) == [True]


@with_fleet
async def test_a_commit_while_the_first_slice_is_read_is_not_missed(fleet: Fleet) -> None:
    """B1: the snapshot is older than the slice. Were it taken after, this job would be in neither."""
    [a] = await fleet.start("a")
    load, new = a.store.load_timers, fleet.job(in_ms=3_000)

    async def commit_meanwhile(
        from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None
    ) -> Rows:
        page = await load(from_ms, until_ms, limit, shards)
        if not fleet.tables.jobs:
            await fleet.insert(new)
        return page

    a.store.load_timers = commit_meanwhile  # type: ignore[method-assign]
    await a.take()
    await fleet.pass_ms(5_000)
    assert succeeded(fleet, new) == [True]


@with_fleet
async def test_a_shard_taken_over_is_polled_from_its_own_snapshot(fleet: Fleet) -> None:
    """B2: by the node's own newer snapshot the late commit had been seen already, though nobody got its timer."""
    a, b = await fleet.start("a", "b")
    await a.take(HALF)
    await b.take(REST)
    await fleet.pass_ms(1_000)
    late, hanging = fleet.job(in_ms=500, shard=5), fleet.begin_insert()
    await fleet.pass_ms(5_000)
    assert fleet.stored_ack_ms(5) > (late.job.scheduled_ms or 0)
    await a.kill()
    hanging.commit(late)
    await fleet.pass_ms(1_000)
    await fleet.depose(a, proved_dead=True)
    await b.take(HALF)
    await fleet.pass_ms(1_000)
    assert succeeded(fleet, late) == [True]


@with_fleet
async def test_groups_join_once_they_have_caught_up(fleet: Fleet) -> None:
    a, b = await fleet.start("a", "b")
    await a.take(HALF)
    await b.take(REST)
    await fleet.pass_ms(60_000)
    await fleet.depose(a, proved_dead=True)
    await a.kill()
    await b.take(HALF)
    assert len(b.groups) == 2
    await fleet.pass_ms(1_000)
    assert [group.mask.sum() for group in b.groups] == [256]
    jobs = [fleet.job(in_ms=200 + n) for n in range(20)]
    await fleet.insert(*jobs)
    await fleet.pass_ms(1_000)
    assert all(succeeded(fleet, *jobs))


@with_fleet
async def test_a_poll_whose_answer_is_lost_is_repeated_from_the_same_snapshot(fleet: Fleet) -> None:
    """B3: the snapshot of a poll counts only once all its rows are armed."""
    [a] = await fleet.start("a")
    await a.take()
    await fleet.pass_ms(1_000)
    new, feed = fleet.job(in_ms=1_000), a.store.feed
    lost: list[Fed] = []

    async def lose(prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        fed = await feed(prev, shards, until_ms)
        if len(fed.rows) and len(lost) < 3:
            lost.append(fed)
            raise StoreUnavailable("cut")
        return fed

    a.store.feed = lose  # type: ignore[method-assign]
    await fleet.insert(new)
    await fleet.pass_ms(3_000)
    assert len(lost) == 3
    assert succeeded(fleet, new) == [True]


@with_fleet
async def test_a_poll_that_was_held_up_while_the_window_grew_hides_nothing(fleet: Fleet) -> None:
    """B4: the poll asks for all that `hi` may become, and `hi` is compared when its rows arrive.

    The poll is held up before it runs; meanwhile the next slice is read; then a timer within it is committed; then
    the poll runs. If the poll had asked for `hi` as it was, the timer would be in neither.
    """
    [a] = await fleet.start("a")
    feed, held_up = a.store.feed, asyncio.Event()
    await a.take()
    await fleet.pass_ms(20)
    before_ms = a.groups[0].hi_ms
    new = fleet.job(in_ms=20_000)
    while not fleet.tables.jobs:

        async def hold(prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
            await held_up.wait()
            return await feed(prev, shards, until_ms)

        a.store.feed = hold  # type: ignore[method-assign]
        await fleet.pass_ms(4_000)
        assert a.groups[0].hi_ms > before_ms
        assert (new.job.scheduled_ms or 0) < a.groups[0].hi_ms
        await fleet.insert(new)
    held_up.set()
    await fleet.pass_ms(30_000)
    assert succeeded(fleet, new) == [True]


@with_fleet
async def test_the_window_never_grows_beyond_a_poll_under_way(fleet: Fleet) -> None:
    """B4, the other half: a poll that hangs for very long asked for less than what is to be loaded now."""
    [a] = await fleet.start("a", settings=SMALL)
    await a.take()
    await fleet.pass_ms(10_000)
    until: list[int] = []
    never = asyncio.Event()

    async def hang(prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        until.append(until_ms)
        await never.wait()
        raise AssertionError

    a.store.feed = hang  # type: ignore[method-assign]
    await fleet.pass_ms(3 * SMALL.window_ms)
    assert a.groups[0].hi_ms == until[0]


@with_fleet
async def test_a_slice_that_fails_is_a_gap_until_it_is_read(fleet: Fleet) -> None:
    """B4: it holds the pair back, and is read again."""
    [a] = await fleet.start("a")
    load, fails = a.store.load_timers, True
    new = fleet.job(in_ms=5_000)
    await fleet.insert(new)

    async def refuse(from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None) -> Rows:
        if fails:
            raise OutcomeUnknown("cut")
        return await load(from_ms, until_ms, limit, shards)

    a.store.load_timers = refuse  # type: ignore[method-assign]
    await a.take()
    await fleet.pass_ms(3_000)
    assert fleet.stored_ack_ms(shard_of_job(new)) == 0
    fails = False
    await fleet.pass_ms(5_000)
    assert succeeded(fleet, new) == [True]


@with_fleet
async def test_after_a_lost_session_the_feed_goes_on_from_the_stored_pair(fleet: Fleet) -> None:
    """B5: the database crashed and gives out transaction ids again that the lost snapshot calls over."""
    [a] = await fleet.start("a")
    await a.take()
    armed = [fleet.job(in_ms=5_000) for _ in range(20)]
    await fleet.insert(*armed)
    await fleet.pass_ms(3_000)
    for _ in range(5):  # transactions that will have left no trace
        fleet.tables.transactions.end(fleet.tables.transactions.begin(), committed=False)
    await fleet.pass_ms(100)
    unstored = a.groups[0].prev
    fleet.tables.transactions.crash()
    a.store.lose_session()
    new = fleet.job(in_ms=1_000)
    await fleet.insert(new)
    assert unstored is not None
    xid = fleet.tables.timers[next(iter(fleet.tables.timers_of[new.job.job_id]))].xid
    assert xid < int(unstored.text.split(":")[1])  # that snapshot has seen it, as it were
    await fleet.pass_ms(10_000)
    assert all(succeeded(fleet, new, *armed))
    assert a.claim_count == 21


@with_fleet
async def test_a_session_lost_before_the_first_pair_loads_everything_anew(fleet: Fleet) -> None:
    [a] = await fleet.start("a")
    await a.take()
    await fleet.pass_ms(100)
    assert fleet.tables.ownership.pairs == {}
    a.store.lose_session()
    new = fleet.job(in_ms=1_000)
    await fleet.insert(new)
    await fleet.pass_ms(5_000)
    assert succeeded(fleet, new) == [True]
    assert len(fleet.tables.ownership.pairs) == 256


@with_fleet
async def test_timers_beyond_the_window_come_with_their_slice(fleet: Fleet) -> None:
    [a] = await fleet.start("a", settings=SMALL)
    await a.take()
    await fleet.pass_ms(60_000)
    far = fleet.job(in_ms=3 * SMALL.window_ms)
    await fleet.insert(far)
    assert far.job.scheduled_ms is not None
    assert far.job.scheduled_ms > a.groups[0].hi_ms + AHEAD_MS, "neither a slice nor a poll brings it yet"
    await fleet.pass_ms(3 * SMALL.window_ms + 1_000)
    assert succeeded(fleet, far) == [True]
    assert a.calls[0].started_ms == far.job.scheduled_ms


@with_fleet
async def test_what_the_first_poll_brings_is_armed_though_no_slice_was_read_yet(fleet: Fleet) -> None:
    """B2: it was committed late, due before the pair, so no slice will have it and no poll will give it again."""
    a, b = await fleet.start("a", "b")
    await a.take()
    await fleet.pass_ms(1_000)
    late, hanging = fleet.job(in_ms=500), fleet.begin_insert()
    await fleet.pass_ms(5_000)
    await a.kill()
    hanging.commit(late)
    await fleet.depose(a, proved_dead=True)
    load, away = b.store.load_timers, True

    async def refuse(from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None) -> Rows:
        if away:
            raise StoreUnavailable("down")
        return await load(from_ms, until_ms, limit, shards)

    b.scheduler._groups._on_new = lambda: None  # the reader of slices is not told
    b.store.load_timers = refuse  # type: ignore[method-assign]
    await b.take()
    await fleet.pass_ms(2_000)
    away = False
    await fleet.pass_ms(3_000)
    assert succeeded(fleet, late) == [True]


@with_fleet
async def test_the_feed_lags_while_it_gets_no_answer(fleet: Fleet) -> None:
    [a] = await fleet.start("a")
    await a.take()
    await fleet.pass_ms(1_000)
    feed, healthy = a.scheduler.feed, a.store.feed
    assert feed is not None
    assert feed.lag_ms() <= 2 * SETTINGS.feed_poll_ms

    async def away(prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        raise StoreUnavailable("gone")

    a.store.feed = away  # type: ignore[method-assign]  # the store goes away for polls only
    await fleet.pass_ms(9_000)
    assert feed.lag_ms() >= 9_000
    a.store.feed = healthy  # type: ignore[method-assign]  # and comes back
    await fleet.pass_ms(3_000)
    assert feed.lag_ms() <= 2 * SETTINGS.feed_poll_ms
