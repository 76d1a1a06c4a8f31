"""How each adapter is opened for the suite: an empty database under a clock that the test moves.

An adapter joins by one entry in `BACKENDS`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.servers.postgresql_databases import emptied_store

from tickwheel.adapters.memory import MemoryStore
from tickwheel.adapters.postgresql import open_postgresql_store
from tickwheel.adapters.sqlite import open_sqlite_store
from tickwheel.ports.store import Store
from tickwheel.testing.virtual_clock import VirtualClock


class Backend(Protocol):
    """A database that outlives the stores that are opened on it."""

    lists_unrenewed: bool
    """Whether `expired` knows of attempts that were never renewed (a store of a cluster need not)."""
    sweeps_rows: bool
    """Whether retention deletes row by row, to the millisecond; else whole days go, with tests of their own."""
    reads_definitions: bool
    """Whether claims bring along what was read of their jobs, as they usually do."""

    async def open(self) -> Store: ...

    def drop(self) -> None:
        """The test is over."""


class MemoryBackend:
    """The data lives in the object, so every process of a test shares it."""

    lists_unrenewed = True
    sweeps_rows = True
    reads_definitions = True

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self._store = MemoryStore(clock)

    async def open(self) -> Store:
        return self._store

    def drop(self) -> None:
        """It goes with the object."""


class SqliteBackend:
    """A folder of the test's own: a copy of one whose tables were made once."""

    lists_unrenewed = True
    sweeps_rows = True
    reads_definitions = True
    _blank: dict[str, bytes] | None = None

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self._directory, self._clock = directory, clock

    async def open(self) -> Store:
        folder = self._directory / "data"
        if not folder.exists():
            folder.mkdir()
            for name, content in (await self._blank_folder()).items():
                (folder / name).write_bytes(content)
        return await open_sqlite_store(folder, self._clock)

    def drop(self) -> None:
        """It goes with the test's folder."""

    async def _blank_folder(self) -> dict[str, bytes]:
        if SqliteBackend._blank is None:
            folder = self._directory / "blank"
            await (await open_sqlite_store(folder, self._clock)).aclose()
            SqliteBackend._blank = {path.name: path.read_bytes() for path in folder.iterdir()}
        return SqliteBackend._blank


class PostgresqlBackend:
    """A database on the server of this process, emptied before each test, whose clock is the test's."""

    lists_unrenewed = False
    sweeps_rows = False  # tests/adapters/postgresql/test_retention.py
    reads_definitions = True

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self._clock, self._url = clock, emptied_store()

    async def open(self) -> Store:
        return await open_postgresql_store(self._url, self._clock, pinned_clock=self._clock)

    def drop(self) -> None:
        """The next test empties it."""


class LookingPostgresqlBackend(PostgresqlBackend):
    """The same, whose claims look at each job themselves, as they do when something in its shard was changed."""

    reads_definitions = False


BACKENDS: dict[str, Callable[[Path, VirtualClock], Backend]] = {
    "memory": MemoryBackend,
    "postgresql": PostgresqlBackend,
    "postgresql, looking": LookingPostgresqlBackend,
    "sqlite": SqliteBackend,
}
