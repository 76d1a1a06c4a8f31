"""Timers that are due and wait for a free slot: one ring per executor kind and lane, unleased.

Backlog waits here and only here: nothing is claimed before a slot is free for it, so overload shows as a growing
ring and never as lost or expired work. Chunks of TIMER rows are queued as they come, so pushing and taking cost
nothing per row.
"""

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import FLAG_HANDLER, FLAG_LANE_MASK, TIMER, Rows, empty
from tickwheel.domain.lanes import LANE_COUNT

KIND_WEBHOOK: Final = 0
KIND_HANDLER: Final = 1
KIND_COUNT: Final = 2


class ReadyRing:
    """FIFO of due timers per (kind, lane)."""

    def __init__(self) -> None:
        self._chunks: list[deque[Rows]] = [deque() for _ in range(KIND_COUNT * LANE_COUNT)]
        self._counts = [0] * (KIND_COUNT * LANE_COUNT)

    def __len__(self) -> int:
        return sum(self._counts)

    def count(self, kind: int, lane: int) -> int:
        """Timers waiting for slots of this kind and lane."""
        return self._counts[kind * LANE_COUNT + lane]

    def rows(self) -> Rows:
        """All that wait, as TIMER rows in no order. O(rows)."""
        chunks = [chunk for ring in self._chunks for chunk in ring]
        return np.concatenate(chunks) if chunks else empty(TIMER)

    def lowest_due_ms(self) -> int | None:
        """The earliest due time of all that wait; None when nothing does. O(rows), some nanoseconds each."""
        return min((int(chunk["due_ms"].min()) for ring in self._chunks for chunk in ring), default=None)

    def push(self, timers: Rows) -> None:
        """Queue TIMER rows, in due order among those pushed together."""
        if not len(timers):
            return
        rings = _ring_numbers(timers)
        present = np.bincount(rings, minlength=KIND_COUNT * LANE_COUNT)
        for ring in np.flatnonzero(present):
            chunk = timers if present[ring] == len(timers) else timers[rings == ring]
            self._chunks[ring].append(chunk)
            self._counts[ring] += len(chunk)

    def push_back(self, timers: Rows) -> None:
        """Return timers that were taken but not claimed to the head of their rings."""
        rings = _ring_numbers(timers)
        for ring in np.unique(rings):
            chunk = timers[rings == ring]
            self._chunks[ring].appendleft(chunk)
            self._counts[ring] += len(chunk)

    def take(self, kind: int, lane: int, limit: int) -> Rows:
        """Up to `limit` of the longest-waiting timers."""
        ring = kind * LANE_COUNT + lane
        chunks, taken, left = self._chunks[ring], [], limit
        while chunks and left > 0:
            chunk = chunks.popleft()
            if len(chunk) > left:
                chunks.appendleft(chunk[left:])
                chunk = chunk[:left]
            taken.append(chunk)
            left -= len(chunk)
        self._counts[ring] -= limit - left
        if len(taken) == 1:
            return taken[0]
        return np.concatenate(taken) if taken else empty(TIMER)

    def oldest_due_ms(self, kind: int) -> list[int | None]:
        """Per lane: the due time at the head of the ring; None when it is empty."""
        heads = [self._chunks[kind * LANE_COUNT + lane] for lane in range(LANE_COUNT)]
        return [int(chunks[0]["due_ms"][0]) if chunks else None for chunks in heads]


def kinds_of(timers: Rows) -> npt.NDArray[np.intp]:
    """KIND_WEBHOOK or KIND_HANDLER per TIMER row."""
    kinds: npt.NDArray[np.intp] = (timers["flags"] & FLAG_HANDLER != 0).astype(np.intp)
    return kinds


def _ring_numbers(timers: Rows) -> npt.NDArray[np.intp]:
    lanes = (timers["flags"] & FLAG_LANE_MASK).astype(np.intp)
    return kinds_of(timers) * LANE_COUNT + lanes
