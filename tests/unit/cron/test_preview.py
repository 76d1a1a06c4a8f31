"""A preview lists the occurrences and explains each clock change that touches the job."""

from datetime import UTC, datetime, timedelta
from time import thread_time

import pytest

from tickwheel.domain.cron import CronError, Preview, preview

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shown(expression: str, zone: str, start: str, count: int) -> Preview:
    return preview(expression, zone, (datetime.fromisoformat(start) - EPOCH) // timedelta(milliseconds=1), count)


NOTES = [
    (
        ("30 2 * * *", "Europe/Berlin", "2025-03-29T12:00+01:00", 2),
        "2025-03-30: the clock in Europe/Berlin goes from 02:00:00 to 03:00:00, so 2025-03-30 02:30:00 never "
        "comes; what was due in the gap runs once, at 2025-03-30 03:00:00",
    ),
    (
        ("*/30 2 * * *", "Europe/Berlin", "2025-03-29T12:00+01:00", 2),
        "2025-03-30: the clock in Europe/Berlin goes from 02:00:00 to 03:00:00, so 2025-03-30 02:00:00 never "
        "comes; nothing runs in the gap",
    ),
    (
        ("30 2 * * *", "Europe/Berlin", "2025-10-25T12:00+02:00", 2),
        "2025-10-26: the clock in Europe/Berlin goes from 03:00:00 to 02:00:00, so 2025-10-26 02:30:00 comes "
        "twice; what is due then runs in the first pass only",
    ),
    (
        ("*/30 * * * *", "Australia/Lord_Howe", "2025-04-06T01:00+11:00", 4),
        "2025-04-06: the clock in Australia/Lord_Howe goes from 02:00:00 to 01:30:00, so 2025-04-06 01:30:00 "
        "comes twice; what is due then runs in both passes",
    ),
    (
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00-10:00", 2),
        "2011-12-30: the clock in Pacific/Apia goes from 00:00:00 to 2011-12-31 00:00:00, so 2011-12-30 12:00:00 "
        "never comes; a jump of 3 hours or more is not made up for",
    ),
]


@pytest.mark.parametrize(("question", "note"), NOTES)
def test_note_says_what_a_clock_change_does_to_the_job(question: tuple[str, str, str, int], note: str) -> None:
    assert shown(*question).notes == (note,)


@pytest.mark.parametrize(
    "question",
    [
        ("0 12 * * *", "Europe/Berlin", "2025-03-29T13:00+01:00", 3),  # the change touches another hour
        ("30 2 * * *", "Europe/Berlin", "2025-03-28T12:00+01:00", 1),  # the change comes after the last one shown
        ("30 2 * * *", "Europe/Berlin", "2025-03-30T03:00+02:00", 3),  # the change is over
        ("30 2 * * *", "UTC", "2025-03-29T12:00+00:00", 400),
        ("30 2 * * *", "Asia/Tokyo", "2025-03-29T12:00+00:00", 400),
    ],
)
def test_no_note_without_a_change_that_touches_the_job(question: tuple[str, str, str, int]) -> None:
    assert shown(*question).notes == ()


def test_preview_shows_instants_local_times_and_warnings() -> None:
    result = shown("0 0 */2 * SUN", "America/New_York", "2025-10-31T00:00-04:00", 2)
    assert result.next_ms == (1_762_664_400_000, 1_763_874_000_000)
    assert result.local == ("2025-11-09T00:00:00-05:00", "2025-11-23T00:00:00-05:00")
    assert len(result.warnings) == 1


def test_preview_of_nothing_is_empty() -> None:
    assert shown("0 0 * * *", "Europe/Berlin", "2025-10-31T00:00+01:00", 0) == Preview((), (), (), ())
    assert shown("0 0 * * *", "UTC", "9999-12-31T23:00+00:00", 5).next_ms == ()


def test_notes_are_bounded_over_centuries() -> None:
    started = thread_time()
    result = shown("30 2 * 3,10,11 SUN#1,SUN#2,SUNL", "America/New_York", "2026-01-01T00:00+00:00", 3000)
    assert thread_time() - started < 2
    assert len(result.next_ms) == 3000
    assert len(result.notes) == 201
    assert "left out here" in result.notes[-1]


def test_preview_rejects_what_the_parser_rejects() -> None:
    with pytest.raises(CronError):
        shown("0 0 30 2 *", "UTC", "2026-01-01T00:00+00:00", 1)


@pytest.mark.pitfall(10)
@pytest.mark.parametrize(("expression", "reason"), [("0 0 * * 8", "out of range"), ("0 0 30 2 *", "never fires")])
def test_impossible_values_are_turned_away_at_once(expression: str, reason: str) -> None:
    started = thread_time()
    with pytest.raises(CronError, match=reason):
        shown(expression, "Europe/Berlin", "2026-01-01T00:00+00:00", 5)
    assert thread_time() - started < 0.1


@pytest.mark.pitfall(10)
def test_rarest_dates_are_found_at_once() -> None:
    started = thread_time()
    result = shown("0 0 * 2 4#5", "America/New_York", "2096-03-01T00:00+00:00", 2)
    assert thread_time() - started < 0.1
    assert result.local == ("2120-02-29T00:00:00-05:00", "2148-02-29T00:00:00-05:00")
