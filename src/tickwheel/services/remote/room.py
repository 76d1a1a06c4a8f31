"""What a worker may take now: free slots by lane, and a little more where runs are short."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

from tickwheel.domain.lanes import LANE_COUNT, LaneSlots

PREFETCH_WITHIN_MS: Final = 250
"""Of itself a worker takes ahead what it will begin within this time, and nothing of what takes longer."""
SAMPLES: Final = 100


class Room:
    """A copy of the slots to count down on (`ports.remote_work.Room`). `ahead` may be taken without a slot."""

    def __init__(self, slots: LaneSlots, ahead: int, limit: int | None = None) -> None:
        self._slots = LaneSlots(slots.capacity)
        self._slots.used = list(slots.used)
        self._ahead = ahead
        free = max(0, slots.capacity - sum(slots.used)) + ahead
        self.total = free if limit is None else min(limit, free)

    @property
    def busy(self) -> Sequence[int]:
        """Slots in use, by lane."""
        return list(self._slots.used)

    @property
    def lanes(self) -> Sequence[int]:
        """`free` of each lane."""
        return [self.free(lane) for lane in range(LANE_COUNT)]

    def free(self, lane: int) -> int:
        return max(0, min(self.total, self._slots.free(lane) + self._ahead))

    def take(self, lane: int, count: int) -> None:
        with_slot = min(count, self._slots.free(lane))
        self._slots.take(lane, with_slot)
        self._ahead -= count - with_slot
        self.total -= count


class Prefetch:
    """How many runs to take beyond the free slots: as told, or by how long runs take here."""

    def __init__(self, setting: int | None) -> None:
        self._setting = setting
        self._lengths_ms: list[int] = []
        self._next = 0

    def note(self, run_ms: int) -> None:
        """An attempt took so long."""
        if len(self._lengths_ms) < SAMPLES:
            self._lengths_ms.append(run_ms)
        else:
            self._lengths_ms[self._next] = run_ms
            self._next = (self._next + 1) % SAMPLES

    @property
    def mean_ms(self) -> int:
        """How long the latest attempts took, on average; 0 without any."""
        return max(1, round(fmean(self._lengths_ms))) if self._lengths_ms else 0

    def count(self, concurrency: int) -> int:
        """For that many slots."""
        if self._setting is not None:
            return self._setting
        if len(self._lengths_ms) < SAMPLES // 10:
            return 0
        typical_ms = max(1.0, median(self._lengths_ms))
        return (
            min(concurrency, int(concurrency * PREFETCH_WITHIN_MS / typical_ms))
            if typical_ms < PREFETCH_WITHIN_MS
            else 0
        )
