"""Lengths, instants and ordinals as sentences say them."""

import pytest

from tickwheel.domain.explanation.words import at, length, ordinal


@pytest.mark.parametrize(
    ("length_ms", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (2_449, "2.4 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min"),
        (303_500, "5 min 3 s"),
        (3_600_000, "1 h"),
        (3_605_000, "1 h"),
        (7_860_000, "2 h 11 min"),
        (273_600_000, "3 d 4 h"),
        (259_200_000 + 1_000, "3 d"),
    ],
)
def test_lengths_have_two_units_at_most(length_ms: int, words: str) -> None:
    assert length(length_ms) == words


def test_ordinals() -> None:
    numbers = (1, 2, 3, 4, 5, 6, 11, 12, 13, 21, 22, 101, 112)
    words = " ".join(ordinal(number) for number in numbers)
    assert words == "first second third fourth fifth 6th 11th 12th 13th 21st 22nd 101st 112th"


def test_instants_show_milliseconds_where_there_are_any() -> None:
    assert at(0) == "1970-01-01T00:00:00Z"
    assert at(5) == "1970-01-01T00:00:00.005Z"
