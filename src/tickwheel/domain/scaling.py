"""How many workers a load needs.

Work keeps `arrivals per second x mean run time` slots busy (Little's law). What waits already is worth
`backlog x mean run time` of slot time, and is to be gone after the drain time, which takes that divided by the
drain time in slots besides. Example: 20 runs a second of 300 ms each keep 6 slots busy; 4,000 that wait, to be
gone within 60 s, need another 20; with 8 slots per worker, 26 slots are 4 workers.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tickwheel.domain.lanes import LANE_COUNT

MEAN_RUN_MS_DEFAULT: Final = 1_000
"""As long as nobody knows better."""
SLOTS_PER_WORKER_DEFAULT: Final = 10
DRAIN_SECONDS_DEFAULT: Final = 60
DRAIN_SECONDS_MAX: Final = 86_400
_ROUNDING: Final = 1e-9  # 26.000000000001 slots are 26


class LaneLoad(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one owner has for workers elsewhere in one lane. Travels in beats, so it is short."""

    backlog: int = 0
    arrivals_per_kilosecond: int = 0
    oldest_due_ms: int = 0  # instant by the store's clock; 0 = nothing waits


def sum_loads(loads: Iterable[Sequence[LaneLoad]]) -> Sequence[LaneLoad]:
    """By lane, of all owners."""
    backlog, arrivals, oldest = [0] * LANE_COUNT, [0] * LANE_COUNT, [0] * LANE_COUNT
    for one in loads:
        for lane, load in enumerate(one[:LANE_COUNT]):
            backlog[lane] += load.backlog
            arrivals[lane] += load.arrivals_per_kilosecond
            known = [due_ms for due_ms in (oldest[lane], load.oldest_due_ms) if due_ms]
            oldest[lane] = min(known, default=0)
    return [LaneLoad(*of_lane) for of_lane in zip(backlog, arrivals, oldest, strict=True)]


def needed_slots(load: LaneLoad, mean_run_ms: float, drain_seconds: float) -> float:
    """Slots that keep up with what arrives and get rid of what waits."""
    return (load.arrivals_per_kilosecond / 1000 + load.backlog / drain_seconds) * mean_run_ms / 1000


def needed_workers(slots: float, slots_per_worker: float) -> int:
    """Whole workers; none for no load at all, else at least one."""
    return math.ceil(slots / slots_per_worker - _ROUNDING) if slots > 0 else 0
