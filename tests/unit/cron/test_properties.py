"""The evaluator against oracles that know neither its parser nor its periods: they tick through clock changes."""

import calendar
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwheel.domain.cron import CronSchedule, parse_cron
from tickwheel.domain.timeline import CYCLE_S, timeline_of
from tickwheel.domain.zones import load_zone, zone_names

from .acceptance import accepted

EXAMPLES = settings().max_examples  # of the profile that tests/conftest.py loads
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LARGE_JUMP = timedelta(hours=3)

SEAMS = [
    ("America/New_York", "2026-03-08T07:00"),
    ("America/New_York", "2026-11-01T06:00"),
    ("America/New_York", "2103-03-11T07:00"),
    ("Europe/Berlin", "2026-03-29T01:00"),
    ("Europe/Berlin", "2026-10-25T01:00"),
    ("Europe/Dublin", "2030-10-27T01:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("America/Caracas", "2007-12-09T07:00"),
    ("America/Caracas", "2016-05-01T07:00"),
    ("Asia/Pyongyang", "2015-08-14T15:00"),
    ("Asia/Pyongyang", "2018-05-04T15:00"),
    ("America/St_Johns", "2010-03-14T03:31"),
    ("America/St_Johns", "2010-11-07T02:31"),
    ("America/Sao_Paulo", "2018-11-04T03:00"),
    ("America/Sao_Paulo", "2018-02-18T02:00"),
    ("America/Havana", "2026-03-08T05:00"),
    ("Africa/Cairo", "2024-10-31T21:00"),
    ("Antarctica/Troll", "2026-03-29T01:00"),
    ("Antarctica/Troll", "2026-10-25T01:00"),
    ("Asia/Kathmandu", "1985-12-31T18:30"),
    ("Pacific/Chatham", "2026-04-04T14:00"),
    ("America/Nuuk", "2023-03-26T01:00"),
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("Pacific/Kwajalein", "1993-08-21T12:00"),
    ("Pacific/Kwajalein", "1969-09-30T13:00"),
    ("Antarctica/Casey", "2016-10-21T16:00"),
    ("Antarctica/Casey", "2018-03-10T17:00"),
    ("Africa/Casablanca", "2026-02-15T02:00"),
]
SECOND_SEAMS = [
    ("Africa/Monrovia", "1972-01-07T00:44:30"),
    ("Europe/Paris", "1911-03-10T23:50:39"),
    ("Asia/Kolkata", "1905-12-31T18:38:50"),
    ("America/New_York", "2026-03-08T07:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
]
ZONES = sorted({zone for zone, _ in SEAMS + SECOND_SEAMS} | {"UTC", "Asia/Kolkata", "Africa/Cairo"})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ms(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class Spec:
    """An expression together with its meaning, built side by side and not by the parser."""

    text: str
    matches: Callable[[datetime], bool]
    fixed: bool


@st.composite
def numbers(draw: st.DrawFn, low: int, high: int, likely: int | None = None) -> tuple[str, frozenset[int]]:
    """A field text and the values that it stands for; `likely` is an upper bound for most of them."""
    top = likely if likely is not None and draw(st.integers(0, 3)) else high
    first = draw(st.integers(low, top))
    last = draw(st.integers(first, top))
    step = draw(st.integers(1, high - low + 5))
    more = draw(st.lists(st.integers(low, top), min_size=1, max_size=3))
    return draw(
        st.sampled_from(
            [
                ("*", frozenset(range(low, high + 1))),
                (f"*/{step}", frozenset(range(low, high + 1, step))),
                (f"{first}", frozenset({first})),
                (f"{first}-{last}", frozenset(range(first, last + 1))),
                (f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))),
                (f"{first}/{step}", frozenset(range(first, high + 1, step))),
                (",".join(f"{value:02}" for value in more), frozenset(more)),
                (
                    f"{first}-{last},*/{step}",
                    frozenset(range(first, last + 1)) | frozenset(range(low, high + 1, step)),
                ),
            ]
        )
    )


@st.composite
def specs(draw: st.DrawFn, with_seconds: bool) -> Spec:
    second_text, seconds = draw(numbers(0, 59)) if with_seconds else ("0", frozenset({0}))
    minute_text, minutes = draw(numbers(0, 59))
    hour_text, hours = draw(numbers(0, 23, likely=4))
    texts = [second_text, minute_text, hour_text] if with_seconds else [minute_text, hour_text]
    return Spec(
        " ".join([*texts, "*", "*", "*"]),
        lambda wall: wall.second in seconds and wall.minute in minutes and wall.hour in hours,
        not any(text.startswith("*") for text in texts),
    )


@lru_cache(maxsize=64)
def ticks(
    zone: str, seam: str, step: timedelta, before: timedelta, after: timedelta
) -> list[tuple[datetime, datetime]]:
    """`(instant, wall clock)` at every step around a clock change, as `zoneinfo` tells it."""
    info = load_zone(zone)
    count = (before + after) // step
    instants = [at(seam) - before + n * step for n in range(count)]
    return [(instant, instant.astimezone(info).replace(tzinfo=None)) for instant in instants]


def every_so_often(spec: Spec, seen: list[tuple[datetime, datetime]]) -> list[datetime]:
    return [instant for instant, wall in seen if spec.matches(wall)]


def at_fixed_times(spec: Spec, seen: list[tuple[datetime, datetime]], step: timedelta) -> list[datetime]:
    """Debian's cron as a simulation: a virtual clock that leaps with the wall clock and never goes back."""
    fired = []
    virtual = last = seen[0][1]
    for instant, wall in seen[1:]:
        leap = wall - last - step
        last = wall
        if wall <= virtual:
            continue
        if leap >= LARGE_JUMP:
            virtual = wall - step
        due = False
        while virtual < wall:
            virtual += step
            due = due or spec.matches(virtual)
        if due:
            fired.append(instant)
    return fired


def firings(schedule: CronSchedule, after: datetime, until: datetime) -> list[datetime]:
    found = []
    for due_ms in schedule.iter_after(ms(after)):
        if due_ms > ms(until):
            break
        found.append(EPOCH + timedelta(milliseconds=due_ms))
    return found


def check_against_oracle(spec: Spec, zone: str, seam: str, step: timedelta, hours: int) -> None:
    around = timedelta(hours=hours)
    seen = ticks(zone, seam, step, around, around)
    expected = at_fixed_times(spec, seen, step) if spec.fixed else every_so_often(spec, seen)
    shown_from = at(seam) - timedelta(hours=min(hours - 1, 6))  # the oracle needs a run-up, the comparison none
    until = seen[-1][0]
    found = firings(parse_cron(spec.text, zone), shown_from, until)
    assert found == [instant for instant in expected if shown_from < instant <= until], (spec.text, zone, seam)


@given(specs(with_seconds=False), st.sampled_from(SEAMS))
@settings(max_examples=3 * EXAMPLES)
def test_minutes_around_a_clock_change_agree_with_a_ticking_oracle(spec: Spec, seam: tuple[str, str]) -> None:
    check_against_oracle(spec, *seam, timedelta(minutes=1), 36)


@given(specs(with_seconds=True), st.sampled_from(SECOND_SEAMS))
@settings(max_examples=EXAMPLES // 2)
def test_seconds_around_a_clock_change_agree_with_a_ticking_oracle(spec: Spec, seam: tuple[str, str]) -> None:
    check_against_oracle(spec, *seam, timedelta(seconds=1), 3)


@pytest.mark.parametrize(("zone", "seam"), SEAMS + SECOND_SEAMS)
def test_seams_under_test_are_real(zone: str, seam: str) -> None:
    info = load_zone(zone)
    before, after = at(seam) - timedelta(seconds=1), at(seam)
    assert before.astimezone(info).utcoffset() != after.astimezone(info).utcoffset()


def day_fields() -> st.SearchStrategy[tuple[str, str]]:
    of_month = st.one_of(
        st.sampled_from(["*", "?", "L", "LW", "*/2", "*/10", "1,15", "31", "28-31", "L,1", "15W,LW", "10-20/3"]),
        st.integers(1, 31).map(lambda n: f"{n}W"),
        st.integers(1, 30).map(lambda n: f"L-{n}"),
    )
    of_week = st.one_of(
        st.sampled_from(["*", "?", "MON-FRI", "FRI-SUN", "6-0", "0", "7", "*/2", "SUN", "1/2", "sat,wed", "5-7"]),
        st.integers(0, 7).map(lambda n: f"{n}L"),
        st.tuples(st.integers(0, 7), st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}"),
    )
    return st.tuples(of_month, of_week)


def month_day_matches(text: str, day: date) -> bool:
    """One item of the day-of-month field, the slow way."""
    length = calendar.monthrange(day.year, day.month)[1]
    if text in ("*", "?"):
        return True
    if text == "L":
        return day.day == length
    if text.startswith("L-"):
        return day.day == length - int(text[2:])
    if text.endswith("W"):
        target = length if text == "LW" else int(text[:-1])
        weekdays = [d for d in range(1, length + 1) if date(day.year, day.month, d).weekday() < 5]
        return target <= length and day.day == min(weekdays, key=lambda d: (abs(d - target), d))
    base, _, step = text.partition("/")
    first, _, last = base.replace("*", "1-31").partition("-")
    return day.day in range(int(first), int(last or first) + 1, int(step or 1))


WEEKDAYS_OF = {
    "*": "0123456", "?": "0123456", "MON-FRI": "12345", "FRI-SUN": "560", "6-0": "60", "0": "0", "7": "0",
    "*/2": "0246", "SUN": "0", "1/2": "1350", "sat,wed": "63", "5-7": "560",
}  # fmt: skip


def week_day_matches(text: str, day: date) -> bool:
    """The day-of-week field, the slow way."""
    if text.endswith("L"):
        return day.isoweekday() % 7 == int(text[:-1]) % 7 and (day + timedelta(days=7)).month != day.month
    if "#" in text:
        return day.isoweekday() % 7 == int(text[0]) % 7 and (day.day + 6) // 7 == int(text[2])
    return str(day.isoweekday() % 7) in WEEKDAYS_OF[text]


@given(day_fields(), st.integers(1890, 2190))
def test_days_agree_with_a_walk_over_the_calendar(fields: tuple[str, str], year: int) -> None:
    of_month, of_week = fields
    either = of_month[0] not in "*?" and of_week[0] not in "*?"
    expected = []
    for n in range(3 * 365):
        day = date(year, 1, 1) + timedelta(days=n)
        by_month = any(month_day_matches(item, day) for item in of_month.split(","))
        by_week = week_day_matches(of_week, day)
        if (by_month or by_week) if either else (by_month and by_week):
            expected.append(day)
    if not accepted(f"0 0 {of_month} * {of_week}"):
        assert expected == []
        return
    start = datetime(year, 1, 1, tzinfo=UTC) - timedelta(seconds=1)
    found = firings(parse_cron(f"0 0 {of_month} * {of_week}"), start, start + timedelta(days=3 * 365))
    assert [instant.date() for instant in found] == expected


EXPRESSIONS = st.one_of(
    st.builds(lambda spec: spec.text, st.booleans().flatmap(lambda seconds: specs(with_seconds=seconds))),
    day_fields().map(lambda fields: f"30 2 {fields[0]} * {fields[1]}").filter(accepted),
)
INSTANTS_MS = st.integers(ms(at("1800-01-01")), ms(at("2500-01-01")))


@given(EXPRESSIONS, st.sampled_from(ZONES), INSTANTS_MS)
def test_occurrences_are_whole_seconds_strictly_after_and_strictly_ascending(
    expression: str, zone: str, start_ms: int
) -> None:
    found = list(islice(parse_cron(expression, zone).iter_after(start_ms), 20))
    assert len(found) == 20
    assert all(before < after for before, after in pairwise([start_ms, *found]))
    assert all(due_ms % 1000 == 0 for due_ms in found)


@given(EXPRESSIONS, st.sampled_from(SEAMS), st.data())
def test_answer_does_not_depend_on_where_between_two_occurrences_the_search_starts(
    expression: str, seam: tuple[str, str], data: st.DataObject
) -> None:
    schedule = parse_cron(expression, seam[0])
    first = schedule.next_after(ms(at(seam[1])) - data.draw(st.integers(0, 90_000_000)))
    assert first is not None
    second = schedule.next_after(first)
    assert second is not None
    assert schedule.next_after(data.draw(st.integers(first, second - 1))) == second


@given(EXPRESSIONS, st.sampled_from(ZONES), st.integers(ms(at("2100-01-01")), ms(at("2400-01-01"))))
@settings(max_examples=EXAMPLES // 2)
def test_answers_repeat_with_the_calendar_every_400_years(expression: str, zone: str, start_ms: int) -> None:
    schedule = parse_cron(expression, zone)
    near, far = schedule.next_after(start_ms), schedule.next_after(start_ms + CYCLE_S * 1000)
    assert near is not None
    assert far == near + CYCLE_S * 1000


@given(EXPRESSIONS, st.sampled_from(ZONES), INSTANTS_MS, st.integers(0, 10**9), st.integers(0, 30))
def test_count_between_counts_the_half_open_stretch_up_to_the_limit(
    expression: str, zone: str, start_ms: int, length_ms: int, limit: int
) -> None:
    schedule = parse_cron(expression, zone)
    listed = [due_ms for due_ms in islice(schedule.iter_after(start_ms), limit) if due_ms <= start_ms + length_ms]
    assert schedule.count_between(start_ms, start_ms + length_ms, limit) == len(listed)


@given(st.sampled_from(sorted(zone_names())), st.integers(ms(at("0002-01-01")), ms(at("9998-01-01"))))
@settings(max_examples=3 * EXAMPLES)
def test_timeline_has_the_offset_that_zoneinfo_has(zone: str, instant_ms: int) -> None:
    instant = EPOCH + timedelta(seconds=instant_ms // 1000)
    expected = instant.astimezone(load_zone(zone)).utcoffset()
    assert timedelta(seconds=timeline_of(zone).offset_at(instant_ms // 1000)) == expected


@pytest.mark.parametrize("zone", [zone for zone in ZONES if timeline_of(zone).seasonal])
def test_timeline_misses_no_change_of_a_future_year(zone: str) -> None:
    info, timeline = load_zone(zone), timeline_of(zone)
    start = at("2051-01-01")
    for hour in range(366 * 24):
        instant = start + timedelta(hours=hour)
        expected = instant.astimezone(info).utcoffset()
        assert timedelta(seconds=timeline.offset_at(ms(instant) // 1000)) == expected
