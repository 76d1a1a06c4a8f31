"""Slots of one executor, shared between the four lanes.

Of `capacity` slots, CRITICAL and HIGH have 12 % reserved each and LOW 4 %, at least one each; the rest is shared,
highest lane first. A reserved slot is lent upwards only (CRITICAL may use HIGH's), and LOW's is not lent at all,
so LOW always moves and a slot reserved for a lane never runs a lower one.

Example, 100 slots: 12 for CRITICAL, 12 for HIGH, 4 for LOW, 72 shared. A flood of LOW takes 76; then HIGH still
finds 12 free and CRITICAL 24.

With fewer than four slots there is nothing to reserve: all are shared, highest lane first, but a lane whose oldest
run has waited longer than `AGING_MS` goes ahead of the others.
"""

from collections.abc import Sequence
from typing import Final

from tickwheel.domain.job import Lane

LANE_COUNT: Final = len(Lane)
CRITICAL_SHARE: Final = 0.12
HIGH_SHARE: Final = 0.12
LOW_SHARE: Final = 0.04
SMALLEST_RESERVING: Final = 4
AGING_MS: Final = 10_000


class LaneSlots:
    """Counts who holds what; the caller asks `free`, then `take`, and gives back with `release`."""

    def __init__(self, capacity: int) -> None:
        self.used = [0] * LANE_COUNT
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        """Change the number of slots; those in use stay, even if they are more than there are now."""
        if capacity < 1:
            raise ValueError("an executor needs at least one slot")
        self.capacity = capacity
        reserving = capacity >= SMALLEST_RESERVING
        self._critical = max(1, int(capacity * CRITICAL_SHARE)) if reserving else 0
        self._high = max(1, int(capacity * HIGH_SHARE)) if reserving else 0
        self._low = max(1, int(capacity * LOW_SHARE)) if reserving else 0
        self._shared = capacity - self._critical - self._high - self._low

    @property
    def reserving(self) -> bool:
        """Whether there are enough slots to reserve any."""
        return self.capacity >= SMALLEST_RESERVING

    def free(self, lane: int) -> int:
        """How many more runs of `lane` may start now."""
        kept, shared_left = self._left()
        return max(0, kept[lane] + shared_left)

    def kept(self, lane: int) -> int:
        """How many of those slots are reserved ones."""
        kept, shared_left = self._left()
        return max(0, kept[lane] + min(0, shared_left))

    def _left(self) -> tuple[tuple[int, int, int, int], int]:
        critical, high, default, low = self.used
        critical_over = max(0, critical - self._critical)
        high_left = max(0, self._high - high - critical_over)
        high_over = max(0, high + critical_over - self._high)
        low_over = max(0, low - self._low)
        shared_left = self._shared - high_over - default - low_over
        kept = (
            max(0, self._critical - critical) + high_left,
            high_left,
            0,
            max(0, self._low - low),
        )
        return kept, shared_left

    def take(self, lane: int, count: int) -> None:
        """Hold `count` more slots for `lane`; the caller has asked `free` before."""
        self.used[lane] += count

    def release(self, lane: int, count: int) -> None:
        """Give `count` slots of `lane` back."""
        self.used[lane] -= count
        if self.used[lane] < 0:
            raise ValueError(f"lane {lane} gave back more slots than it held")

    def order(self, oldest_due_ms: Sequence[int | None], now_ms: int) -> list[int]:
        """Lanes with work, in the order in which they may take slots. `oldest_due_ms[lane]` is None when empty."""
        lanes = [lane for lane in range(LANE_COUNT) if oldest_due_ms[lane] is not None]
        if self.reserving:
            return lanes

        def aged_first(lane: int) -> tuple[int, int]:
            due_ms = oldest_due_ms[lane]
            aged = due_ms is not None and now_ms - due_ms > AGING_MS
            return (0, due_ms or 0) if aged else (1, lane)

        return sorted(lanes, key=aged_first)
