"""Leaves ahead of time, and when those of the timers may go (rules C6 and C7)."""

import asyncio
from contextlib import suppress
from uuid import UUID

import psycopg
import pytest

from tickwheel.adapters.postgresql.partitions import DAYS_AT_ONCE, Sealed, make_leaves
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.ids import DAY_MS
from tickwheel.domain.run import RunState
from tickwheel.ports.store import FirstTimer, LedgerWrite

from ...conformance.store.decisions import edit
from .calendar import Calendar

INSERT_TIMER = """INSERT INTO tickwheel.timers (shard, due_ms, job_id, scheduled_ms, gen, flags, armed_ms)
VALUES (3, %s, %s, %s, 1, 2, 0)"""


async def test_leaves_are_made_ahead_and_again_is_nothing(calendar: Calendar) -> None:
    """Two months for what waits; a week for the ledger, whose empty leaves cost every read of a job's runs."""
    await calendar.store.maintain(calendar.clock.now_ms())
    ahead = {"timers": 62, "jobs": 62, "runs": 7, "attempts": 7}
    made = {table: calendar.leaves(table) for table in ahead}
    for table, days in ahead.items():
        assert all(calendar.has_leaf(table, day) for day in range(days)), table
        assert not calendar.has_leaf(table, days), table
    await calendar.store.maintain(calendar.clock.now_ms())
    assert {table: calendar.leaves(table) for table in made} == made


async def test_a_leaf_stays_while_an_insert_into_it_is_open(calendar: Calendar) -> None:
    """C6: every shard has acknowledged the leaf, but a transaction that began before its end has not committed."""
    due_ms = calendar.first_day_ms + DAY_MS - 1
    with psycopg.connect(calendar.server.url(calendar.database)) as late:
        late.execute(INSERT_TIMER, (due_ms, UUID(int=1), due_ms))
        assert await calendar.pass_to(1.5) == 0
        assert calendar.has_leaf("timers", 0), "or its commit would be dropped unseen"
        assert any("may still be open" in straggler.reason for straggler in calendar.store.stragglers())
    assert calendar.rows("SELECT count(*) FROM tickwheel.timers WHERE due_ms = %s", due_ms) == [(1,)]
    await calendar.acknowledge(0.99)  # the feed brought it: unresolved
    await calendar.sweep()
    assert calendar.has_leaf("timers", 0)
    await calendar.acknowledge(1.5)
    await calendar.sweep()
    assert not calendar.has_leaf("timers", 0)


async def test_an_old_snapshot_of_one_shard_keeps_the_leaf(calendar: Calendar) -> None:
    """C6: an owner that has not polled since may not have seen a late commit."""
    await calendar.acknowledge(2, shards=[7])
    calendar.go_to(1.5)
    await calendar.sweep()
    await calendar.acknowledge(1.5, shards=[shard for shard in range(256) if shard != 7])
    await calendar.sweep()
    assert calendar.has_leaf("timers", 0)
    await calendar.acknowledge(1.5, shards=[7])
    await calendar.sweep()
    assert not calendar.has_leaf("timers", 0)


async def test_a_leaf_stays_until_every_shard_has_acknowledged_it(calendar: Calendar) -> None:
    """C6: owned or not. The timers of a shard that nobody owns just now are not resolved by that."""
    calendar.go_to(1.5)
    await calendar.sweep()
    await calendar.acknowledge(1.5, shards=range(255))
    await calendar.sweep()
    assert calendar.has_leaf("timers", 0), "one shard has never stored anything"
    await calendar.acknowledge(0.9, shards=[255])
    await calendar.sweep()
    assert calendar.has_leaf("timers", 0)
    await calendar.acknowledge(1, shards=[255])
    await calendar.sweep()
    assert not calendar.has_leaf("timers", 0)
    assert calendar.has_leaf("timers", 1)


async def test_the_mark_is_drawn_a_minute_after_the_end(calendar: Calendar) -> None:
    """C6: a clock that is a little ahead must not seal a leaf that others still write to."""
    await calendar.pass_to(1 + 59 / 86_400)
    assert calendar.has_leaf("timers", 0)
    await calendar.pass_to(1 + 61 / 86_400)
    assert not calendar.has_leaf("timers", 0)


async def test_what_was_dropped_is_never_made_again(calendar: Calendar) -> None:
    """C7: a row in a leaf made anew would be found by nobody."""
    await calendar.pass_to(1.5)
    with calendar.server.connect(calendar.database) as connection, pytest.raises(Sealed):
        make_leaves(connection, "timers", [calendar.first_day_ms], calendar.clock.now_ms())
    assert not calendar.has_leaf("timers", 0)


async def test_leaves_are_made_ahead_after_yesterday_was_dropped(calendar: Calendar) -> None:
    """The window begins a little in the past, and the timers of that time may be gone already."""
    await calendar.pass_to(1.5)
    assert not calendar.has_leaf("timers", 0)
    await calendar.store.maintain(calendar.clock.now_ms())
    assert calendar.has_leaf("timers", 62)
    assert not calendar.has_leaf("timers", 0)


async def test_who_asks_for_a_leaf_need_not_wait_for_all_that_are_made_ahead(calendar: Calendar) -> None:
    """One transaction for all of them held the lock for seconds, and each job for a new day waited."""
    with calendar.server.connect(calendar.database) as connection:
        makers = "SELECT DISTINCT xmin::text FROM pg_class WHERE relname ~ '^(timers|jobs)_[0-9]'"
        before = len(connection.execute(makers).fetchall())
        await calendar.store.maintain(calendar.clock.now_ms())
        transactions = len(connection.execute(makers).fetchall()) - before
    assert transactions > 62 // DAYS_AT_ONCE


async def test_the_ledger_stays_until_the_timers_are_gone(calendar: Calendar) -> None:
    """C7: a timer that is read again would find no row and fire once more."""
    new = await calendar.finish()
    with psycopg.connect(calendar.server.url(calendar.database)) as late:
        late.execute(INSERT_TIMER, (calendar.first_day_ms + 5, UUID(int=1), 5))
        await calendar.pass_to(4)
        assert calendar.has_leaf("runs", 0)
        assert (await calendar.arena.run(new)).state is RunState.SUCCEEDED
        late.rollback()
    await calendar.acknowledge(4)
    await calendar.sweep()
    assert not calendar.has_leaf("runs", 0)


async def test_the_ledger_stays_until_every_shard_has_acknowledged_it(calendar: Calendar) -> None:
    """C7: an acknowledgement can go back, also after the timers of that time are gone."""
    await calendar.finish()
    await calendar.pass_to(4, retention_days=100)
    assert not calendar.has_leaf("timers", 0)
    await calendar.acknowledge(0.5, shards=[9])
    await calendar.sweep()
    assert calendar.has_leaf("runs", 0)
    await calendar.acknowledge(4, shards=[9])
    await calendar.sweep()
    assert not calendar.has_leaf("runs", 0)


async def test_a_reader_for_an_hour_stops_neither_the_firing_nor_the_dropping(calendar: Calendar) -> None:
    """DETACH CONCURRENTLY waits for a foreign transaction; meanwhile everybody else goes on."""
    await calendar.finish()
    with psycopg.connect(calendar.server.url(calendar.database)) as reader:
        reader.execute("SELECT count(*) FROM tickwheel.timers").fetchone()
        calendar.go_to(1.5)
        await calendar.sweep()
        await calendar.acknowledge(1.5)
        sweeping = asyncio.ensure_future(calendar.store.sweep(calendar.clock.now_ms(), DAY_MS))
        due_ms = calendar.clock.now_ms()
        other = calendar.arena.one_off(due_ms)
        await calendar.arena.insert(other)
        await calendar.owner.win(other)
        with suppress(StoreUnavailable):
            await sweeping
        assert any("timers" in straggler.leaf for straggler in calendar.store.stragglers())
        reader.rollback()
    await calendar.sweep()
    assert not calendar.has_leaf("timers", 0)
    orphans = (
        "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'timers_%%' AND NOT relispartition"
    )
    assert calendar.rows(orphans) == [(0,)]


async def test_two_who_sweep_at_once_are_harmless(calendar: Calendar) -> None:
    for _ in range(3):
        await calendar.finish()
    await calendar.pass_to(1.5)
    other = Calendar(calendar.server, calendar.database, calendar.clock)
    await other.arena.open()
    try:
        calendar.go_to(5)
        await calendar.store.sweep(calendar.clock.now_ms(), DAY_MS)
        await calendar.acknowledge(5)
        swept = await asyncio.gather(
            *(one.store.sweep(calendar.clock.now_ms(), DAY_MS) for one in (calendar, other) for _ in range(3))
        )
    finally:
        await other.store.aclose()
    await calendar.sweep()
    assert sum(swept) <= 6
    assert not calendar.has_leaf("runs", 0)
    assert not calendar.has_leaf("jobs", 0)


async def test_an_occurrence_of_long_ago_can_be_run_after_a_pause(calendar: Calendar) -> None:
    """A monthly job that is resumed runs what it missed, though the ledger of that day has been dropped."""
    monthly = calendar.arena.recurring(calendar.clock.now_ms() + 20 * DAY_MS)
    await calendar.arena.insert(monthly)
    missed_ms = calendar.clock.now_ms()
    await calendar.pass_to(6)
    assert not calendar.has_leaf("runs", 0)
    write = LedgerWrite(missed_ms, RunState.SCHEDULED, follow_up_ms=calendar.clock.now_ms())
    changed = await calendar.store.change_job(
        "default", monthly.job.job_id, edit(calendar.clock.now_ms() + DAY_MS, write)
    )
    assert changed is not None
    held = await calendar.owner.win(monthly, changed.timers[0])
    assert held.timer == FirstTimer(calendar.clock.now_ms(), missed_ms, -1)
    await calendar.owner.complete(held, RunState.FAILED)
    run = await calendar.arena.run(monthly, missed_ms)
    assert (run.state, len(run.attempts)) == (RunState.FAILED, 1)
