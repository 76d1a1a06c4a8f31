"""What a run of each tenant's bucket costs, how much its share weighs, and how many slots it may hold.

The cost is the time for which a run holds its slot, learned per bucket: an average that forgets, so one tenant's
ten-second runs count a hundred times its neighbour's of a tenth. A bucket of which nothing is known yet costs what
runs cost on the average.

A run can't be taken back from its slot. So while more than one bucket is about, none may hold more than
`THRESHOLD` times as many slots as are free, by its weight: a tenant whose runs hang comes to 8/9 of the slots of
its lane, two such tenants to 8/17 each, and some are always left for whoever comes next. A bucket that is alone
has all slots, and one that holds none may have one when its turn comes, however little it weighs.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import Bools, Ints
from tickwheel.domain.tenants import BUCKET_COUNT

Floats = npt.NDArray[np.float64]

THRESHOLD: Final = 8
COMPANY_MS: Final = 60_000
"""For so long after two buckets were seen, slots are kept free for whoever was there."""
FEW_MS: Final = 1_000
FORGETTING: Final = 1 / 16
"""How much one run counts in its bucket's average."""
_ROUNDS: Final = 3
LEAST_COST_MS: Final = 1.0
EVEN: Final = np.ones(BUCKET_COUNT)
"""Shared by all who weigh everybody alike: there may be thousands of rings."""
EVEN.setflags(write=False)


class FreeSlots(NamedTuple):
    """What the slots of one lane say when timers are taken for them."""

    free: int
    now_ms: int
    held: Callable[[], Ints]
    """How many slots of the lane each bucket holds; asked only where it matters."""


class Shares:
    """The buckets of one lane of one executor kind. `weights` by bucket; whoever made this may replace them."""

    def __init__(self) -> None:
        self.weights: Floats = EVEN
        self._cost_ms: Floats | None = None
        self._typical_ms = LEAST_COST_MS
        self._seen = -1
        self._company_until_ms = 0
        self._few_until_ms = 0

    def units(self, buckets: Ints) -> Floats:
        """What one run of each bucket counts: its cost by its weight."""
        if self._cost_ms is None:
            return 1.0 / self.weights[buckets]
        costs = self._cost_ms[buckets]
        return np.where(costs > 0, costs, self._typical_ms) / self.weights[buckets]

    def note_ended(self, bucket: int, count: int, mean_ms: float) -> None:
        """So many runs of the bucket have held their slots for so long, on the average."""
        if self._cost_ms is None:
            self._cost_ms = np.zeros(BUCKET_COUNT)
        mean_ms, known = max(LEAST_COST_MS, mean_ms), float(self._cost_ms[bucket])
        step = 1 - (1 - FORGETTING) ** count
        self._cost_ms[bucket] = known + step * (mean_ms - known) if known else mean_ms
        self._typical_ms += step * (mean_ms - self._typical_ms)

    def note_few(self, now_ms: int) -> None:
        """All that a bucket had was taken, and others still wait: a light tenant beside a heavy one."""
        self._few_until_ms = now_ms + FEW_MS

    def serves_few(self, now_ms: int) -> bool:
        """Whether that was so just now."""
        return now_ms < self._few_until_ms

    def grant(
        self, buckets: Ints, starts: Floats, wanted: Ints, limit: int, slots: FreeSlots | None
    ) -> tuple[Ints, Bools]:
        """How many of `limit` slots each of the waiting buckets gets, which stand at their starts.

        And which of them may have any now.
        """
        units = self.units(buckets)
        if slots is None or self._alone(buckets, slots.now_ms):
            return share_out(starts, units, wanted, limit), np.ones(len(buckets), dtype=np.bool_)
        held, times = slots.held()[buckets], THRESHOLD * self.weights[buckets]
        first = ((held == 0) & (starts <= starts.min()) & (slots.free > 0)).astype(np.int64)
        # After taking x: held + x <= times * (free - x), rounded up, so that a single slot is taken too.
        most = np.maximum(np.floor((times * (slots.free + 1) - held) / (times + 1)), first)
        room = np.clip(most, 0, wanted).astype(np.int64)
        able: Bools = room > 0
        for _ in range(_ROUNDS):
            granted = share_out(starts, units, room, limit)
            over = held + granted - times * (slots.free - int(granted.sum()) + 1)
            over[granted <= first] = 0
            if float(over.max()) <= 0:
                break
            # Others take as well: each of those that come to hold too much gives up what it would have to alone.
            fewer = np.maximum(first, granted - np.ceil(over / (times + 1))).astype(np.int64)
            room = np.where(over > 0, fewer, room)
        return granted, able

    def _alone(self, buckets: Ints, now_ms: int) -> bool:
        """Whether no other bucket was seen lately."""
        if len(buckets) > 1 or int(buckets[0]) != self._seen:
            first = self._seen < 0 and len(buckets) == 1
            self._seen = int(buckets[-1])
            if not first:
                self._company_until_ms = now_ms + COMPANY_MS
        return now_ms >= self._company_until_ms


def share_out(starts: Floats, units: Floats, room: Ints, count: int) -> Ints:
    """How many of `count` slots go to each bucket, in the order of virtual time.

    A bucket stands at its start, and moves by its unit with each slot; whoever is furthest behind is served, up to
    its room.
    """
    if int(room.sum()) <= count:
        return room
    shared = np.zeros(len(starts), dtype=np.int64)
    if not room.all():
        able = room.nonzero()[0]
        shared[able] = share_out(starts[able], units[able], room[able], count)
        return shared
    if len(starts) <= count:
        return _fill(starts, units, room, count)
    # Not all can be served: those that stand furthest ahead wait.
    behind = starts.argpartition(count)[:count]
    some = starts[behind]
    if float((some + units[behind]).min()) >= float(some.max()):
        shared[behind] = 1
    else:
        shared[behind] = _fill(some, units[behind], room[behind], count)
    return shared


def _fill(starts: Floats, units: Floats, room: Ints, count: int) -> Ints:
    """The level to which `count` fills all of them is found at once; what rounding leaves goes one by one."""
    if int(room.sum()) <= count:
        return room
    points = np.concatenate((starts, starts + room * units))
    slopes = np.concatenate((1 / units, -1 / units))
    order = points.argsort()
    points = points[order]
    speed = slopes[order].cumsum()
    filled = np.zeros(len(points))
    np.cumsum(speed[:-1] * np.diff(points), out=filled[1:])
    at = int(filled.searchsorted(count, side="right")) - 1
    level = points[at] + (count - filled[at]) / max(speed[at], 1e-9)
    shared: Ints = np.clip(np.floor((level - starts) / units), 0, room).astype(np.int64)
    left = count - int(shared.sum())
    while left > 0:
        tags = np.where(shared < room, starts + shared * units, np.inf)
        nearest = tags.argsort()[:left]
        shared[nearest] += shared[nearest] < room[nearest]
        left = count - int(shared.sum())
    while left < 0:  # a level that floating-point numbers put a hair too high
        furthest = int(np.where(shared > 0, starts + shared * units, -np.inf).argmax())
        shared[furthest] -= 1
        left += 1
    return shared
