"""How each adapter is opened for the suite: an empty database under a clock that the test moves.

An adapter joins by one entry in `BACKENDS`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tickwheel.adapters.memory import MemoryStore
from tickwheel.ports.store import Store
from tickwheel.testing.virtual_clock import VirtualClock


class Backend(Protocol):
    """A database that outlives the stores that are opened on it."""

    async def open(self) -> Store: ...


class MemoryBackend:
    """The data lives in the object, so every process of a test shares it."""

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self._store = MemoryStore(clock)

    async def open(self) -> Store:
        return self._store


class SqliteBackend:
    """One file in the test's own directory."""

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self._path, self._clock = directory / "tickwheel.db", clock

    async def open(self) -> Store:
        from tickwheel.adapters.sqlite import open_sqlite_store

        return await open_sqlite_store(self._path, self._clock)


BACKENDS: dict[str, Callable[[Path, VirtualClock], Backend]] = {
    "memory": MemoryBackend,
    "sqlite": SqliteBackend,
}
