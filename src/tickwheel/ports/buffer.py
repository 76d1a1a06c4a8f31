"""The buffer: keeps timers that are due later today out of this process's memory, in minute buckets.

It holds no truth. Every timer in it is in the store as well, and its owner treats it as *not loaded*: what is
known and vouched for by `ack` ends where the wheel's part ends. So a buffer may lose anything at any moment, or
give back what it held an hour ago: whoever reads a bucket counts and sums up what comes, and reads the store's
timers of that minute instead when one is missing or differs.

A buffer belongs to one process: no other one reads or adds to its buckets. The next owner of a shard begins with
the store, and fills buckets of its own.

Every verb raises `ConnectionError` when the buffer can't be reached or refuses; what was asked for may have
happened, or a part of it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from tickwheel.domain.columns import Rows
from tickwheel.domain.minutes import Bucket

PACK_COUNT: Final = 64
"""Most timers of one pack: one entry of the buffer, for an entry costs three times what a timer does."""


class Pack(NamedTuple):
    """TIMER rows of one bucket, at least one. `at`: how many its owner has put there before."""

    bucket: Bucket
    at: int
    rows: Rows


class Buffer(Protocol):
    """Buckets of timers."""

    async def add(self, packs: Sequence[Pack]) -> None:
        """Put these packs into their buckets."""
        ...

    async def read(self, bucket: Bucket) -> Rows:
        """All that is there of that bucket as TIMER rows, by `at`; nothing where there is no such bucket."""
        ...

    async def drop(self, buckets: Sequence[Bucket]) -> None:
        """Forget these buckets; those that are not there are fine."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
