"""Databases with Tickwheel's tables, and a store whose days pass by command."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from tickwheel.adapters.postgresql import migrate
from tickwheel.adapters.postgresql.partitions import make_window
from tickwheel.domain.ids import DAY_MS
from tickwheel.testing.virtual_clock import START_MS, VirtualClock

from ...conformance.store.arena import Arena
from ...servers.postgresql import PostgresServer
from ...servers.postgresql_databases import copied_database, emptied_store
from .backend import UrlBackend
from .calendar import Calendar


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def url() -> str:
    """Of an empty database with tables, around the clock's start."""
    return emptied_store()


@pytest.fixture
async def arena(url: str) -> AsyncIterator[Arena]:
    """A store on it, whose clock the test moves."""
    clock = VirtualClock()
    arena = Arena(UrlBackend(url, clock), clock)
    await arena.open()
    yield arena
    await arena.store.aclose()


@pytest.fixture
def migrated(postgresql: PostgresServer) -> Iterator[str]:
    """The name of a database with tables and the leaves around the clock's start."""
    name = copied_database("store", _prepare)
    yield name
    postgresql.drop_database(name)


@pytest.fixture
async def calendar(postgresql: PostgresServer, migrated: str, clock: VirtualClock) -> AsyncIterator[Calendar]:
    """Without history."""
    calendar = Calendar(postgresql, migrated, clock)
    await calendar.open()
    yield calendar
    await calendar.store.aclose()


@pytest.fixture
async def historian(
    postgresql: PostgresServer, migrated: str, clock: VirtualClock, tmp_path: Path
) -> AsyncIterator[Calendar]:
    """With a folder `history`."""
    calendar = Calendar(postgresql, migrated, clock, tmp_path / "history")
    await calendar.open()
    yield calendar
    await calendar.store.aclose()


def _prepare(url: str) -> None:
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        make_window(connection, START_MS - DAY_MS, START_MS + 2 * DAY_MS, START_MS)
