"""The minutes that come, and where they crowd."""

import numpy as np
import pytest

from tickwheel.domain import forecast
from tickwheel.domain.forecast import (
    PEAK_LEAST,
    Cause,
    Pattern,
    count_minutes,
    expand,
    find_crowded,
    find_peaks,
    usual_of,
)
from tickwheel.domain.job import Lane
from tickwheel.domain.requests.instants import parse_instant

NOON_MS = parse_instant("2026-06-01T12:00:00Z")
MINUTE_MS = 60_000
HOURLY = Pattern("0 * * * *", "UTC", Lane.DEFAULT)
EVERY_MINUTE = Pattern("* * * * *", "UTC", Lane.LOW)


def test_timers_fall_into_their_minute_and_lane() -> None:
    due = np.array([NOON_MS - 1, NOON_MS, NOON_MS + 59_999, NOON_MS + MINUTE_MS, NOON_MS + 3 * MINUTE_MS])
    counts = count_minutes(due, np.array([2, 2, 0, 2, 2]), NOON_MS, 3)
    assert counts[Lane.DEFAULT].tolist() == [1, 1, 0]
    assert counts[Lane.CRITICAL].tolist() == [1, 0, 0]
    assert counts.sum() == 3


def test_what_came_before_now_is_not_counted_again() -> None:
    expanded = expand({EVERY_MINUTE: 7, HOURLY: 2}, NOON_MS + 30_000, NOON_MS, 61)
    assert expanded.counts[Lane.LOW].tolist() == [0] + [7] * 60
    assert expanded.counts[Lane.DEFAULT].tolist() == [0] * 60 + [2]
    assert expanded.minutes_of[HOURLY].tolist() == [60]
    assert expanded.is_whole


def test_several_runs_in_one_minute_all_count() -> None:
    every_ten_seconds = Pattern("*/10 * * * * *", "UTC", Lane.HIGH)
    expanded = expand({every_ten_seconds: 3}, NOON_MS - 1, NOON_MS, 2)
    assert expanded.counts[Lane.HIGH].tolist() == [18, 18]


def test_a_job_that_begins_or_ends_inside() -> None:
    between = Pattern("* * * * *", "UTC", 0, NOON_MS + 2 * MINUTE_MS, NOON_MS + 4 * MINUTE_MS)
    assert expand({between: 1}, NOON_MS - 1, NOON_MS, 6).counts[0].tolist() == [0, 0, 1, 1, 0, 0]


def test_a_zone_has_its_own_clock() -> None:
    berlin = Pattern("0 14 * * *", "Europe/Berlin", 1)
    assert expand({berlin: 1}, NOON_MS - 1, NOON_MS, 2).counts[1].tolist() == [1, 0]


def test_so_much_and_no_more_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "OCCURRENCES_MAX", 60)
    most = Pattern("* * * * *", "UTC", Lane.CRITICAL)
    expanded = expand({EVERY_MINUTE: 1, most: 9}, NOON_MS - 1, NOON_MS, 60)
    assert not expanded.is_whole
    assert expanded.counts[Lane.CRITICAL].sum() == 540, "what most jobs have comes first"
    assert expanded.counts[Lane.LOW].sum() == 0


def test_a_crowded_minute_is_found_with_its_causes_and_the_room_near_it() -> None:
    patterns = {HOURLY: 40, EVERY_MINUTE: 10}
    expanded = expand(patterns, NOON_MS - 1, NOON_MS, 120)
    totals = expanded.counts.sum(axis=0)
    totals[50] = 0
    first, second = find_peaks(totals, find_crowded(totals), patterns, expanded.minutes_of)
    assert (first.minute, first.due, first.usual) == (0, 50, 10)
    assert (second.minute, second.due) == (60, 50)
    assert second.causes == [Cause(HOURLY, 40), Cause(EVERY_MINUTE, 10)]
    assert 50 in second.quiet
    assert 60 not in second.quiet


def test_an_even_load_has_no_peaks_and_neither_has_a_small_one() -> None:
    assert find_crowded(np.full(120, 1_000)).tolist() == []
    few = np.zeros(120, dtype=np.int64)
    few[60] = PEAK_LEAST - 1
    assert find_crowded(few).tolist() == []
    few[60] = PEAK_LEAST
    assert find_crowded(few).tolist() == [60]


@pytest.mark.parametrize("minutes", [1, 7, 60, 61, 90, 1_440])
def test_a_usual_minute_is_the_median_of_the_hour_around_it(minutes: int) -> None:
    totals = np.random.default_rng(minutes).integers(0, 100, minutes)
    expected = [int(np.median(totals[max(0, at - 30) : at + 30])) for at in range(minutes)]
    assert usual_of(totals).tolist() == expected


def test_only_the_most_crowded_minutes_are_explained() -> None:
    totals = np.zeros(1_440, dtype=np.int64)
    totals[::60] = 100 + np.arange(24)
    crowded = find_crowded(totals)
    assert crowded.tolist() == list(range(0, 1_440, 60))
    assert [peak.minute for peak in find_peaks(totals, crowded, {}, {})] == list(range(960, 1_440, 60))
    assert [peak.due for peak in find_peaks(totals, crowded[:2], {}, {})] == [100, 101]
