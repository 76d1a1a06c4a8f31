"""Rows of processes that ended long ago leave; none that anything still asks for."""

from tickwheel.domain.run import RunState

from .calendar import Calendar

OTHER, HEIR = "other.1", "heir.1"


def incarnations(calendar: Calendar) -> set[str]:
    return {name for (name,) in calendar.rows("SELECT incarnation FROM tickwheel.nodes")}


async def enlist_other(calendar: Calendar) -> None:
    """A node beside the calendar's own, which has a shard."""
    await calendar.store.release(calendar.owner.worker, {7: calendar.owner.epochs[7]})
    await calendar.store.enlist(OTHER)
    assert await calendar.store.take(OTHER, {7: calendar.owner.epochs[7]})
    await calendar.store.enlist(calendar.owner.worker)


async def test_a_node_that_was_deposed_a_day_ago_leaves(calendar: Calendar) -> None:
    await calendar.store.enlist(OTHER)
    await calendar.store.depose(OTHER, proved_dead=True)
    await calendar.sweep()
    calendar.go_to(1.4)
    await calendar.sweep()
    assert OTHER in incarnations(calendar), "it was alive less than a day ago"
    calendar.go_to(2.6)
    await calendar.sweep()
    assert incarnations(calendar) == {calendar.owner.worker}


async def test_a_node_that_is_not_deposed_stays(calendar: Calendar) -> None:
    """However long its process is silent: it may wake up, and nobody has taken its shards."""
    await calendar.store.enlist(OTHER)
    await calendar.sweep()
    calendar.go_to(400)
    await calendar.sweep()
    assert OTHER in incarnations(calendar)


async def test_a_day_counts_from_the_deposing_not_from_the_start(calendar: Calendar) -> None:
    await calendar.store.enlist(OTHER)
    await calendar.sweep()
    calendar.go_to(30)
    await calendar.store.depose(OTHER, proved_dead=True)
    await calendar.sweep()
    assert OTHER in incarnations(calendar)


async def test_the_owner_of_a_shard_stays_until_somebody_has_taken_it(calendar: Calendar) -> None:
    """Without its row nobody could tell that it is deposed, and the shard would stand still for ever."""
    await enlist_other(calendar)
    await calendar.store.depose(OTHER, proved_dead=True)
    await calendar.sweep()
    calendar.go_to(5)
    await calendar.sweep()
    assert OTHER in incarnations(calendar)
    state = (await calendar.store.list_shards())[7]
    assert state.owner == OTHER
    assert await calendar.store.take(calendar.owner.worker, {7: state.epoch})
    await calendar.sweep()
    assert OTHER not in incarnations(calendar)


async def test_who_is_gone_is_still_deposed_for_everybody(calendar: Calendar) -> None:
    """A process that wakes up after a week finds no row: it claims nothing and takes nothing."""
    await enlist_other(calendar)
    await calendar.store.depose(OTHER, proved_dead=False)
    taken = (await calendar.store.list_shards())[7].epoch
    assert await calendar.store.take(calendar.owner.worker, {7: taken})
    await calendar.sweep()
    calendar.go_to(7)
    await calendar.sweep()
    assert OTHER not in incarnations(calendar)
    assert await calendar.store.deposed([OTHER]) == [OTHER]
    free = (await calendar.store.list_shards())[7].epoch
    await calendar.store.release(calendar.owner.worker, {7: free})
    assert not await calendar.store.take(OTHER, {7: free})


async def test_runs_tell_who_ran_them_as_long_as_they_are_kept(calendar: Calendar) -> None:
    new = await calendar.finish()
    run = await calendar.arena.run(new)
    worker = calendar.owner.worker
    await calendar.store.enlist(HEIR)
    await calendar.store.depose(worker, proved_dead=True)
    epochs = {shard: int(epoch) for shard, epoch in enumerate(calendar.owner.epochs)}
    assert await calendar.store.take(HEIR, epochs)
    await calendar.sweep(retention_days=30)
    calendar.go_to(20)
    await calendar.sweep(retention_days=30)
    assert (await calendar.arena.run(new)).worker == run.worker == worker
    assert run.state is RunState.SUCCEEDED
    calendar.go_to(32)
    await calendar.sweep(retention_days=30)
    assert worker not in incarnations(calendar)
