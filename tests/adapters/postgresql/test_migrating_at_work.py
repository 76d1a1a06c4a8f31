"""A schema is brought up to date while nodes and users are at work."""

import asyncio
from importlib import import_module

import psycopg
import pytest

from tickwheel.adapters.postgresql.admission import migrate_database
from tickwheel.adapters.postgresql.migrate import Migration, known_migrations

from .calendar import Calendar

CHANGE = Migration(9_999, "pre", "change", "ALTER TABLE tickwheel.jobs ADD COLUMN later int4")
ENQUEUE = "LOCK TABLE tickwheel.jobs IN ROW EXCLUSIVE MODE"


async def test_nobody_waits_behind_a_migration_that_waits_for_a_user(
    calendar: Calendar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user enqueued in a transaction that stays open; others go on enqueuing, and so do the nodes."""
    migrate = import_module("tickwheel.adapters.postgresql.migrate")  # the package has a function of that name
    monkeypatch.setattr(migrate, "LOCK_WAIT_MS", 50)
    monkeypatch.setattr(migrate, "PAUSE_MS", 100)
    known = [*known_migrations(), CHANGE]
    monkeypatch.setattr(migrate, "known_migrations", lambda: known)
    url = calendar.server.url(calendar.database)
    with psycopg.connect(url) as user, psycopg.connect(url, autocommit=True) as other:
        user.execute(ENQUEUE)
        migrating = asyncio.create_task(asyncio.to_thread(migrate_database, url))
        other.execute("SET lock_timeout = '10s'")
        tries = 0
        while tries < 3:
            tries += await asyncio.to_thread(_waits, other)
            other.execute(f"BEGIN; {ENQUEUE}; ROLLBACK")
        assert not migrating.done()
        user.rollback()
        assert await migrating == [CHANGE]


def _waits(connection: psycopg.Connection[tuple[int]]) -> bool:
    """Whether somebody waits for the table now."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tickwheel.jobs'::regclass"
    row = connection.execute(waiting).fetchone()
    return row is not None and row[0] > 0
