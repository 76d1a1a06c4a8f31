"""The load that comes: reads the timers of the next hours, and works out what recurring jobs will add.

It reads as much as the firing side reads in a slice, so it is done on demand, for all that ask at a time together,
and not again for a while. What is known of a recurring job is kept by its version.
"""

import asyncio
from collections import Counter
from typing import Final

import msgspec
import numpy as np

from tickwheel.domain.columns import FLAG_LANE_MASK, FLAG_RECURRING, TIMER, Ints, Rows, empty
from tickwheel.domain.forecast import MINUTE_MS, Pattern, Peak, count_minutes, expand, find_peaks
from tickwheel.domain.job import Spec
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Store
from tickwheel.services.plans import read_spec

MINUTES_MAX: Final = 24 * 60
FRESH_MS: Final = 30_000
PAGE_TIMERS: Final = 20_000
TIMERS_MAX: Final = 2_000_000
"""Timers that are counted at most."""
RECURRING_MAX: Final = 50_000
"""Recurring jobs whose later occurrences are worked out at most."""
_WORK_COUNT: Final = 500


class Forecast(msgspec.Struct, frozen=True):
    """Counts by lane and minute from `start_ms` on. `is_whole` false: there is more than could be counted."""

    start_ms: int
    counts: Ints
    peaks: list[Peak]
    is_whole: bool


class Forecasting:
    """Gives the latest forecast, made anew when it is old."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._latest: Forecast | None = None
        self._made_ms = 0
        self._turn = asyncio.Lock()
        self._patterns: dict[tuple[bytes, int], Pattern] = {}

    async def look(self) -> Forecast:
        """Of the next `MINUTES_MAX` minutes. Raises `StoreUnavailable`."""
        async with self._turn:
            if self._latest is None or self._clock.monotonic_ms() - self._made_ms >= FRESH_MS:
                self._latest = await self._make()
                self._made_ms = self._clock.monotonic_ms()
            return self._latest

    async def _make(self) -> Forecast:
        now_ms = self._clock.now_ms()
        start_ms = now_ms - now_ms % MINUTE_MS
        counts = np.zeros((LANE_COUNT, MINUTES_MAX), dtype=np.int64)
        recurring: list[Rows] = []
        at_ms, end_ms, left = now_ms, start_ms + MINUTES_MAX * MINUTE_MS, TIMERS_MAX
        while at_ms < end_ms and left > 0:
            page = await self._store.load_timers(at_ms, end_ms, PAGE_TIMERS)
            # Pages end at whole instants, and an instant's timers may be in no order.
            again = (page["flags"] & FLAG_RECURRING != 0) & (page["gen"] > 0)
            counts += count_minutes(page["due_ms"], page["flags"] & FLAG_LANE_MASK, start_ms, MINUTES_MAX)
            recurring.append(page[again])
            left -= len(page)
            if len(page) < PAGE_TIMERS:
                break
            at_ms = int(page["due_ms"].max()) + 1
        is_whole = left > 0
        rows = np.concatenate(recurring) if recurring else empty(TIMER)
        if len(rows):
            patterns = await self._patterns_of(rows[:RECURRING_MAX])
            expanded = await asyncio.to_thread(expand, patterns, now_ms, start_ms, MINUTES_MAX)
            known = rows[:RECURRING_MAX]
            counts += expanded.counts
            counts -= count_minutes(known["due_ms"], known["flags"] & FLAG_LANE_MASK, start_ms, MINUTES_MAX)
            is_whole = is_whole and expanded.is_whole and len(rows) <= RECURRING_MAX
            peaks = find_peaks(counts.sum(axis=0), patterns, expanded.minutes_of)
        else:
            peaks = find_peaks(counts.sum(axis=0), {}, {})
        return Forecast(start_ms, np.maximum(counts, 0), peaks, is_whole)

    async def _patterns_of(self, timers: Rows) -> Counter[Pattern]:
        """How many jobs of each calendar there are among these timers' jobs."""
        keys = list(zip(timers["job_id"].tolist(), timers["gen"].tolist(), strict=True))
        known = {key: self._patterns[key] for key in keys if key in self._patterns}
        unknown = [place for place, key in enumerate(keys) if key not in known]
        for first in range(0, len(unknown), _WORK_COUNT):
            places = unknown[first : first + _WORK_COUNT]
            works = await self._store.load_work([keys[place][0] for place in places])
            for place, work in zip(places, works, strict=True):
                spec = None if work is None else _readable(work.spec)
                if spec is not None:
                    lane = int(timers["flags"][place]) & FLAG_LANE_MASK
                    known[keys[place]] = Pattern(spec.cron, spec.timezone, lane, spec.start_ms, spec.end_ms)
        self._patterns = known
        return Counter(known.values())


def _readable(spec: bytes) -> Spec | None:
    """None for what another version wrote, or what was damaged: it is forecast as little as it is planned."""
    try:
        return read_spec(spec)
    except ValueError:  # msgspec's and Unicode's errors are both
        return None
