"""Times of the clock without an offset: once, twice, or never."""

import pytest

from tickwheel.domain.explanation.wall import is_wall, read_wall
from tickwheel.domain.requests.instants import InstantError, parse_instant


@pytest.mark.parametrize(
    ("text", "zone", "instants"),
    [
        ("2026-07-01T12:00:00", "UTC", ["2026-07-01T12:00:00Z"]),
        ("2026-07-01 12:00", "Europe/Berlin", ["2026-07-01T10:00:00Z"]),
        ("2026-07-01T12:00", "Pacific/Kiritimati", ["2026-06-30T22:00:00Z"]),
        ("2026-10-25T02:30", "Europe/Berlin", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
        ("2026-10-25T03:00", "Europe/Berlin", ["2026-10-25T02:00:00Z"]),
        ("2026-03-29T02:30", "Europe/Berlin", []),
        ("2026-03-29T03:00", "Europe/Berlin", ["2026-03-29T01:00:00Z"]),
        ("2011-12-30T12:00", "Pacific/Apia", []),  # a day that was left out
        ("2900-10-25T12:00", "Europe/Berlin", ["2900-10-25T10:00:00Z"]),
    ],
)
def test_times_of_the_wall_as_instants(text: str, zone: str, instants: list[str]) -> None:
    wall = read_wall(text, zone)
    assert wall.instants_ms == tuple(map(parse_instant, instants))
    assert (wall.gap is not None) == (not instants)


def test_the_gap_says_where_the_clock_leapt_to() -> None:
    gap = read_wall("2026-03-29T02:30", "Europe/Berlin").gap
    assert gap is not None
    assert gap.start * 1_000 == parse_instant("2026-03-29T01:00:00Z")


def test_an_offset_makes_it_an_instant() -> None:
    assert is_wall("2026-07-01T12:00:00")
    assert not is_wall("2026-07-01T12:00:00Z")
    assert not is_wall("2026-07-01T12:00:00+02:00")
    assert not is_wall("tomorrow")


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00", "1969-12-31T23:59", "1970-01-01T00:00", "9999-12-31T23:59:59"]
)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Adak"])
def test_times_that_have_no_instant_here_are_refused(text: str, zone: str) -> None:
    with pytest.raises(InstantError, match="lies before 1970"):
        read_wall(text, zone)


def test_impossible_dates_are_refused() -> None:
    with pytest.raises(InstantError, match="not a date and time that exists"):
        read_wall("2026-02-30T12:00", "UTC")
