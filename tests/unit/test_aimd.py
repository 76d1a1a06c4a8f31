"""A target that pushes back is given less, and more again when it keeps up."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.aimd import Aimd


class Driven:
    """An Aimd whose rounds are told one after the other, 200 ms apart."""

    def __init__(self, ceiling: int = 64) -> None:
        self.aimd, self.now_ms = Aimd(ceiling), 1_000

    def round(self, took_ms: Sequence[int] = (), pushed: int = 0, *, full: bool = True) -> int:
        self.now_ms += 200
        self.aimd.observe(list(took_ms), pushed, full=full, now_ms=self.now_ms)
        return self.aimd.limit


def test_push_backs_halve_and_quiet_rounds_that_use_all_of_it_add() -> None:
    driven = Driven()
    assert driven.round([5] * 10, pushed=10) == 32
    assert driven.round(pushed=3) == 16
    assert driven.round([5] * 20) == 18
    assert driven.round([5] * 20, full=False) == 18
    for _ in range(40):
        driven.round([5] * 20)
    assert driven.aimd.at_ceiling


def test_one_push_back_in_twenty_ends_is_no_reason() -> None:
    driven = Driven()
    assert driven.round([5] * 19, pushed=1) == 64
    assert driven.round([5] * 18, pushed=1) == 32


def test_one_round_trip_is_judged_once() -> None:
    aimd = Aimd(64)
    aimd.observe([], 5, full=True, now_ms=1_000)
    assert (aimd.limit, aimd.cut_ms) == (32, 1_000)
    for later_ms in range(1_001, 1_100):
        aimd.observe([], 5, full=True, now_ms=later_ms)
    assert aimd.limit == 32
    aimd.observe([], 1, full=True, now_ms=1_100)
    assert aimd.limit == 16


def test_latency_over_twice_the_lowest_cuts_when_the_limit_is_used() -> None:
    driven = Driven()
    driven.round([200] * 20)
    assert driven.round([390] * 20) == 64
    assert driven.round([450] * 20, full=False) == 64
    assert driven.round([450] * 20) == 44


def test_noise_of_milliseconds_does_nothing() -> None:
    driven = Driven()
    driven.round([1] * 20)
    assert driven.round([3] * 20) == 64
    assert driven.round([90] * 20) == 64


def test_slow_and_quick_endpoints_of_one_host_are_no_slowness() -> None:
    driven = Driven()
    for _ in range(20):
        assert driven.round([5] * 15 + [3_000] * 5) == 64
        driven.now_ms += 3_000


def test_target_that_has_become_slower_for_good_is_not_held_down_for_ever() -> None:
    driven = Driven()
    driven.round([100] * 20)
    for _ in range(400):
        driven.round([500] * 20)
        driven.now_ms += 500
    assert driven.aimd.limit == 64


def test_collapsed_limit_doubles_up_to_half_of_what_it_was() -> None:
    driven = Driven()
    driven.aimd.collapse(driven.now_ms)
    assert driven.aimd.limit == 1
    assert [driven.round([5] * 20) for _ in range(7)] == [2, 4, 8, 16, 32, 34, 36]


def test_second_collapse_does_not_forget_the_goal_of_the_first() -> None:
    driven = Driven()
    driven.aimd.collapse(1_000)
    driven.aimd.collapse(2_000)
    driven.now_ms = 2_000
    assert [driven.round([5] * 20) for _ in range(6)] == [2, 4, 8, 16, 32, 34]


@given(
    st.integers(1, 500),
    st.lists(st.tuples(st.lists(st.integers(0, 10_000), max_size=30), st.integers(0, 30), st.booleans())),
)
def test_limit_stays_within_one_and_its_ceiling(ceiling: int, rounds: list[tuple[list[int], int, bool]]) -> None:
    driven = Driven(ceiling)
    for took_ms, pushed, full in rounds:
        assert 1 <= driven.round(took_ms, pushed, full=full) <= ceiling
