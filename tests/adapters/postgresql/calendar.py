"""A store whose days pass by command: retention and partitions, seen through the port and in the database."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tickwheel.adapters.postgresql import PostgresqlStore, open_postgresql_store
from tickwheel.adapters.postgresql.partitions import Leaf, list_leaves
from tickwheel.domain.ids import DAY_MS
from tickwheel.domain.run import RunState
from tickwheel.ports.shards import HeldPair, Pair, Snapshot
from tickwheel.ports.store import NewJob, Store
from tickwheel.testing.virtual_clock import VirtualClock

from ...conformance.store.arena import Arena
from ...conformance.store.owner import Owner
from ...servers.postgresql import PostgresServer


class _Backend:
    """Opens the store of a calendar for its arena."""

    lists_unrenewed = sweeps_rows = False
    reads_definitions = True

    def __init__(self, url: str, clock: VirtualClock, history: Path | None) -> None:
        self._url, self._clock, self._history = url, clock, history

    async def open(self) -> Store:
        return await open_postgresql_store(self._url, self._clock, pinned_clock=self._clock, history=self._history)

    def drop(self) -> None:
        """The calendar does."""


class Calendar:
    """Day 0 begins at the midnight before the clock's start. Everything is owned, and acknowledged by command."""

    def __init__(
        self, server: PostgresServer, database: str, clock: VirtualClock, history: Path | None = None
    ) -> None:
        self.server, self.database, self.clock = server, database, clock
        self.arena = Arena(_Backend(server.url(database), clock, history), clock)
        self.owner = Owner(self.arena)
        self.first_day_ms = clock.now_ms() // DAY_MS * DAY_MS

    @property
    def store(self) -> PostgresqlStore:
        assert isinstance(self.arena.store, PostgresqlStore)
        return self.arena.store

    async def open(self) -> None:
        await self.arena.open()
        await self.owner.acquire()

    async def reopen(self) -> None:
        """Another process."""
        await self.arena.restart()
        await self.owner.acquire()

    def cut_connections(self) -> None:
        """Whoever comes next connects anew."""
        self.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND pid <> pg_backend_pid()",
            self.database,
        )

    def go_to(self, day: float) -> None:
        """Let the clock be there."""
        self.clock.step_ms(self.first_day_ms + int(day * DAY_MS) - self.clock.now_ms())

    async def acknowledge(self, day: float, *, shards: Sequence[int] = range(256)) -> Snapshot:
        """All timers of these shards that were due before are resolved, as far as a snapshot of now can see."""
        snapshot = await self.store.take_snapshot()
        ack_ms = self.first_day_ms + int(day * DAY_MS)
        epochs = np.asarray(self.owner.epochs).tolist()
        pairs = [HeldPair(shard, epochs[shard], Pair(ack_ms, snapshot)) for shard in shards]
        assert not await self.store.store_pairs(self.owner.worker, pairs)
        return snapshot

    async def sweep(self, retention_days: float = 1) -> int:
        """Until nothing more goes; gives how many rows went."""
        total = 0
        for _ in range(50):
            deleted = await self.store.sweep(self.clock.now_ms(), int(retention_days * DAY_MS))
            total += deleted
            if not deleted:
                return total
        raise AssertionError("the sweep never ends")

    async def pass_to(self, day: float, retention_days: float = 1) -> int:
        """The clock goes there, everything before is acknowledged, and retention is held."""
        self.go_to(day)
        await self.store.sweep(self.clock.now_ms(), int(retention_days * DAY_MS))  # draws marks
        await self.acknowledge(day)
        return await self.sweep(retention_days)

    async def finish(self, end: RunState = RunState.SUCCEEDED, **fields: Any) -> NewJob:
        """A job whose run has ended so."""
        new = self.arena.one_off(**fields)
        await self.arena.insert(new)
        await self.owner.complete(await self.owner.win(new), end)
        return new

    async def is_there(self, new: NewJob) -> bool:
        return await self.store.get_job(new.job.tenant_id, new.job.job_id) is not None

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Straight from the database."""
        return self.server.execute(statement, *values, database=self.database)

    def leaves(self, table: str) -> list[Leaf]:
        with self.server.connect(self.database) as connection:
            return list_leaves(connection, table)

    def has_leaf(self, table: str, day: int) -> bool:
        """Whether the table has a leaf for that day."""
        at = self.first_day_ms // DAY_MS + day if table == "jobs" else self.first_day_ms + day * DAY_MS
        return any(leaf.start <= at < leaf.end for leaf in self.leaves(table))
