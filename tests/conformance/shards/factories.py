"""How each store of a cluster is opened for the suite: an empty database that several processes share.

An adapter joins by one entry in `BACKENDS`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.servers.postgresql_databases import emptied_store

from tickwheel.adapters.memory import MemoryStore
from tickwheel.adapters.memory.tables import Tables
from tickwheel.adapters.postgresql import PostgresqlStore, open_postgresql_store
from tickwheel.ports.shards import ShardStore
from tickwheel.ports.store import Store
from tickwheel.testing.virtual_clock import VirtualClock


class ClusterStore(Store, ShardStore, Protocol):
    """Both roles in one object: one process's connections."""


class Cluster(Protocol):
    """A database that outlives the stores that are opened on it."""

    lists_unrenewed: bool
    sweeps_rows: bool
    reads_definitions: bool

    async def open(self) -> ClusterStore:
        """As one more process does."""
        ...

    async def cut(self, store: ClusterStore) -> None:
        """End the database sessions of that process."""
        ...

    def drop(self) -> None:
        """The test is over."""


class MemoryCluster:
    """Every process sees the same tables."""

    lists_unrenewed = sweeps_rows = reads_definitions = True

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self._clock, self._tables = clock, Tables()

    def drop(self) -> None:
        """It goes with the object."""

    async def open(self) -> ClusterStore:
        return MemoryStore(self._clock, self._tables)

    async def cut(self, store: ClusterStore) -> None:
        assert isinstance(store, MemoryStore)
        store.lose_session()


class PostgresqlCluster:
    """Every process has connections of its own to one database, whose clock is the test's."""

    lists_unrenewed = sweeps_rows = False
    reads_definitions = True

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self._clock, self._url = clock, emptied_store()

    def drop(self) -> None:
        """The next test empties it."""

    async def open(self) -> ClusterStore:
        return await open_postgresql_store(self._url, self._clock, pinned_clock=self._clock)

    async def cut(self, store: ClusterStore) -> None:
        assert isinstance(store, PostgresqlStore)
        store.cut_sessions()


BACKENDS: dict[str, Callable[[Path, VirtualClock], Cluster]] = {
    "memory": MemoryCluster,
    "postgresql": PostgresqlCluster,
}
