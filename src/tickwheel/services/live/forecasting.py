"""The load that comes: reads the timers of the next hours, and works out what recurring jobs will add.

It reads as much as the firing side reads in a slice, so it is done on demand, for all that ask at a time together,
and not again for a while. What is known of a recurring job is kept by its version.
"""

import asyncio
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from tickwheel.domain.columns import FLAG_LANE_MASK, FLAG_RECURRING, TIMER, Ints, Rows, empty
from tickwheel.domain.forecast import (
    MINUTE_MS,
    Pattern,
    Peak,
    count_minutes,
    due_between,
    expand,
    find_crowded,
    find_peaks,
)
from tickwheel.domain.job import JobState, Spec
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Store, WorkDefinition
from tickwheel.services.plans import read_spec

MINUTES_MAX: Final = 24 * 60
FRESH_MS: Final = 30_000
PAGE_TIMERS: Final = 20_000
TIMERS_MAX: Final = 2_000_000
"""Timers that are counted at most."""
RECURRING_MAX: Final = 50_000
"""Recurring jobs whose later occurrences are worked out at most."""
_WORK_COUNT: Final = 500
_SPARE_COUNT: Final = 20
_Row: TypeAlias = tuple[int, int, bytes, int, bool]
"""As `DueJob`, without the work."""


class Forecast(msgspec.Struct, frozen=True):
    """Counts by lane and minute from `start_ms` on, and which minutes are crowded; of the most crowded ones, why.

    `is_whole` false: there is more than could be counted.
    """

    start_ms: int
    counts: Ints
    crowded: Ints
    peaks: list[Peak]
    is_whole: bool


class DueJob(NamedTuple):
    """A job with something due in a minute: first when, and how many runs."""

    due_ms: int
    run_count: int
    job_id: bytes
    lane: int
    recurring: bool
    work: WorkDefinition


class DueJobs(NamedTuple):
    """Those of one minute, the first to be due first. `is_whole` false: there are more."""

    jobs: list[DueJob]
    is_whole: bool


class _Known(msgspec.Struct, frozen=True):
    """All that was worked out at a time."""

    start_ms: int
    now_ms: int
    counts: Ints
    crowded: Ints
    is_whole: bool
    jobs_of: dict[Pattern, list[bytes]]
    minutes_of: dict[Pattern, Ints]


class Forecasting:
    """Gives the latest forecast, made anew when it is old."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._latest: _Known | None = None
        self._made_ms = 0
        self._turn = asyncio.Lock()
        self._patterns: dict[tuple[bytes, int], Pattern] = {}
        self._peaks: dict[int, list[Peak]] = {}

    async def look(self, minutes: int = MINUTES_MAX) -> Forecast:
        """Of the next so many minutes. Raises `StoreUnavailable`."""
        async with self._turn:
            known = await self._fresh()
            crowded = known.crowded[known.crowded < minutes]
            if minutes not in self._peaks:
                counts = {pattern: len(jobs) for pattern, jobs in known.jobs_of.items()}
                totals = known.counts.sum(axis=0)
                found = await asyncio.to_thread(find_peaks, totals, crowded, counts, known.minutes_of)
                self._peaks[minutes] = found
            return Forecast(
                known.start_ms, known.counts[:, :minutes], crowded, self._peaks[minutes], known.is_whole
            )

    async def due_in(self, at_ms: int, limit: int) -> DueJobs:
        """Which jobs have something due in the minute of this instant, `limit` at most; empty beyond the forecast.

        Recurring jobs count in each minute that they fire in, not only in that of their next run.
        """
        async with self._turn:
            known = await self._fresh()
        minute = (at_ms - known.start_ms) // MINUTE_MS
        if not 0 <= minute < MINUTES_MAX:
            return DueJobs([], is_whole=True)
        from_ms = known.start_ms + minute * MINUTE_MS
        most = 2 * limit + _SPARE_COUNT  # some may be paused by now
        timers = await self._store.load_timers(max(from_ms, known.now_ms), from_ms + MINUTE_MS, PAGE_TIMERS)
        found, is_whole = await asyncio.to_thread(_due, known, from_ms, most, timers)
        works = await self._store.load_work([job_id for _, _, job_id, _, _ in found[:most]])
        jobs = [
            DueJob(*row, work)
            for row, work in zip(found, works, strict=False)
            if work is not None and work.state is JobState.ACTIVE
        ]
        is_whole = is_whole and len(found) <= most and len(jobs) <= limit and len(timers) < PAGE_TIMERS
        return DueJobs(jobs[:limit], is_whole)

    async def _fresh(self) -> _Known:
        if self._latest is None or self._clock.monotonic_ms() - self._made_ms >= FRESH_MS:
            self._latest = await self._make()
            self._made_ms = self._clock.monotonic_ms()
            self._peaks.clear()
        return self._latest

    async def _make(self) -> _Known:
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
        known = rows[:RECURRING_MAX]
        jobs_of = await self._jobs_of(known)
        patterns = {pattern: len(jobs) for pattern, jobs in jobs_of.items()}
        expanded = await asyncio.to_thread(expand, patterns, now_ms, start_ms, MINUTES_MAX)
        counts += expanded.counts
        counts -= count_minutes(known["due_ms"], known["flags"] & FLAG_LANE_MASK, start_ms, MINUTES_MAX)
        is_whole = is_whole and expanded.is_whole and len(rows) <= RECURRING_MAX
        counts = np.maximum(counts, 0)
        crowded = await asyncio.to_thread(find_crowded, counts.sum(axis=0))
        return _Known(start_ms, now_ms, counts, crowded, is_whole, jobs_of, expanded.minutes_of)

    async def _jobs_of(self, timers: Rows) -> dict[Pattern, list[bytes]]:
        """The jobs of each calendar among these timers' jobs."""
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
        jobs_of: dict[Pattern, list[bytes]] = {}
        for (job_id, _), pattern in known.items():
            jobs_of.setdefault(pattern, []).append(job_id)
        return jobs_of


def _due(known: _Known, from_ms: int, most: int, timers: Rows) -> tuple[list[_Row], bool]:
    """What has something due in the minute, the first first; and whether recurring jobs are all in it."""
    found, is_whole = _firing(known, from_ms, most)
    planned = {job_id for jobs in known.jobs_of.values() for job_id in jobs}
    columns = (timers[name].tolist() for name in ("due_ms", "job_id", "flags", "gen"))
    for due_ms, job_id, flags, gen in zip(*columns, strict=True):
        recurs = bool(flags & FLAG_RECURRING) and gen > 0
        if not (recurs and job_id in planned):
            found.append((due_ms, 1, job_id, flags & FLAG_LANE_MASK, recurs))
    found.sort()
    return found, is_whole


def _firing(known: _Known, from_ms: int, most: int) -> tuple[list[_Row], bool]:
    """Recurring jobs with an occurrence in the minute, and whether these are all."""
    minute = (from_ms - known.start_ms) // MINUTE_MS
    found: list[_Row] = []
    for pattern, places in known.minutes_of.items():
        if minute not in places:
            continue
        due_ms = due_between(pattern, max(from_ms, known.now_ms + 1), from_ms + MINUTE_MS)
        for job_id in known.jobs_of[pattern] if len(due_ms) else ():
            if len(found) >= most:
                return found, False
            found.append((int(due_ms[0]), len(due_ms), job_id, pattern.lane, True))
    return found, True


def _readable(spec: bytes) -> Spec | None:
    """None for what another version wrote, or what was damaged: it is forecast as little as it is planned."""
    try:
        return read_spec(spec)
    except ValueError:  # msgspec's and Unicode's errors are both
        return None
