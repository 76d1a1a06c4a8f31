"""How each store of a cluster is opened for the suite: an empty database that several processes share.

An adapter joins by one entry in `BACKENDS`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tickwheel.adapters.memory import MemoryStore
from tickwheel.adapters.memory.tables import Tables
from tickwheel.ports.shards import ShardStore
from tickwheel.ports.store import Store
from tickwheel.testing.virtual_clock import VirtualClock


class ClusterStore(Store, ShardStore, Protocol):
    """Both roles in one object: one process's connections."""


class Cluster(Protocol):
    """A database that outlives the stores that are opened on it."""

    async def open(self) -> ClusterStore:
        """As one more process does."""
        ...

    async def cut(self, store: ClusterStore) -> None:
        """End the database sessions of that process."""
        ...


class MemoryCluster:
    """Every process sees the same tables."""

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self._clock, self._tables = clock, Tables()

    async def open(self) -> ClusterStore:
        return MemoryStore(self._clock, self._tables)

    async def cut(self, store: ClusterStore) -> None:
        assert isinstance(store, MemoryStore)
        store.lose_session()


BACKENDS: dict[str, Callable[[Path, VirtualClock], Cluster]] = {"memory": MemoryCluster}
