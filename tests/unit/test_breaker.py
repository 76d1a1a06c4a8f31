"""A target that answers nothing is left alone and asked now and then."""

import pytest

from tickwheel.domain.breaker import FAILURES_TO_OPEN, Breaker, BreakerState, Cause


def opened(now_ms: int = 0) -> Breaker:
    breaker = Breaker()
    assert breaker.failed(FAILURES_TO_OPEN, now_ms, 1.0)
    return breaker


def test_failures_in_a_row_open_it_and_an_answer_between_them_does_not() -> None:
    breaker = Breaker()
    assert not breaker.failed(FAILURES_TO_OPEN - 1, 0, 0.5)
    breaker.answered(1)
    assert not breaker.failed(FAILURES_TO_OPEN - 1, 2, 0.5)
    assert breaker.failed(1, 3, 0.5)
    assert breaker.look(4) is BreakerState.OPEN


def test_failures_far_apart_are_no_row() -> None:
    breaker = Breaker()
    for minute in range(FAILURES_TO_OPEN * 2):
        assert not breaker.failed(1, minute * 60_001, 0.5)
    assert breaker.is_calm(FAILURES_TO_OPEN * 2 * 60_001)


def test_pauses_grow_from_a_second_to_a_minute() -> None:
    breaker, now_ms, pauses = opened(), 0, []
    for _ in range(9):
        pauses.append(breaker.until_ms - now_ms)
        now_ms = breaker.until_ms
        assert breaker.look(now_ms) is BreakerState.HALF_OPEN
        assert breaker.failed(1, now_ms, 1.0)
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.999])
def test_pauses_have_jitter_and_are_no_shorter_than_a_second(fraction: float) -> None:
    breaker = Breaker()
    breaker.failed(FAILURES_TO_OPEN, 0, fraction)
    assert breaker.until_ms == 1_000
    breaker.look(1_000)
    breaker.failed(1, 1_000, fraction)
    assert 1_500 <= breaker.until_ms - 1_000 <= 2_000


def test_answer_closes_only_a_half_open_one() -> None:
    breaker = opened()
    assert not breaker.answered(500)  # of an attempt from before
    assert breaker.look(999) is BreakerState.OPEN
    assert breaker.look(1_000) is BreakerState.HALF_OPEN
    assert breaker.answered(1_010)
    assert breaker.closed
    breaker.failed(FAILURES_TO_OPEN, 2_000, 1.0)
    assert breaker.until_ms == 3_000  # pauses begin anew


def test_wish_to_be_left_alone_is_kept_for_an_hour_at_most() -> None:
    breaker = Breaker()
    breaker.asked_to_wait(86_400_000, 0)
    assert (breaker.cause, breaker.until_ms) == (Cause.RETRY_AFTER, 3_600_000)
    assert breaker.look(3_599_999) is BreakerState.OPEN
    assert breaker.look(3_600_000) is BreakerState.HALF_OPEN


def test_wish_lengthens_a_pause_and_never_shortens_it() -> None:
    breaker = opened()
    breaker.asked_to_wait(5_000, 100)
    assert breaker.until_ms == 5_100
    breaker.asked_to_wait(1, 200)
    assert breaker.until_ms == 5_100
