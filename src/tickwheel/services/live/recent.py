"""What was started and ended in the last minute, second by second.

An event sink over columns: a batch costs a few numpy calls, whatever its length. Latenesses are kept as counts by
bounds that grow by a quarter each, so a percentile is right to within that; the greatest is kept as it is.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.domain.vitals import SECOND_COUNT, LaneVitals
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import AttemptsEnded, AttemptsStarted, Event

_SLOT_COUNT: Final = SECOND_COUNT + 1  # the second that is under way, besides

_BOUNDS_MS: Final = np.unique((1.25 ** np.arange(64)).astype(np.int64))  # to about 20 minutes
_BUCKET_COUNT: Final = len(_BOUNDS_MS) + 1
_SUCCEEDED, _FAILED, _DEAD = range(3)
_GOOD: Final = (OutcomeClass.SUCCESS, OutcomeClass.SNOOZE)
_NEITHER: Final = (OutcomeClass.CANCELLED, OutcomeClass.UNSTARTED)
_END_OF: Final = np.array(
    [-1 if one in _NEITHER else _SUCCEEDED if one in _GOOD else _FAILED for one in OutcomeClass], dtype=np.int64
)


class Recent:
    """An `EventSink` that remembers a minute."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._second = clock.monotonic_ms() // 1000
        self._lateness = np.zeros((_SLOT_COUNT, LANE_COUNT * _BUCKET_COUNT), dtype=np.int64)
        self._greatest_ms = np.zeros((_SLOT_COUNT, LANE_COUNT), dtype=np.int64)
        self._ends = np.zeros((_SLOT_COUNT, 3), dtype=np.int64)

    def emit(self, event: Event) -> None:
        match event:
            case AttemptsStarted():
                self._note_starts(event.lateness_ms, event.lane)
            case AttemptsEnded():
                self._note_ends(event.rows["outcome"], event.rows["state"][event.applied])

    def _note_starts(self, lateness_ms: Ints, lane: Ints) -> None:
        slot = self._turn()
        places = lane * _BUCKET_COUNT + _BOUNDS_MS.searchsorted(lateness_ms)
        self._lateness[slot] += np.bincount(places, minlength=LANE_COUNT * _BUCKET_COUNT)
        np.maximum.at(self._greatest_ms[slot], lane, lateness_ms)

    def _note_ends(self, outcomes: Ints, states: Ints) -> None:
        ends, slot = _END_OF[outcomes], self._turn()
        self._ends[slot, :2] += np.bincount(ends[ends >= 0], minlength=2)
        self._ends[slot, _DEAD] += np.count_nonzero(states == RunState.FAILED)

    def lanes(self, backlog: Sequence[int], oldest_due_ms: Sequence[int]) -> tuple[LaneVitals, ...]:
        """The last minute by lane, beside what waits there now."""
        self._turn()
        counts = self._lateness.sum(axis=0).reshape(LANE_COUNT, _BUCKET_COUNT)
        greatest_ms = self._greatest_ms.max(axis=0)
        lanes = []
        for lane in range(LANE_COUNT):
            highest_ms = int(greatest_ms[lane])
            p50_ms, p99_ms = (min(_percentile_ms(counts[lane], share), highest_ms) for share in (50, 99))
            started = int(counts[lane].sum())
            lanes.append(LaneVitals(started, p50_ms, p99_ms, highest_ms, backlog[lane], oldest_due_ms[lane]))
        return tuple(lanes)

    def ends(self) -> tuple[int, int, int]:
        """Attempts that succeeded, attempts that failed, and runs that failed for good."""
        self._turn()
        succeeded, failed, dead = self._ends.sum(axis=0).tolist()
        return succeeded, failed, dead

    def by_second(self) -> tuple[list[int], list[int]]:
        """Starts and failed attempts in each of the last `SECOND_COUNT` whole seconds, the oldest first."""
        self._turn()
        slots = [second % _SLOT_COUNT for second in range(self._second - SECOND_COUNT, self._second)]
        return self._lateness[slots].sum(axis=1).tolist(), self._ends[slots, _FAILED].tolist()

    def _turn(self) -> int:
        second = self.clock.monotonic_ms() // 1000
        for new in range(max(self._second + 1, second - _SLOT_COUNT + 1), second + 1):
            self._lateness[new % _SLOT_COUNT] = 0
            self._greatest_ms[new % _SLOT_COUNT] = 0
            self._ends[new % _SLOT_COUNT] = 0
        self._second = second
        return second % _SLOT_COUNT


def _percentile_ms(counts: Ints, share: int) -> int:
    total = int(counts.sum())
    if not total:
        return 0
    place = int(np.searchsorted(np.cumsum(counts), -(-total * share // 100)))
    return int(_BOUNDS_MS[min(place, len(_BOUNDS_MS) - 1)])
