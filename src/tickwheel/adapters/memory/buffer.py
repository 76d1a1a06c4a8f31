"""`MemoryBuffer`: minute buckets in dictionaries. The reference for the other buffers, and for tests to break."""

from collections.abc import Sequence

import numpy as np

from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.domain.minutes import Bucket
from tickwheel.ports.buffer import Pack


class MemoryBuffer:
    """Implements `ports.buffer.Buffer`. `buckets` is open: by bucket, the bytes of each pack by its `at`."""

    def __init__(self) -> None:
        self.buckets: dict[Bucket, dict[int, bytes]] = {}

    async def add(self, packs: Sequence[Pack]) -> None:
        for pack in packs:
            self.buckets.setdefault(pack.bucket, {})[pack.at] = pack.rows.tobytes()

    async def read(self, bucket: Bucket) -> Rows:
        packs = self.buckets.get(bucket)
        if not packs:
            return empty(TIMER)
        return np.frombuffer(b"".join(data for _, data in sorted(packs.items())), TIMER)

    async def drop(self, buckets: Sequence[Bucket]) -> None:
        for bucket in buckets:
            self.buckets.pop(bucket, None)

    async def aclose(self) -> None:
        """There is nothing to let go of."""
