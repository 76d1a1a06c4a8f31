"""Timers that are due and wait for a free slot: one ring per executor kind and lane, unleased.

Backlog waits here and only here: nothing is claimed before a slot is free for it, so overload shows as a growing
ring and never as lost or expired work. Within a ring tenants share the slots (`fair_queue`). Chunks of TIMER rows
are queued as they come, so pushing and taking cost next to nothing per row.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import (
    FLAG_BUCKET_MASK,
    FLAG_BUCKET_SHIFT,
    FLAG_HANDLER,
    FLAG_LANE_MASK,
    TIMER,
    Ints,
    Rows,
    empty,
)
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.tenants import BUCKET_COUNT
from tickwheel.services.fair_queue import ROW_BYTES, Chunk, FairQueue, chunk_of, rows_of
from tickwheel.services.shares import Floats, FreeSlots, Shares

KIND_WEBHOOK: Final = 0
KIND_HANDLER: Final = 1
KIND_COUNT: Final = 2
_FEW: Final = 16
_ROW: Final = f"V{ROW_BYTES}"
_PLACE: Final = FLAG_BUCKET_MASK | FLAG_HANDLER | FLAG_LANE_MASK
"""The flags that say in which queue of which ring a timer belongs."""


class ReadyRing:
    """Due timers per (kind, lane): first come first served within a tenant."""

    def __init__(self) -> None:
        self._shares = [Shares() for _ in range(KIND_COUNT * LANE_COUNT)]
        self._rings = [FairQueue(shares) for shares in self._shares]

    def __len__(self) -> int:
        return sum(ring.count for ring in self._rings)

    def count(self, kind: int, lane: int) -> int:
        """Timers waiting for slots of this kind and lane."""
        return self._rings[kind * LANE_COUNT + lane].count

    def rows(self) -> Rows:
        """All that wait, as TIMER rows in no order. O(rows)."""
        chunks = [chunk for ring in self._rings if ring.count for chunk in ring.chunks()]
        return rows_of(chunks) if chunks else empty(TIMER)

    def lowest_due_ms(self) -> int | None:
        """The earliest due time of all that wait; None when nothing does. O(rows), some nanoseconds each."""
        chunks = (chunk for ring in self._rings if ring.count for chunk in ring.chunks())
        return min((int(rows_of([chunk])["due_ms"].min()) for chunk in chunks), default=None)

    def push(self, timers: Rows) -> None:
        """Queue TIMER rows, in due order among those pushed together."""
        if not len(timers):
            return
        places = timers["flags"] & _PLACE
        first = int(places[0])
        if (places == first).all():
            self._rings[_ring_of(first)].push(first >> FLAG_BUCKET_SHIFT, chunk_of(timers))
            return
        if len(timers) <= _FEW:
            for place, row in zip(places.tolist(), timers.view(_ROW).tolist(), strict=True):
                self._rings[_ring_of(place)].push(place >> FLAG_BUCKET_SHIFT, row)
            return
        rings, buckets, counts, chunks = _cut(timers, places)
        several = rings[0] != rings[-1]
        for ring in np.unique(rings).tolist() if several else (int(rings[0]),):
            start, end = np.searchsorted(rings, (ring, ring + 1)).tolist() if several else (0, len(rings))
            if end - start == 1:
                self._rings[ring].push(int(buckets[start]), chunks[start])
            else:
                self._rings[ring].push_many(buckets[start:end], counts[start:end], chunks[start:end])

    def push_back(self, timers: Rows) -> None:
        """Return timers that were taken but not claimed to the heads of their queues."""
        if not len(timers):
            return
        rings, buckets, _, chunks = _cut(timers, timers["flags"] & _PLACE)
        for ring, bucket, chunk in zip(rings.tolist(), buckets.tolist(), chunks, strict=True):
            self._rings[ring].push_back(bucket, chunk)

    def take(self, kind: int, lane: int, limit: int, slots: FreeSlots | None = None) -> Rows:
        """Up to `limit` timers, the longest-waiting ones of whoever is due for the next slots.

        With `slots` no tenant gets more of them than it may hold (`shares`), so fewer may come than wait.
        """
        chunks = self._rings[kind * LANE_COUNT + lane].take(limit, slots)
        return rows_of(chunks) if chunks else empty(TIMER)

    def take_bucket(self, bucket: int) -> Rows:
        """All timers of one bucket, whatever their kind and lane."""
        chunks = [chunk for ring in self._rings for chunk in ring.take_bucket(bucket)]
        return rows_of(chunks) if chunks else empty(TIMER)

    def take_unsorted(self, kind: int, lane: int, limit: int) -> Rows:
        """Up to `limit` timers to look at, of those that nobody has looked at yet."""
        chunks = self._rings[kind * LANE_COUNT + lane].take_unsorted(limit)
        return rows_of(chunks) if chunks else empty(TIMER)

    def push_sorted(self, timers: Rows) -> None:
        """Return timers that were looked at and have to wait here, ahead of the others."""
        if len(timers):
            rings, buckets, _, chunks = _cut(timers, timers["flags"] & _PLACE)
            for ring, bucket, chunk in zip(rings.tolist(), buckets.tolist(), chunks, strict=True):
                self._rings[ring].push_sorted(bucket, chunk)

    def unsort(self) -> None:
        """All timers are to be looked at again."""
        for ring in self._rings:
            ring.unsort()

    def oldest_due_ms(self, kind: int, *, rough: bool = False) -> list[int | None]:
        """Per lane: the earliest due time at the head of a queue; None when nothing waits.

        Roughly: of any of its queues, in no time however many tenants wait.
        """
        return [self._rings[kind * LANE_COUNT + lane].oldest_due_ms(rough=rough) for lane in range(LANE_COUNT)]

    def serves_few(self, now_ms: int) -> bool:
        """Whether a tenant was there just now that waits for little, beside one that waits for much."""
        return any(shares.serves_few(now_ms) for shares in self._shares)

    def set_weight(self, bucket: int, weight: float) -> None:
        """The bucket's share beside that of the others, who have 1 unless told otherwise."""
        weights = self._shares[0].weights.copy()
        weights[bucket] = weight
        self.set_weights(weights)

    def set_weights(self, weights: Floats) -> None:
        """The shares of all buckets."""
        if not (weights > 0).all():
            raise ValueError(f"the weight of a share is above 0, not {weights.min()}")
        for shares in self._shares:
            shares.weights = weights

    def note_ended(self, kind: int, flags: npt.NDArray[np.integer[Any]], took_ms: Ints) -> None:
        """Runs of these flags have held their slots for so long."""
        if not len(flags):
            return
        places = flags & _PLACE
        first = int(places[0])
        if (places == first).all():
            self._shares[_ring_of(first)].note_ended(
                first >> FLAG_BUCKET_SHIFT, len(places), float(took_ms.mean())
            )
            return
        found, which, counts = np.unique(places, return_inverse=True, return_counts=True)
        means = np.bincount(which, took_ms) / counts
        for place, count, mean_ms in zip(found.tolist(), counts.tolist(), means.tolist(), strict=True):
            self._shares[_ring_of(place)].note_ended(place >> FLAG_BUCKET_SHIFT, count, mean_ms)


def kinds_of(timers: Rows) -> npt.NDArray[np.intp]:
    """KIND_WEBHOOK or KIND_HANDLER per TIMER row."""
    kinds: npt.NDArray[np.intp] = (timers["flags"] & FLAG_HANDLER != 0).astype(np.intp)
    return kinds


def _ring_of(place: int) -> int:
    return (KIND_HANDLER if place & FLAG_HANDLER else KIND_WEBHOOK) * LANE_COUNT + (place & FLAG_LANE_MASK)


def _cut(timers: Rows, places: npt.NDArray[np.integer[Any]]) -> tuple[Ints, Ints, Ints, list[Chunk]]:
    """By ring and bucket, rising: the ring, the bucket, how many rows, and those in their order."""
    rings = (places & FLAG_HANDLER != 0).astype(np.uint16) * LANE_COUNT + (places & FLAG_LANE_MASK)
    keys = rings * BUCKET_COUNT + (places >> FLAG_BUCKET_SHIFT)
    order = keys.argsort(kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    ends = np.append(starts[1:], len(keys))
    data, heads = timers.take(order).tobytes(), keys[starts].astype(np.int64)
    cuts = zip((starts * ROW_BYTES).tolist(), (ends * ROW_BYTES).tolist(), strict=True)
    return heads // BUCKET_COUNT, heads % BUCKET_COUNT, ends - starts, [data[a:b] for a, b in cuts]
