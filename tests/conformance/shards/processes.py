"""Processes of a cluster, reduced to what the store sees of them."""

from typing import cast

from tickwheel.domain.ids import SHARD_COUNT, shard_of
from tickwheel.ports.shards import HeldPair, Pair, Snapshot, Taken
from tickwheel.ports.store import FirstTimer, NewJob
from tickwheel.testing.virtual_clock import VirtualClock

from ..store.arena import FAR_MS, Arena, timer_values
from ..store.owner import Owner
from .factories import Cluster, ClusterStore

Fed = list[tuple[bytes, FirstTimer]]


class Process(Owner):
    """One incarnation with its own connections; claims under the epochs that it took."""

    def __init__(self, arena: Arena, name: str) -> None:
        super().__init__(arena, name)
        self.epochs = [0] * SHARD_COUNT
        self.prev = Snapshot("")

    @property
    def store(self) -> ClusterStore:
        return cast(ClusterStore, self._arena.store)

    async def take(self, *shards: int, epoch: int | None = None) -> list[Taken]:
        """Take these as they stand now, or as they were seen at `epoch`."""
        states = await self.store.list_shards()
        seen = {shard: states[shard].epoch if epoch is None else epoch for shard in shards}
        taken = list(await self.store.take(self.worker, seen))
        for one in taken:
            self.epochs[one.shard] = one.epoch
        return taken

    async def release(self, *shards: int) -> None:
        await self.store.release(self.worker, {shard: self.epochs[shard] for shard in shards})

    async def store_pair(self, shard: int, ack_ms: int, snapshot: Snapshot) -> bool:
        """Whether it was stored."""
        pair = HeldPair(shard, self.epochs[shard], Pair(ack_ms, snapshot))
        refused = await self.store.store_pairs(self.worker, [pair])
        assert list(refused) in ([], [shard])
        return not refused

    async def look(self) -> None:
        """Feed from now on."""
        self.prev = await self.store.take_snapshot()

    async def feed(self, *shards: int, until_ms: int = FAR_MS) -> Fed:
        """What was committed since the last look or feed."""
        rows, self.prev = await self.store.feed(self.prev, shards, until_ms)
        return sorted(timer_values(rows), key=lambda found: found[1].due_ms)

    async def owner_of(self, shard: int) -> str | None:
        return (await self.store.list_shards())[shard].owner


class Processes:
    """Starts processes on one database."""

    def __init__(self, cluster: Cluster, clock: VirtualClock) -> None:
        self.cluster, self.clock = cluster, clock
        self._started: list[Arena] = []
        self.jobs: Arena
        """Makes jobs, and inserts them through a connection of its own."""

    async def open(self) -> None:
        self.jobs = await self._arena()

    async def start(self, name: str) -> Process:
        """A process that is enlisted and owns nothing."""
        process = Process(await self._arena(), name)
        await process.store.enlist(name)
        return process

    async def close(self) -> None:
        for arena in self._started:
            await arena.store.aclose()

    async def _arena(self) -> Arena:
        arena = Arena(self.cluster, self.clock)
        await arena.open()
        self._started.append(arena)
        return arena


def fed(*jobs: NewJob) -> Fed:
    """What a feed of the first timers of these jobs gives."""
    return [(new.job.job_id, new.timer) for new in jobs if new.timer is not None]


def shard(new: NewJob) -> int:
    return shard_of(new.job.job_id)
