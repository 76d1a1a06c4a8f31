"""Timers that wait for slots of one lane: first come first served within a tenant, fair between tenants.

Each bucket (`domain.tenants`) has a queue of its own. It moves in virtual time: each timer that is taken puts it
forward by the cost of its runs, by its weight, and who is furthest behind is served next. So what all of them wait
for is shared out by slot-time, and what one doesn't need goes to the others. Who begins to wait starts where the
others are: there is no credit for having had nothing to do, and no debt once nobody waits any more.

While only one bucket waits nothing is reckoned, and chunks go in and out as they come.

A queue has two parts. Behind: timers of which only these columns are known. Ahead: those that were `sorted`, which
means that somebody has read their definitions and found that they have to wait here.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np

from tickwheel.domain.columns import TIMER, Ints, Rows
from tickwheel.domain.tenants import BUCKET_COUNT
from tickwheel.services.shares import Floats, FreeSlots, Shares

ROW_BYTES: Final = TIMER.itemsize
_FEW_ROWS: Final = 32

Chunk: TypeAlias = bytes | memoryview
"""TIMER rows as they lie in memory: to join bytes takes a fraction of what numpy takes for records."""


class FairQueue:
    """The queues of the buckets, by bucket; `count` rows in all."""

    __slots__ = ("_now", "_queues", "_shares", "_sole", "_sorted", "_tags", "_waiting", "count")

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._queues: dict[int, deque[Chunk]] = {}
        self._sorted: dict[int, deque[Chunk]] = {}  # ahead of the queue of that bucket; never empty
        self.count = 0
        self._sole = 0  # whose all that waits is, while `_waiting` is None
        self._waiting: Ints | None = None
        self._tags: Floats = np.empty(0)  # where each bucket is in virtual time
        self._now = 0.0

    def push(self, bucket: int, chunk: Chunk) -> None:
        """Queue rows of one bucket."""
        self._count_in(bucket, len(chunk) // ROW_BYTES)
        self._queue(bucket).append(chunk)

    def push_many(self, buckets: Ints, counts: Ints, chunks: Iterable[Chunk]) -> None:
        """The same for several buckets, each once."""
        waiting = self._split()
        begins = buckets[waiting[buckets] == 0]
        self._tags[begins] = np.maximum(self._tags[begins], self._now)
        waiting[buckets] += counts
        self.count += int(counts.sum())
        queues = self._queues
        for bucket, chunk in zip(buckets.tolist(), chunks, strict=True):
            queue = queues.get(bucket)
            if queue is None:
                queue = queues[bucket] = deque()
            queue.append(chunk)

    def push_back(self, bucket: int, chunk: Chunk) -> None:
        """Return rows that were taken to the head, at no cost to their bucket."""
        rows = len(chunk) // ROW_BYTES
        self._count_in(bucket, rows)
        self._unsort(bucket)  # this one may not have been looked at
        self._queue(bucket).appendleft(chunk)
        if self._waiting is not None:
            self._tags[bucket] -= rows * float(self._shares.units(np.array([bucket]))[0])

    def take(self, limit: int, slots: FreeSlots | None) -> list[Chunk]:
        """At most `limit` rows in all."""
        if not self.count or limit <= 0:
            return []
        parts: list[Chunk] = []
        if self._waiting is None:
            count = min(limit, self.count)
            if slots is not None:
                buckets, wanted = np.array([self._sole]), np.array([count])
                count = int(self._shares.grant(buckets, np.zeros(1), wanted, limit, slots)[0][0])
            self._pop(self._sole, count, parts)
            self.count -= count
            return parts
        served, counts = self._shared_out(self._waiting, limit, slots)
        queues, add = self._queues, parts.append
        for bucket, count in zip(served, counts, strict=True):
            queue = queues[bucket]
            if not self._sorted and len(queue[0]) == count * ROW_BYTES:
                add(queue.popleft())
            else:
                self._pop(bucket, count, parts)
        self.count -= sum(counts)
        if not self.count:
            self._waiting, self._now = None, 0.0
        return parts

    def take_unsorted(self, limit: int) -> list[Chunk]:
        """At most `limit` rows to look at, from all buckets alike and at no cost to them."""
        parts: list[Chunk] = []
        buckets = [bucket for bucket, queue in self._queues.items() if queue] if limit > 0 else []
        for number, bucket in enumerate(buckets):
            count = self._pop_from(self._queues[bucket], -(-limit // (len(buckets) - number)), parts)
            limit -= count
            self.count -= count
            if self._waiting is not None:
                self._waiting[bucket] -= count
        if not self.count:
            self._waiting, self._now = None, 0.0
        return parts

    def take_bucket(self, bucket: int) -> list[Chunk]:
        """All rows of one bucket, at no cost to it."""
        parts = [*self._sorted.pop(bucket, ()), *self._queues.pop(bucket, ())]
        self.count -= sum(map(len, parts)) // ROW_BYTES
        if self._waiting is not None:
            self._waiting[bucket] = 0
        if not self.count:
            self._waiting, self._now = None, 0.0
        return parts

    def push_sorted(self, bucket: int, chunk: Chunk) -> None:
        """Return rows that were looked at, behind those that were before."""
        self._count_in(bucket, len(chunk) // ROW_BYTES)
        self._sorted.setdefault(bucket, deque()).append(chunk)

    def unsort(self) -> None:
        """All are to be looked at again."""
        for bucket in list(self._sorted):
            self._unsort(bucket)

    def oldest_due_ms(self, *, rough: bool) -> int | None:
        """The earliest due time at the head of a queue; roughly: of any queue."""
        if not self.count:
            return None
        if self._waiting is None:
            return _due_ms((self._sorted.get(self._sole) or self._queues[self._sole])[0])
        heads = (_due_ms(queue[0]) for part in (self._sorted, self._queues) for queue in part.values() if queue)
        return next(heads) if rough else min(heads)

    def chunks(self) -> Sequence[Chunk]:
        """All that waits, as few chunks as it takes."""
        all_chunks = [chunk for part in (self._sorted, self._queues) for queue in part.values() for chunk in queue]
        small = b"".join(chunk for chunk in all_chunks if len(chunk) < _FEW_ROWS * ROW_BYTES)
        large = [chunk for chunk in all_chunks if len(chunk) >= _FEW_ROWS * ROW_BYTES]
        return [*large, small] if small else large

    def _queue(self, bucket: int) -> deque[Chunk]:
        queue = self._queues.get(bucket)
        if queue is None:
            queue = self._queues[bucket] = deque()
        return queue

    def _unsort(self, bucket: int) -> None:
        self._queue(bucket).extendleft(reversed(self._sorted.pop(bucket, ())))

    def _count_in(self, bucket: int, rows: int) -> None:
        if self._waiting is None:
            if not self.count:
                self._sole = bucket
            elif bucket != self._sole:
                self._split()
        if self._waiting is not None:
            if not self._waiting[bucket]:
                self._tags[bucket] = max(float(self._tags[bucket]), self._now)
            self._waiting[bucket] += rows
        self.count += rows

    def _split(self) -> Ints:
        """From here on each bucket is counted, all at the same point of virtual time."""
        if self._waiting is None:
            self._waiting = np.zeros(BUCKET_COUNT, dtype=np.int64)
            self._waiting[self._sole] = self.count
            self._tags = np.zeros(BUCKET_COUNT)
        return self._waiting

    def _shared_out(self, waiting: Ints, limit: int, slots: FreeSlots | None) -> tuple[list[int], list[int]]:
        """Buckets, and how many rows of each to take."""
        buckets = waiting.nonzero()[0]
        starts = np.maximum(self._tags[buckets], self._now)
        granted, able = self._shares.grant(buckets, starts, np.minimum(waiting[buckets], limit), limit, slots)
        served = granted.nonzero()[0]
        if not len(served):
            return [], []
        tags = starts + granted * self._shares.units(buckets)
        self._tags[buckets] = tags
        waiting[buckets] -= granted
        # Virtual time is where the one stands that is furthest behind. Who is held back, because it holds its part
        # already, gains nothing by that.
        more = waiting[buckets] > 0
        if slots is not None and more.any() and not more[served].all():
            self._shares.note_few(slots.now_ms)
        next_ones = tags[able & more]
        if len(next_ones):
            self._now = float(next_ones.min())
        return buckets[served].tolist(), granted[served].tolist()

    def _pop(self, bucket: int, count: int, parts: list[Chunk]) -> None:
        first = self._sorted.get(bucket)
        if first is not None:
            count -= self._pop_from(first, count, parts)
            if not first:
                del self._sorted[bucket]
        if count:
            self._pop_from(self._queues[bucket], count, parts)

    @staticmethod
    def _pop_from(queue: deque[Chunk], count: int, parts: list[Chunk]) -> int:
        """How many rows came; fewer than `count` where the queue ends."""
        needed = count * ROW_BYTES
        while needed and queue:
            chunk = queue.popleft()
            size = len(chunk)
            if size > needed:
                whole = memoryview(chunk)
                queue.appendleft(whole[needed:])
                chunk, size = whole[:needed], needed
            parts.append(chunk)
            needed -= size
        return count - needed // ROW_BYTES


def chunk_of(timers: Rows) -> Chunk:
    """TIMER rows as a chunk, which shares their memory where it can."""
    return np.ascontiguousarray(timers).view(np.uint8).data


def rows_of(chunks: Sequence[Chunk]) -> Rows:
    """The TIMER rows of these chunks, one after another; to be read only."""
    return np.frombuffer(chunks[0] if len(chunks) == 1 else b"".join(chunks), TIMER)


def _due_ms(chunk: Chunk) -> int:
    return int.from_bytes(chunk[:8], "little", signed=True)
