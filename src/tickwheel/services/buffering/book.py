"""What this process has put into each bucket, so that it can tell whether all of it comes back.

Kept are a count and a running checksum (8 bytes' worth per bucket, a few thousand buckets), here and not in the
buffer: a sentinel or a counter that is stored beside the timers is lost, or goes back in time, together with
them. Example: a failover to a replica that was two seconds behind keeps the sentinel, and a counter too that was
as old as the timers; the count here says that eleven are missing.
"""

from typing import Final
from zlib import crc32

from tickwheel.domain.columns import Rows
from tickwheel.domain.minutes import Bucket
from tickwheel.ports.buffer import PACK_COUNT, Pack

_VOID: Final = (-1, 0)


class Book:
    """Counts and checksums by bucket. A void bucket is one that is known to lack something."""

    def __init__(self) -> None:
        self._put: dict[Bucket, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._put)

    @property
    def timer_count(self) -> int:
        """Timers in buckets that are whole, as far as is known."""
        return sum(max(0, count) for count, _ in self._put.values())

    def enter(self, bucket: Bucket, rows: Rows) -> list[Pack]:
        """Count these, and cut them into packs; none for a void bucket, which is read no more."""
        count, checksum = self._put.get(bucket, (0, 0))
        if count < 0:
            return []
        starts = range(0, len(rows), PACK_COUNT)
        packs = [Pack(bucket, count + start, rows[start : start + PACK_COUNT]) for start in starts]
        self._put[bucket] = (count + len(rows), crc32(rows.tobytes(), checksum))
        return packs

    def void(self, bucket: Bucket) -> None:
        """Something of it was not put there, or may not have been."""
        self._put[bucket] = _VOID

    def is_void(self, bucket: Bucket) -> bool:
        """Whether it has to be read from the store."""
        return self._put.get(bucket) == _VOID

    def count(self, bucket: Bucket) -> int:
        """How many were put there; 0 also for a void one."""
        return max(0, self._put.get(bucket, (0, 0))[0])

    def agrees(self, bucket: Bucket, rows: Rows) -> bool:
        """Whether these are exactly what was put there, in that order."""
        return self._put.get(bucket, (0, 0)) == (len(rows), crc32(rows.tobytes()))

    def past(self, floor_ms: int) -> list[Bucket]:
        """The buckets of minutes that end by then."""
        return [bucket for bucket in self._put if bucket.until_ms <= floor_ms]

    def forget(self, bucket: Bucket) -> None:
        """It is not in the buffer any more."""
        self._put.pop(bucket, None)
