"""Against cronsim and croniter: equal where they promise the same, each known difference listed with its reason.

The lists are checked both ways: a difference that has gone (because the library changed) fails the test too.
"""

import re
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from croniter import croniter
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tickwheel.domain.cron import parse_cron
from tickwheel.domain.zones import load_zone

from .acceptance import accepted

EXAMPLES = settings().max_examples  # of the profile that tests/conftest.py loads
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime(1990, 1, 1, tzinfo=UTC), datetime(2090, 1, 1, tzinfo=UTC)


def ours(expression: str, zone: str, start: datetime, count: int) -> list[datetime]:
    found = parse_cron(expression, zone).iter_after((start - EPOCH) // timedelta(milliseconds=1))
    return [EPOCH + timedelta(milliseconds=due_ms) for due_ms in islice(found, count)]


def cronsims(expression: str, zone: str, start: datetime, count: int) -> list[datetime]:
    local = start if zone == "UTC" else start.astimezone(load_zone(zone))
    return [found.astimezone(UTC) for found in islice(CronSim(expression, local), count)]


def croniters(expression: str, zone: str, start: datetime, count: int) -> list[datetime]:
    local = start if zone == "UTC" else start.astimezone(load_zone(zone))
    found = croniter(expression, local, second_at_beginning=True, implement_cron_bug=False)
    return [found.get_next(datetime).astimezone(UTC) for _ in range(count)]


LIBRARIES = {"cronsim": cronsims, "croniter": croniters}


@st.composite
def numbers(draw: st.DrawFn, low: int, high: int) -> str:
    first = draw(st.integers(low, high - 1))
    last = draw(st.integers(first + 1, high))
    step = draw(st.integers(1, (last - first)))  # a step past the range is listed below
    more = draw(st.lists(st.integers(low, high), min_size=1, max_size=3, unique=True))
    return draw(
        st.sampled_from(
            ["*", f"*/{step}", f"{first}", f"{first}-{last}", f"{first}-{last}/{step}", ",".join(map(str, more))]
        )
    )


def expressions(of_month: st.SearchStrategy[str], of_week: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = [numbers(0, 59), numbers(0, 23), of_month, st.one_of(st.just("*"), numbers(1, 12)), of_week]
    return st.tuples(*fields).map(" ".join)


STARTS = st.datetimes(FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None), timezones=st.just(UTC)).map(
    lambda start: start.replace(microsecond=0)
)
MONTH_DAYS = st.one_of(st.just("*"), numbers(1, 28), st.sampled_from(["L", "1,15", "31", "30-31"]))
WEEK_DAYS = st.one_of(
    st.just("*"), numbers(0, 6), st.sampled_from(["MON-FRI", "7", "5L", "2#1", "SUN,WED", "0-7"])
)
CRONSIM_MONTH_DAYS = st.one_of(MONTH_DAYS, st.sampled_from(["LW", "LW,1"]))


@given(expressions(CRONSIM_MONTH_DAYS, WEEK_DAYS), STARTS)
@settings(max_examples=2 * EXAMPLES)
def test_agrees_with_cronsim_in_utc(expression: str, start: datetime) -> None:
    assume(accepted(expression))
    assert ours(expression, "UTC", start, 5) == cronsims(expression, "UTC", start, 5)


@given(st.booleans(), numbers(0, 59), expressions(CRONSIM_MONTH_DAYS, WEEK_DAYS), STARTS)
def test_agrees_with_cronsim_on_seconds(star: bool, second: str, expression: str, start: datetime) -> None:
    expression = f"{'*' if star else second} {expression}"
    assume(accepted(expression))
    assert ours(expression, "UTC", start, 5) == cronsims(expression, "UTC", start, 5)


@given(expressions(MONTH_DAYS, WEEK_DAYS), STARTS)
def test_agrees_with_croniter_in_utc(expression: str, start: datetime) -> None:
    assume(accepted(expression))
    _, _, of_month, _, of_week = expression.split()
    assume(of_month == "*" or of_week == "*" or "*" not in of_month + of_week)  # OR after */n, listed below
    assume(not re.search(r"[L#]", of_month + of_week))  # taken together with other days they are read otherwise
    assert ours(expression, "UTC", start, 5) == croniters(expression, "UTC", start, 5)


@given(
    expressions(MONTH_DAYS, WEEK_DAYS),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata", "America/Phoenix"]),
    STARTS,
)
@settings(max_examples=2 * EXAMPLES)
def test_agrees_with_cronsim_across_changes_of_a_whole_hour(expression: str, zone: str, start: datetime) -> None:
    assume(accepted(expression))
    theirs = cronsims(expression, zone, start, 12)
    assume(theirs[0] > start)  # from the second pass of an overlap it answers in the past, listed below
    assert ours(expression, zone, start, 12) == theirs


BERLIN_GAP, BERLIN_OVERLAP, BERLIN_SECOND_PASS = "2025-03-29T20:00", "2025-10-25T20:00", "2025-10-26T01:10"
HALF_HOUR = "half-hour shift: a tick is lost"
MADE_UP_LATE = "what was due in a jump of 3 hours or more comes at its end"
BOTH_PASSES = "both passes of an overlap"
DIFFERENCES = [
    ("cronsim", "0 30 2 * * *", "Europe/Berlin", BERLIN_GAP, "six fields get no Debian rule: the run is lost"),
    ("cronsim", "0 30 2 * * *", "Europe/Berlin", BERLIN_OVERLAP, "six fields get no Debian rule: two runs"),
    ("cronsim", "30 2 * * *", "Europe/Berlin", BERLIN_SECOND_PASS, "from the second pass it answers in the past"),
    ("cronsim", "45 * * * *", "Australia/Lord_Howe", "2025-04-05T12:00", HALF_HOUR),
    ("cronsim", "0 */2 * * *", "Australia/Lord_Howe", "2025-04-05T12:00", HALF_HOUR),
    ("cronsim", "45 * * * *", "Australia/Lord_Howe", "2025-10-04T12:00", HALF_HOUR),
    ("cronsim", "45 * * * *", "America/Caracas", "2007-12-09T04:00", HALF_HOUR),
    ("cronsim", "0 * * * *", "America/Caracas", "2016-05-01T04:00", HALF_HOUR),
    ("cronsim", "0 */2 * * *", "Asia/Pyongyang", "2018-05-04T12:00", HALF_HOUR),
    ("cronsim", "0 */2 * * *", "America/St_Johns", "2010-11-06T22:00", "one instant is repeated without end"),
    ("cronsim", "0 12 * * *", "Pacific/Apia", "2011-12-29T12:00", MADE_UP_LATE),
    ("cronsim", "0 0 * * *", "Antarctica/Casey", "2016-10-21T10:00", MADE_UP_LATE),
    ("cronsim", "0 0 5-5/2 * *", "UTC", "2026-01-01T00:00", "a range of one value with a step is read as 5/2"),
    (
        "croniter",
        "0 0 */2 * FRI",
        "UTC",
        "2026-01-01T00:00",
        "days are ORed although one field begins with a star",
    ),
    ("croniter", "0 0 13 * */2", "UTC", "2026-01-01T00:00", "days are ORed although one field begins with a star"),
    ("croniter", "0 */2 * * *", "Europe/Berlin", BERLIN_GAP, "job every so often gets a run made up after a gap"),
    ("croniter", "30 2 * * *", "Europe/Berlin", BERLIN_OVERLAP, BOTH_PASSES),
    ("croniter", "0 30 2 * * *", "Europe/Berlin", BERLIN_OVERLAP, BOTH_PASSES),
    ("croniter", "30 2 * * *", "America/Caracas", "2007-12-09T04:00", BOTH_PASSES),
    ("croniter", "0 0 * * *", "America/St_Johns", "2010-11-06T22:00", BOTH_PASSES),
    ("croniter", "30 2 * * *", "Antarctica/Casey", "2018-03-10T10:00", BOTH_PASSES),
    ("croniter", "0 12 * * *", "Pacific/Apia", "2011-12-29T12:00", MADE_UP_LATE),
]


@pytest.mark.parametrize(("library", "expression", "zone", "start", "reason"), DIFFERENCES)
def test_known_difference_is_still_one(library: str, expression: str, zone: str, start: str, reason: str) -> None:
    begin = datetime.fromisoformat(start).replace(tzinfo=UTC)
    assert ours(expression, zone, begin, 6) != LIBRARIES[library](expression, zone, begin, 6), reason


ONLY_OURS = [
    ("cronsim", "0 0 15W * *", "no nW"),
    ("cronsim", "0 0 L-3 * *", "no L-n"),
    ("cronsim", "0 0 * * FRIL", "no names before L"),
    ("cronsim", "0 0 * * FRI-SUN", "no range through Sunday by names"),
    ("cronsim", "0 0 * * 6-0", "no range through Sunday by numbers"),
    ("cronsim", "0 0 ? * MON", "no question mark"),
    ("cronsim", "@daily", "no macros"),
    ("croniter", "0 0 L-3 * *", "no L-n"),
    ("croniter", "0 0 LW * *", "no LW"),
]
ONLY_THEIRS = [
    ("cronsim", "0 0 * * *\n", "outer control characters are ignored"),
    ("cronsim", "0 0 \u00a0 * * *", "any Unicode blank parts fields"),
    ("cronsim", "0 0 L/2 * *", "a step after L is ignored"),
    ("croniter", "50-10 * * * *", "reversed ranges wrap round"),
    ("croniter", "0 0 * * FRI-MON", "reversed ranges wrap round"),
    ("croniter", "R * * * *", "random values"),
    ("croniter", "* * * * *\n", "outer control characters are ignored"),
]


def library_accepts(library: str, expression: str) -> bool:
    try:
        LIBRARIES[library](expression, "UTC", FIRST, 1)
    except (ValueError, CronSimError):
        return False
    return True


@pytest.mark.parametrize(("library", "expression", "reason"), ONLY_OURS)
def test_dialect_goes_further_than_the_library(library: str, expression: str, reason: str) -> None:
    assert accepted(expression), reason
    assert not library_accepts(library, expression), reason


@pytest.mark.parametrize(("library", "expression", "reason"), ONLY_THEIRS)
def test_dialect_is_stricter_than_the_library(library: str, expression: str, reason: str) -> None:
    assert not accepted(expression), reason
    assert library_accepts(library, expression), reason
