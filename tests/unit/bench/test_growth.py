"""The growth benchmark compares medians of rounds."""

import pytest

from tickwheel.interfaces.bench.growth import medians, ratio
from tickwheel.interfaces.bench.outcome import Figures


def test_each_number_is_the_middle_one_of_the_rounds_that_have_it() -> None:
    rounds: list[Figures] = [
        {"late_p99_ms": 900.0, "rate": 500, "processes": 1},
        {"late_p99_ms": 20.0},
        {"late_p99_ms": 30},
        {"claim_us": 12.5},
    ]
    assert medians(rounds) == {"late_p99_ms": 30.0, "claim_us": 12.5}


@pytest.mark.parametrize(
    ("value", "base", "expected"),
    [(30.0, 20.0, 1.5), (0, 20.0, 0.0), (3.0, 0, 3.0), (0, 0, 1.0), (0.02, 0.01, 2.0)],
)
def test_a_ratio_is_by_the_small_store(value: float, base: float, expected: float) -> None:
    """What was too short to be measured there counts as one."""
    assert ratio(value, base) == expected
