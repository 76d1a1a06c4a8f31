"""What is accepted and what it means, point by point, all in UTC so that no clock change is in the way."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from tickwheel.domain.cron import CronSchedule, parse_cron

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 10, 1, tzinfo=UTC)  # a Thursday


def next_texts(expression: str, count: int, start: datetime = START) -> list[str]:
    schedule = parse_cron(expression)
    found = islice(schedule.iter_after((start - EPOCH) // timedelta(milliseconds=1)), count)
    return [(EPOCH + timedelta(milliseconds=due_ms)).strftime("%Y-%m-%d %H:%M:%S") for due_ms in found]


def days(expression: str, count: int, start: datetime = START) -> list[str]:
    return [text[5:10] for text in next_texts(expression, count, start)]


FIELDS = [
    ("30 2 * * *", ["2026-10-01 02:30:00", "2026-10-02 02:30:00"]),
    ("15 30 2 * * *", ["2026-10-01 02:30:15", "2026-10-02 02:30:15"]),
    ("* * * * *", ["2026-10-01 00:01:00", "2026-10-01 00:02:00"]),
    ("* * * * * *", ["2026-10-01 00:00:01", "2026-10-01 00:00:02"]),
    (
        "10-30/10 * * * *",
        ["2026-10-01 00:10:00", "2026-10-01 00:20:00", "2026-10-01 00:30:00", "2026-10-01 01:10:00"],
    ),
    ("*/25 * * * *", ["2026-10-01 00:25:00", "2026-10-01 00:50:00", "2026-10-01 01:00:00"]),
    ("40/8 * * * *", ["2026-10-01 00:40:00", "2026-10-01 00:48:00", "2026-10-01 00:56:00", "2026-10-01 01:40:00"]),
    ("1,05,59-059 007 * * *", ["2026-10-01 07:01:00", "2026-10-01 07:05:00", "2026-10-01 07:59:00"]),
    ("5,* 3 * * *", ["2026-10-01 03:00:00", "2026-10-01 03:01:00"]),
    (" \t0\t12 *  * * \t", ["2026-10-01 12:00:00", "2026-10-02 12:00:00"]),
    ("0 0 1 jan,Apr-JUN/2 *", ["2027-01-01 00:00:00", "2027-04-01 00:00:00", "2027-06-01 00:00:00"]),
    ("0 0 1 OCT/2 *", ["2026-12-01 00:00:00", "2027-10-01 00:00:00"]),
    ("0/59 * * * * *", ["2026-10-01 00:00:59", "2026-10-01 00:01:00", "2026-10-01 00:01:59"]),
]


@pytest.mark.parametrize(("expression", "expected"), FIELDS)
def test_fields_lists_ranges_and_steps(expression: str, expected: list[str]) -> None:
    assert next_texts(expression, len(expected)) == expected


MACROS = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@Monthly", "0 0 1 * *"),
    ("@YEARLY", "0 0 1 1 *"),
    (" @annually\t", "0 0 1 1 *"),
]


@pytest.mark.parametrize(("macro", "meaning"), MACROS)
def test_macros_in_any_case(macro: str, meaning: str) -> None:
    assert next_texts(macro, 5) == next_texts(meaning, 5)


WEEKDAYS = [
    ("0 0 * * 0", ["10-04", "10-11"]),
    ("0 0 * * 7", ["10-04", "10-11"]),
    ("0 0 * * sun", ["10-04", "10-11"]),
    ("0 0 * * FRI-SUN", ["10-02", "10-03", "10-04", "10-09"]),
    ("0 0 * * 6-0", ["10-03", "10-04", "10-10"]),
    ("0 0 * * 5-7", ["10-02", "10-03", "10-04", "10-09"]),
    ("0 0 * * SUN-TUE", ["10-04", "10-05", "10-06", "10-11"]),
    ("0 0 * * MON-SUN", ["10-02", "10-03", "10-04", "10-05", "10-06", "10-07", "10-08"]),
    ("0 0 * * 1/3", ["10-04", "10-05", "10-08", "10-11"]),
    ("0 0 * * FRIL", ["10-30", "11-27", "12-25"]),
    ("0 0 * * 5L,0l", ["10-25", "10-30", "11-27", "11-29"]),
    ("0 0 * * 5#2", ["10-09", "11-13", "12-11"]),
    ("0 0 * * MON#1,WED", ["10-05", "10-07", "10-14"]),
    ("0 0 * * 4#5", ["10-29", "12-31", "04-29"]),
    ("0 0 * * 7#1", ["10-04", "11-01"]),
]


@pytest.mark.parametrize(("expression", "expected"), WEEKDAYS)
def test_days_of_the_week(expression: str, expected: list[str]) -> None:
    assert days(expression, len(expected)) == expected


MONTH_DAYS = [
    ("0 0 L * *", ["10-31", "11-30", "12-31", "01-31", "02-28"]),
    ("0 0 L 2 ?", ["02-28", "02-29"]),
    ("0 0 LW * *", ["10-30", "11-30", "12-31", "01-29", "02-26"]),  # 2026-10-31 is a Saturday, 2027-01-31 a Sunday
    ("0 0 L-3 * *", ["10-28", "11-27", "12-28"]),
    ("0 0 L-30 * *", ["12-01", "01-01", "03-01"]),  # 1 October at 00:00 itself is over
    ("0 0 15W * *", ["10-15", "11-16", "12-15", "01-15"]),  # 2026-11-15 is a Sunday
    ("0 0 1W 8 *", ["08-02", "08-01"]),  # 2027-08-01 is a Sunday, 2028-08-01 a Tuesday
    ("0 0 1W 5 *", ["05-03", "05-01"]),  # 2027-05-01 is a Saturday: Monday the 3rd, not April
    ("0 0 31W * *", ["10-30", "12-31", "01-29", "03-31", "05-31", "07-30"]),  # months without a 31st are skipped
    ("0 0 28W 2 *", ["02-26", "02-28"]),  # 2027-02-28 is a Sunday at the month's end
    ("0 0 1,15W,l * *", ["10-15", "10-31", "11-01", "11-16", "11-30"]),
]


@pytest.mark.parametrize(("expression", "expected"), MONTH_DAYS)
def test_days_of_the_month(expression: str, expected: list[str]) -> None:
    assert days(expression, len(expected)) == expected


PAIRS = [
    ("0 0 13 * FRI", ["10-02", "10-09", "10-13", "10-16"]),  # both restricted: either
    ("0 0 * * FRI", ["10-02", "10-09"]),
    ("0 0 ? * FRI", ["10-02", "10-09"]),
    ("0 0 13 * ?", ["10-13", "11-13"]),
    ("0 0 ? * ?", ["10-02", "10-03"]),
    ("0 0 */2 * FRI", ["10-09", "10-23", "11-13"]),  # begins with a star: both
    ("0 0 13 * */5", ["11-13", "12-13", "06-13"]),  # */5 = Sunday and Friday
    ("0 0 *,13 * FRI", ["10-02", "10-09"]),
    ("0 0 L * SUN", ["10-04", "10-11", "10-18", "10-25", "10-31"]),
    ("0 0 1-7 * MON", ["10-02", "10-03", "10-04", "10-05", "10-06", "10-07", "10-12"]),
]


@pytest.mark.parametrize(("expression", "expected"), PAIRS)
def test_two_day_fields_are_either_or_unless_one_begins_with_a_star(expression: str, expected: list[str]) -> None:
    assert days(expression, len(expected)) == expected


WARNED = [
    ("*/70 * * * *", "minute: the step of '*/70' reaches past 0-59"),
    ("0 5/20 * * *", "hour: the step of '5/20' reaches past 5-23"),
    ("0 0 1-10/30 * *", "day-of-month: the step of '1-10/30' reaches past 1-10"),
    ("0 0 * * */7", "day-of-week: the step of '*/7' reaches past 0-7"),
    ("0 0 */2 * FRI", "must match both (AND)"),
    ("0 0 13 * */2", "must match both (AND)"),
    ("0 0 */2 * */3", "must match both (AND)"),
    ("0 0 1-31 * MON", "either (OR), and one of them is every day"),
    ("0 0 12 ? * 2-6", "write '1-5'"),
]


@pytest.mark.parametrize(("expression", "fragment"), WARNED)
def test_legal_surprises_come_with_a_warning(expression: str, fragment: str) -> None:
    warnings = parse_cron(expression).warnings
    assert any(fragment in warning for warning in warnings), warnings


@pytest.mark.parametrize(
    "expression",
    [
        "*/59 * * * *",
        "0/59 * * * * *",
        "0 0 13 * FRI",
        "0 0 */2 * *",
        "0 0 ? * MON-FRI",
        "0 0 12 ? * MON",
        "0 0 L * ?",
    ],
)
def test_plain_expressions_come_without_a_warning(expression: str) -> None:
    assert parse_cron(expression).warnings == ()


@pytest.mark.parametrize("expression", ["*/70 * * * *", "0-59/99999999999 * * * *"])
def test_step_past_the_range_fires_once_a_cycle(expression: str) -> None:
    assert next_texts(expression, 2) == ["2026-10-01 01:00:00", "2026-10-01 02:00:00"]


def test_next_is_strictly_after_to_the_millisecond() -> None:
    schedule = parse_cron("0 12 * * *")
    noon_ms = 1_767_268_800_000  # 2026-01-01T12:00Z
    assert schedule.next_after(noon_ms - 1) == noon_ms
    assert schedule.next_after(noon_ms) == noon_ms + 86_400_000
    assert schedule.next_after(noon_ms + 999) == noon_ms + 86_400_000


def test_rare_dates_are_found_across_the_century_that_is_no_leap_year() -> None:
    found = next_texts("0 0 * 2 4#5", 3)
    assert [text[:10] for text in found] == ["2052-02-29", "2080-02-29", "2120-02-29"]


def test_search_ends_with_the_year_9999() -> None:
    last_ms = 253_402_300_799_000
    assert parse_cron("* * * * * *").next_after(last_ms - 1) == last_ms
    assert parse_cron("* * * * * *").next_after(last_ms) is None
    assert parse_cron("0 0 29 2 *", "Europe/Berlin").next_after(253_386_000_000_000) is None
    assert list(parse_cron("0 0 31 12 *").iter_after(last_ms - 86_400_000)) == [last_ms - 86_399_000]


def test_search_begins_before_the_first_date_without_complaint() -> None:
    for zone in ("UTC", "America/New_York", "Asia/Manila"):
        assert parse_cron("0 0 1 1 *", zone).next_after(-(10**18)) is not None


def test_schedule_keeps_the_text_it_was_given_and_compares_by_it() -> None:
    schedule = parse_cron(" 0 12 * * mon ", "Europe/Berlin")
    assert (schedule.expression, schedule.timezone) == (" 0 12 * * mon ", "Europe/Berlin")
    assert schedule == parse_cron(" 0 12 * * mon ", "Europe/Berlin")
    assert schedule != parse_cron(" 0 12 * * mon ", "Europe/Paris")
    assert isinstance(schedule, CronSchedule)


def test_parsed_schedules_are_kept_in_a_bounded_cache() -> None:
    limit = parse_cron.cache_info().maxsize
    assert limit is not None
    assert limit <= 10_000
    assert parse_cron("1 2 3 4 5") is parse_cron("1 2 3 4 5")
