"""Worked examples of the Debian rule in zones with odd clock changes, and what users met there elsewhere."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from time import thread_time

import pytest

from tickwheel.domain.cron import parse_cron, preview
from tickwheel.domain.zones import load_zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


def local(expression: str, zone: str, start: str, count: int) -> list[str]:
    """The next local times as `MM-DD HH:MM:SS+offset`, asked from zoneinfo."""
    found = islice(parse_cron(expression, zone).iter_after(ms(start)), count)
    info = load_zone(zone)
    return [
        (EPOCH + timedelta(milliseconds=due)).astimezone(info).isoformat()[5:].replace("T", " ") for due in found
    ]


FIXED = [
    # gap of an hour: the missed run comes at the first instant after it, once
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", ["03-29 03:00:00+02:00", "03-30 02:30:00+02:00"]),
    ("0 30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", ["03-29 03:00:00+02:00", "03-30 02:30:00+02:00"]),
    (
        "0,30 2 * * *",
        "America/New_York",
        "2026-03-07T12:00-05:00",
        ["03-08 03:00:00-04:00", "03-09 02:00:00-04:00"],
    ),
    (
        "0 2,3 * * *",
        "America/New_York",
        "2026-03-07T12:00-05:00",
        ["03-08 03:00:00-04:00", "03-09 02:00:00-04:00"],
    ),
    (
        "5-55/10 2 * * *",
        "America/New_York",
        "2026-03-07T12:00-05:00",
        ["03-08 03:00:00-04:00", "03-09 02:05:00-04:00"],
    ),
    ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00-03:00", ["11-04 01:00:00-02:00", "11-05 00:00:00-02:00"]),
    ("0 0 * * *", "America/Havana", "2024-03-09T12:00-05:00", ["03-10 01:00:00-04:00", "03-11 00:00:00-04:00"]),
    ("0 1 * * *", "Antarctica/Troll", "2026-03-28T12:00+00:00", ["03-29 03:00:00+02:00", "03-30 01:00:00+02:00"]),
    # the gap's day counts, not the day on which the run comes
    ("30 23 * * *", "America/Nuuk", "2026-03-28T12:00-02:00", ["03-29 00:00:00-01:00", "03-29 23:30:00-01:00"]),
    # overlap: first pass only
    ("30 2 * * *", "Europe/Berlin", "2025-10-25T12:00+02:00", ["10-26 02:30:00+02:00", "10-27 02:30:00+01:00"]),
    ("0 30 2 * * *", "Europe/Berlin", "2025-10-25T12:00+02:00", ["10-26 02:30:00+02:00", "10-27 02:30:00+01:00"]),
    ("30 2 * * *", "Europe/Berlin", "2025-10-26T02:45+02:00", ["10-27 02:30:00+01:00"]),
    ("30 2 * * *", "Europe/Berlin", "2025-10-26T02:15+01:00", ["10-27 02:30:00+01:00"]),
    ("0 3 * * *", "Europe/Berlin", "2025-10-25T12:00+02:00", ["10-26 03:00:00+01:00", "10-27 03:00:00+01:00"]),
    ("0 0 * * *", "America/Havana", "2024-11-02T12:00-04:00", ["11-03 00:00:00-04:00", "11-04 00:00:00-05:00"]),
    ("30 23 * * *", "Africa/Cairo", "2024-10-31T12:00+03:00", ["10-31 23:30:00+03:00", "11-01 23:30:00+02:00"]),
    # half an hour, a quarter, half a minute
    (
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2025-10-04T12:00+10:30",
        ["10-05 02:30:00+11:00", "10-06 02:15:00+11:00"],
    ),
    (
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T12:00+11:00",
        ["04-05 01:45:00+11:00", "04-06 01:45:00+10:30"],
    ),
    ("45 2 * * *", "America/Caracas", "2007-12-08T12:00-04:00", ["12-09 02:45:00-04:00", "12-10 02:45:00-04:30"]),
    ("45 2 * * *", "America/Caracas", "2016-04-30T12:00-04:30", ["05-01 03:00:00-04:00", "05-02 02:45:00-04:00"]),
    ("45 23 * * *", "Asia/Pyongyang", "2015-08-14T12:00+09:00", ["08-14 23:45:00+09:00", "08-15 23:45:00+08:30"]),
    ("45 23 * * *", "Asia/Pyongyang", "2018-05-04T12:00+08:30", ["05-05 00:00:00+09:00", "05-05 23:45:00+09:00"]),
    ("5 0 * * *", "Asia/Kathmandu", "1985-12-31T12:00+05:30", ["01-01 00:15:00+05:45", "01-02 00:05:00+05:45"]),
    ("20 0 7 1 *", "Africa/Monrovia", "1972-01-01T00:00+00:00", ["01-07 00:44:30+00:00", "01-07 00:20:00+00:00"]),
    # one minute past midnight, Newfoundland
    ("30 0 * * *", "America/St_Johns", "2010-03-13T12:00-03:30", ["03-14 01:01:00-02:30", "03-15 00:30:00-02:30"]),
    ("0 0 * * *", "America/St_Johns", "2010-11-06T12:00-02:30", ["11-07 00:00:00-02:30", "11-08 00:00:00-03:30"]),
    (
        "30 23 * * *",
        "America/St_Johns",
        "2010-11-06T12:00-02:30",
        ["11-06 23:30:00-02:30", "11-07 23:30:00-03:30"],
    ),
    # three hours and more: not made up
    ("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00-10:00", ["12-29 12:00:00-10:00", "12-31 12:00:00+14:00"]),
    ("0 0 * * *", "Pacific/Apia", "2011-12-28T12:00-10:00", ["12-29 00:00:00-10:00", "12-31 00:00:00+14:00"]),
    ("0 0 30 12 *", "Pacific/Apia", "2010-12-31T00:00-10:00", ["12-30 00:00:00+14:00"]),
    ("0 6 * * *", "Pacific/Kwajalein", "1993-08-20T00:00-12:00", ["08-20 06:00:00-12:00", "08-22 06:00:00+12:00"]),
    ("0 1 * * *", "Antarctica/Casey", "2016-10-21T12:00+08:00", ["10-23 01:00:00+11:00"]),
    # a day that comes twice, three hours that come twice: first pass only
    (
        "0 12 * * *",
        "Pacific/Kwajalein",
        "1969-09-29T18:00+11:00",
        ["09-30 12:00:00+11:00", "10-01 12:00:00-12:00"],
    ),
    ("30 0 * * *", "Antarctica/Casey", "2018-03-10T12:00+11:00", ["03-11 00:30:00+11:00", "03-12 00:30:00+08:00"]),
]

EVERY_SO_OFTEN = [
    ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", ["03-30 02:00:00+02:00", "03-30 02:30:00+02:00"]),
    (
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-03-29T01:00+01:00",
        ["03-29 01:30:00+01:00", "03-29 03:00:00+02:00", "03-29 03:30:00+02:00"],
    ),
    (
        "*/30 2 * * *",
        "Europe/Berlin",
        "2025-10-26T00:00+02:00",
        ["10-26 02:00:00+02:00", "10-26 02:30:00+02:00", "10-26 02:00:00+01:00", "10-26 02:30:00+01:00"],
    ),
    (
        "* 30 2 * * *",
        "Europe/Berlin",
        "2025-10-26T02:30:58+02:00",
        ["10-26 02:30:59+02:00", "10-26 02:30:00+01:00"],
    ),
    (
        "*/15 * * * *",
        "Australia/Lord_Howe",
        "2026-04-05T01:30+11:00",
        ["04-05 01:45:00+11:00", "04-05 01:30:00+10:30", "04-05 01:45:00+10:30", "04-05 02:00:00+10:30"],
    ),
    (
        "0 * * * *",
        "Australia/Lord_Howe",
        "2025-10-05T01:00+10:30",
        ["10-05 03:00:00+11:00", "10-05 04:00:00+11:00"],
    ),
    (
        "0 */2 * * *",
        "America/St_Johns",
        "2010-11-06T22:00-02:30",
        ["11-07 00:00:00-02:30", "11-07 00:00:00-03:30"],
    ),
    (
        "*/20 * * * *",
        "America/Caracas",
        "2016-05-01T02:20-04:30",
        ["05-01 03:00:00-04:00", "05-01 03:20:00-04:00"],
    ),
    ("*/20 * * * *", "Asia/Pyongyang", "2018-05-04T23:20+08:30", ["05-05 00:00:00+09:00", "05-05 00:20:00+09:00"]),
    ("0 */6 * * *", "Pacific/Apia", "2011-12-29T18:00-10:00", ["12-31 00:00:00+14:00", "12-31 06:00:00+14:00"]),
    (
        "*/30 0 * * *",
        "Africa/Monrovia",
        "1972-01-06T23:00-00:44:30",
        ["01-08 00:00:00+00:00", "01-08 00:30:00+00:00"],
    ),
]


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), FIXED)
def test_fixed_job_is_neither_lost_nor_doubled(
    expression: str, zone: str, start: str, expected: list[str]
) -> None:
    assert local(expression, zone, start, len(expected)) == expected


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), EVERY_SO_OFTEN)
def test_job_every_so_often_fires_whenever_the_wall_clock_matches(
    expression: str, zone: str, start: str, expected: list[str]
) -> None:
    assert local(expression, zone, start, len(expected)) == expected


@pytest.mark.parametrize("year", [2026, 2040, 2099, 2100, 2400, 3026, 9000])
def test_rules_of_today_hold_in_any_later_year(year: int) -> None:
    info = load_zone("Europe/Berlin")
    schedule = parse_cron("30 2 * 3 SUNL", "Europe/Berlin")
    due = schedule.next_after((datetime(year, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1))
    assert due is not None
    wall = (EPOCH + timedelta(milliseconds=due)).astimezone(info)
    assert (wall.year, wall.month, wall.hour, wall.minute, wall.isoweekday()) == (year, 3, 3, 0, 7)


@pytest.mark.pitfall(1)
def test_repeated_hour_is_left_behind() -> None:
    started = thread_time()
    shown = preview("30 * * * *", "Europe/Helsinki", ms("2017-10-29T03:45+02:00"), 3)
    assert thread_time() - started < 0.1
    assert [text[11:] for text in shown.local] == ["04:30:00+02:00", "05:30:00+02:00", "06:30:00+02:00"]


@pytest.mark.pitfall(1)
@pytest.mark.parametrize("expression", ["30 * * * *", "30 3 * * *", "*/30 * * * *", "0 30 3 * * *"])
@pytest.mark.parametrize("minute", range(0, 180, 5))
def test_search_from_within_the_repeated_hour_never_goes_back(expression: str, minute: int) -> None:
    start_ms = ms("2017-10-29T02:30+03:00") + minute * 60_000
    found = list(islice(parse_cron(expression, "Europe/Helsinki").iter_after(start_ms), 5))
    assert [start_ms, *found] == sorted({start_ms, *found})


@pytest.mark.pitfall(4)
def test_weekly_noon_job_comes_once_after_the_clock_was_put_back() -> None:
    shown = preview("0 12 * * 1", "Europe/Amsterdam", ms("2013-10-26T00:00+02:00"), 2)
    assert shown.local == ("2013-10-28T12:00:00+01:00", "2013-11-04T12:00:00+01:00")


@pytest.mark.pitfall(5)
def test_five_minute_grid_goes_on_through_the_end_of_summer_time() -> None:
    schedule = parse_cron("*/5 * * * *", "Europe/Paris")
    start_ms, end_ms = ms("2020-10-25T00:00+00:00"), ms("2020-10-25T03:00+00:00")
    found = list(islice(schedule.iter_after(start_ms - 1), 36))
    assert found == list(range(start_ms, end_ms, 300_000))
    assert schedule.count_between(start_ms - 1, end_ms - 1, 1000) == 36


@pytest.mark.pitfall(7)
def test_afternoon_of_the_changeover_day_has_the_new_offset_already() -> None:
    schedule = parse_cron("4 16 * * *", "America/New_York")
    assert schedule.next_after(ms("2025-03-09T00:00-05:00")) == ms("2025-03-09T20:04+00:00")


@pytest.mark.pitfall(8)
def test_daily_job_in_the_repeated_hour_runs_once() -> None:
    schedule = parse_cron("0 2 * * *", "Europe/Berlin")
    start_ms, end_ms = ms("2023-10-28T22:00+00:00"), ms("2023-10-29T23:00+00:00")
    assert schedule.next_after(start_ms) == ms("2023-10-29T00:00+00:00")
    assert schedule.count_between(start_ms, end_ms, 10) == 1


@pytest.mark.pitfall(11)
@pytest.mark.parametrize(
    "zone", ["Asia/Shanghai", "Asia/Singapore", "Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"]
)
def test_daily_job_moves_on_a_day_with_each_run(zone: str) -> None:
    now_ms = ms("2026-02-27T15:59:59+00:00")
    schedule = parse_cron("0 0 * * *", zone)
    for _ in range(400):
        due = schedule.next_after(now_ms)
        assert due is not None
        assert now_ms < due <= now_ms + 86_400_000
        now_ms = due
