"""A buffer that is away, hangs, forgets, or comes back with what it held a while ago."""

import asyncio
from collections.abc import Sequence

from tickwheel.adapters.memory.buffer import MemoryBuffer
from tickwheel.domain.columns import Rows
from tickwheel.domain.minutes import Bucket
from tickwheel.ports.buffer import Pack
from tickwheel.testing.seeded_randomness import SeededRandomness


class FaultyBuffer(MemoryBuffer):
    """Faults are switched on and off by the test; `calls` counts what came through to the buckets."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__()
        self._randomness = SeededRandomness(seed)
        self._copy: dict[Bucket, dict[int, bytes]] = {}
        self.away = False  # every verb raises
        self.full = False  # adding raises, as with `maxmemory` and no eviction
        self.tears = False  # adding does a part, then raises
        self.hangs = asyncio.Event()
        self.hangs.set()  # clear it, and every verb waits
        self.reads = self.adds = 0

    async def add(self, packs: Sequence[Pack]) -> None:
        await self._meet()
        if self.full:
            raise ConnectionError("out of memory")
        if self.tears:
            await super().add(packs[: len(packs) // 2])
            raise ConnectionError("cut in the middle")
        self.adds += 1
        await super().add(packs)

    async def read(self, bucket: Bucket) -> Rows:
        await self._meet()
        self.reads += 1
        return await super().read(bucket)

    async def drop(self, buckets: Sequence[Bucket]) -> None:
        await self._meet()
        await super().drop(buckets)

    async def _meet(self) -> None:
        await self.hangs.wait()
        if self.away:
            raise ConnectionError("away")

    def flush(self) -> None:
        """FLUSHALL."""
        self.buckets.clear()

    def evict(self, rate: float) -> None:
        """Whole buckets go, as with `maxmemory` and an eviction policy."""
        for bucket in list(self.buckets):
            if self._randomness.fraction() < rate:
                del self.buckets[bucket]

    def tear(self, rate: float) -> None:
        """Single packs go, as after a failover to a replica that was behind."""
        for packs in self.buckets.values():
            for at in list(packs):
                if self._randomness.fraction() < rate:
                    del packs[at]

    def remember(self) -> None:
        """Take the copy that `go_back` comes back with."""
        self._copy = {bucket: dict(packs) for bucket, packs in self.buckets.items()}

    def go_back(self) -> None:
        """A restart from an old copy on disk, or a replica that lagged far behind."""
        self.buckets = {bucket: dict(packs) for bucket, packs in self._copy.items()}

    def hang(self) -> None:
        """Every verb waits."""
        self.hangs.clear()

    def heal(self) -> None:
        """It works again; what is lost stays lost."""
        self.away = self.full = self.tears = False
        self.hangs.set()

    def corrupt(self) -> None:
        """Flip a bit in each pack."""
        for packs in self.buckets.values():
            for at, data in packs.items():
                packs[at] = bytes([data[0] ^ 1]) + data[1:]
