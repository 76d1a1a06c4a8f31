"""How many runs are due in each minute that comes, and where they crowd.

Timers that wait are counted as they are. Of a recurring job only the next one waits; those after it are worked out
here from its calendar. Jobs of one calendar are worked out once: a thousand jobs at `0 3 * * *` are one pattern.
"""

from collections.abc import Mapping
from itertools import takewhile
from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.domain.cron import parse_cron
from tickwheel.domain.lanes import LANE_COUNT

MINUTE_MS: Final = 60_000
OCCURRENCES_MAX: Final = 200_000
"""So many occurrences are worked out at most; what is left out makes the forecast partial."""
PEAK_TIMES: Final = 3
PEAK_LEAST: Final = 20
"""A minute is a peak that has this many runs, and this many times as many as its neighbours."""
PEAK_COUNT: Final = 8
QUIET_COUNT: Final = 5
CAUSE_COUNT: Final = 3
_HOUR: Final = 60


class Pattern(NamedTuple):
    """The calendar of recurring jobs, and their lane."""

    cron: str
    timezone: str
    lane: int
    start_ms: int | None = None
    end_ms: int | None = None


class Cause(NamedTuple):
    """A pattern that fires in a crowded minute, and how many jobs it does."""

    pattern: Pattern
    job_count: int


class Peak(NamedTuple):
    """A crowded minute: its number from the start, what is due in it, in a usual minute near it, and why.

    `quiet` are the minutes of the same hour in which the least is due.
    """

    minute: int
    due: int
    usual: int
    causes: list[Cause]
    quiet: list[int]


class Expanded(NamedTuple):
    """What recurring jobs add, by lane and minute. `minutes_of`: where each pattern fires."""

    counts: Ints
    minutes_of: dict[Pattern, Ints]
    is_whole: bool


def count_minutes(due_ms: Ints, lanes: Ints, start_ms: int, minutes: int) -> Ints:
    """Timers by lane and minute."""
    places = (due_ms - start_ms) // MINUTE_MS
    inside = (places >= 0) & (places < minutes)
    counts: Ints = np.bincount(lanes[inside] * minutes + places[inside], minlength=LANE_COUNT * minutes)
    return counts.reshape(LANE_COUNT, minutes)


def expand(patterns: Mapping[Pattern, int], now_ms: int, start_ms: int, minutes: int) -> Expanded:
    """Every occurrence after now of each pattern (with how many jobs it has) before the last minute ends."""
    counts = np.zeros((LANE_COUNT, minutes), dtype=np.int64)
    minutes_of: dict[Pattern, Ints] = {}
    end_ms, left = start_ms + minutes * MINUTE_MS, OCCURRENCES_MAX
    for pattern, job_count in sorted(patterns.items(), key=lambda item: -item[1]):
        if left <= 0:
            return Expanded(counts, minutes_of, is_whole=False)
        due_ms = _due(pattern, now_ms, end_ms)
        left -= len(due_ms)
        places = (due_ms - start_ms) // MINUTE_MS
        np.add.at(counts[pattern.lane], places, job_count)
        minutes_of[pattern] = np.unique(places)
    return Expanded(counts, minutes_of, is_whole=True)


def _due(pattern: Pattern, now_ms: int, end_ms: int) -> Ints:
    after_ms = now_ms if pattern.start_ms is None else max(now_ms, pattern.start_ms - 1)
    until_ms = end_ms if pattern.end_ms is None else min(end_ms, pattern.end_ms)
    schedule = parse_cron(pattern.cron, pattern.timezone)
    due = takewhile(lambda at_ms: at_ms < until_ms, schedule.iter_after(after_ms))
    return np.fromiter(due, dtype=np.int64)


def due_between(pattern: Pattern, from_ms: int, until_ms: int) -> Ints:
    """The occurrences from an instant on, before another."""
    return _due(pattern, from_ms - 1, until_ms)


def usual_of(totals: Ints) -> Ints:
    """For each minute, what is due in a usual one of the hour around it: the median."""
    usual = np.zeros(len(totals), dtype=np.int64)
    half = _HOUR // 2
    if len(totals) > _HOUR:
        around = np.lib.stride_tricks.sliding_window_view(totals, _HOUR)
        usual[half : half + len(around)] = np.median(around, axis=1)
    edges = range(len(totals)) if len(totals) <= _HOUR else (*range(half), *range(len(totals) - half, len(totals)))
    for minute in edges:
        usual[minute] = _usual_at(totals, minute)
    return usual


def _usual_at(totals: Ints, minute: int) -> int:
    half = _HOUR // 2
    return int(np.median(totals[max(0, minute - half) : minute + half]))


def find_crowded(totals: Ints) -> Ints:
    """The numbers of the minutes that are peaks."""
    least = np.maximum(PEAK_LEAST, PEAK_TIMES * np.maximum(1, usual_of(totals)))
    return np.flatnonzero(totals >= least)


def find_peaks(
    totals: Ints, crowded: Ints, patterns: Mapping[Pattern, int], minutes_of: Mapping[Pattern, Ints]
) -> list[Peak]:
    """The most crowded of these minutes, the soonest first, with their causes."""
    most = crowded[np.argsort(-totals[crowded], kind="stable")][:PEAK_COUNT]
    return [
        Peak(
            minute,
            int(totals[minute]),
            _usual_at(totals, minute),
            _causes(minute, patterns, minutes_of),
            _quiet(totals, minute),
        )
        for minute in sorted(most.tolist())
    ]


def _causes(minute: int, patterns: Mapping[Pattern, int], minutes_of: Mapping[Pattern, Ints]) -> list[Cause]:
    causes = [Cause(one, patterns[one]) for one, places in minutes_of.items() if minute in places]
    return sorted(causes, key=lambda cause: -cause.job_count)[:CAUSE_COUNT]


def _quiet(totals: Ints, minute: int) -> list[int]:
    first = minute - _HOUR // 2
    near = range(max(0, first), min(len(totals), first + _HOUR))
    return sorted(sorted(near, key=lambda place: (int(totals[place]), abs(place - minute)))[:QUIET_COUNT])
