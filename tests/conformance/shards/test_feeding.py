"""The feed and the pair: each committed timer comes once, and the next owner goes on where this one was."""

import pytest

from tickwheel.domain.run import RunState
from tickwheel.ports.shards import FeedSessionLost

from .processes import Processes, fed


async def test_each_timer_comes_once(processes: Processes) -> None:
    process = await processes.start("a")
    before, one, two = (processes.jobs.one_off(shard=3) for _ in range(3))
    await processes.jobs.insert(before)
    await process.look()
    assert await process.feed(3) == []
    await processes.jobs.insert(one)
    assert await process.feed(3) == fed(one)
    assert await process.feed(3) == []
    await processes.jobs.insert(two)
    assert await process.feed(3) == fed(two)


async def test_own_timers_come_too(processes: Processes) -> None:
    """A4: arming at the insert is an accelerator; the feed leaves nothing out."""
    process = await processes.start("a")
    await process.look()
    new = processes.jobs.one_off(shard=3)
    await process.store.insert_jobs([new])
    assert await process.feed(3) == fed(new)


async def test_only_the_shards_asked_for_come(processes: Processes) -> None:
    process = await processes.start("a")
    await process.look()
    three, four, five = (processes.jobs.one_off(shard=shard) for shard in (3, 4, 5))
    await processes.jobs.insert(three, four, five)
    assert {job_id for job_id, _ in await process.feed(3, 5)} == {three.job.job_id, five.job.job_id}


async def test_only_what_is_due_before_the_end_comes(processes: Processes) -> None:
    process = await processes.start("a")
    await process.look()
    now_ms = processes.jobs.now_ms
    near, far = processes.jobs.one_off(now_ms + 999, shard=3), processes.jobs.one_off(now_ms + 1_000, shard=3)
    await processes.jobs.insert(near, far)
    assert await process.feed(3, until_ms=now_ms + 1_000) == fed(near)


async def test_follow_up_and_next_timers_come(processes: Processes) -> None:
    """A1: every timer carries the id of its transaction, whoever inserts it."""
    process = await processes.start("a")
    await process.take(3, 5)
    new, chain = processes.jobs.one_off(shard=3), processes.jobs.recurring(shard=5)
    await processes.jobs.insert(new, chain)
    await process.look()
    held = await process.win(new)
    follow_up = await process.retry_later(held, 500)
    next_ms = processes.jobs.now_ms + 1_000
    await process.win(chain, next_ms=next_ms)
    found = [(job_id, timer.due_ms) for job_id, timer in await process.feed(3, 5)]
    assert found == [(new.job.job_id, follow_up.due_ms), (chain.job.job_id, next_ms)]


async def test_what_is_over_before_the_poll_need_not_come(processes: Processes) -> None:
    process = await processes.start("a")
    await process.take(3)
    await process.look()
    new = processes.jobs.one_off(shard=3)
    await processes.jobs.insert(new)
    assert (await process.complete(await process.win(new), RunState.SUCCEEDED)).applied
    for job_id, timer in await process.feed(3):  # a store that keeps such timers may show it
        assert (job_id, timer) == fed(new)[0]
        assert not (await process.claim(new, timer)).won


async def test_a_pair_is_found_by_the_next_owner(processes: Processes) -> None:
    """B1, B2: the shard is polled from its own stored snapshot, so what came since is not missed."""
    first, second = await processes.start("a"), await processes.start("b")
    await first.take(3)
    await first.look()
    assert await first.store_pair(3, 1_234, first.prev)
    later = processes.jobs.one_off(shard=3)
    await processes.jobs.insert(later)
    await first.release(3)
    [taken] = await second.take(3)
    assert taken.pair is not None
    assert taken.pair.ack_ms == 1_234
    second.prev = taken.pair.snapshot
    assert await second.feed(3) == fed(later)


async def test_a_pair_may_go_back(processes: Processes) -> None:
    """C2: the position is no high-water mark; a timer committed late lies before it."""
    process = await processes.start("a")
    await process.take(3)
    await process.look()
    assert await process.store_pair(3, 2_000, process.prev)
    assert await process.store_pair(3, 1_000, process.prev)
    [taken] = await process.take(3)
    assert taken.pair is not None
    assert taken.pair.ack_ms == 1_000


async def test_the_pair_of_a_former_owner_is_refused(processes: Processes) -> None:
    """C8: under the same check as a claim."""
    first, second = await processes.start("a"), await processes.start("b")
    await first.take(3, 4)
    await first.look()
    await first.release(3)
    [taken] = await second.take(3)
    assert taken.pair is None
    assert not await first.store_pair(3, 1_000, first.prev)
    assert await first.store_pair(4, 1_000, first.prev)
    await second.store.depose("a", proved_dead=False)
    assert not await first.store_pair(4, 2_000, first.prev)


async def test_a_pair_under_an_old_epoch_is_refused(processes: Processes) -> None:
    process = await processes.start("a")
    [taken] = await process.take(3)
    await process.look()
    await process.take(3)
    process.epochs[3] = taken.epoch
    assert not await process.store_pair(3, 1_000, process.prev)


async def test_a_pair_whose_snapshot_was_read_in_a_lost_session_is_not_stored(processes: Processes) -> None:
    """B5: after a crash its ids are given out again, so it would hide what is inserted under them."""
    process = await processes.start("a")
    await process.take(3)
    await process.look()
    stored = process.prev
    assert await process.store_pair(3, 0, stored)
    await processes.jobs.insert(processes.jobs.one_off(shard=3))
    await process.feed(3)
    await processes.cluster.cut(process.store)
    with pytest.raises(FeedSessionLost):
        await process.store_pair(3, 1_000, process.prev)
    [taken] = await process.take(3)
    assert taken.pair is not None
    assert (taken.pair.ack_ms, taken.pair.snapshot.text) == (0, stored.text)


async def test_the_feed_says_when_its_session_is_lost(processes: Processes) -> None:
    """B5: ids of transactions may be given out again after a crash; only a stored snapshot is good then."""
    process = await processes.start("a")
    await process.take(3)
    await process.look()
    stored = process.prev
    assert await process.store_pair(3, 0, stored)
    new = processes.jobs.one_off(shard=3)
    await processes.jobs.insert(new)
    await processes.cluster.cut(process.store)
    with pytest.raises(FeedSessionLost):
        await process.feed(3)
    [taken] = await process.take(3)
    assert taken.pair is not None
    process.prev = taken.pair.snapshot
    assert await process.feed(3) == fed(new)
    assert await process.feed(3) == []
