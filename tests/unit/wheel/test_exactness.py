"""Never early, never lost, never twice: single cases that stand for a whole kind each."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.domain.wheel import MINUTE_MS, SECOND_MS, TICK_MS, TimingWheel
from tickwheel.domain.wheel_slots import HOUR_MS

from .rows import next_due_ms, next_wake_ms, timers

NOW_MS = 1_790_000_000_123
DAY_MS = 24 * HOUR_MS


def test_timer_fires_at_its_millisecond_and_not_one_before() -> None:
    for due_ms in range(NOW_MS, NOW_MS + 2 * TICK_MS):
        wheel = TimingWheel(NOW_MS - 1)
        wheel.arm(timers([due_ms]))
        assert len(wheel.advance(due_ms - 1)) == 0
        assert wheel.advance(due_ms)["due_ms"].tolist() == [due_ms]
        assert len(wheel.advance(due_ms)) == 0


@pytest.mark.pitfall(76)
@pytest.mark.parametrize(
    "delay_ms", [2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 5_000, 3_650 * DAY_MS]
)
@pytest.mark.parametrize("step_ms", [HOUR_MS // 2, 5 * DAY_MS, 2**33])
def test_long_delay_neither_fires_at_once_nor_wraps_around(delay_ms: int, step_ms: int) -> None:
    wheel = TimingWheel(NOW_MS)
    due_ms = NOW_MS + delay_ms
    wheel.arm(timers([due_ms]))
    for now_ms in [*range(NOW_MS, min(due_ms, NOW_MS + 2_000 * step_ms), step_ms), due_ms - 1]:
        assert len(wheel.advance(now_ms)) == 0
        assert next_due_ms(wheel) <= due_ms
    assert wheel.advance(due_ms)["due_ms"].tolist() == [due_ms]


def test_dues_of_all_past_and_future_round_trip() -> None:
    dues = [-(2**63), -1, 0, 1, NOW_MS, 2**32, 2**53 + 1, 2**63 - 1]
    rows = timers(dues)
    rows["job_id"] = np.frombuffer(bytes(range(16)) * len(dues), "V16")
    rows["gen"] = [-(2**31), 2**31 - 1, 0, -1, 1, 2, 3, 4]
    rows["scheduled_ms"] = [2**63 - 1, -(2**63), *range(6)]
    rows["flags"] = [0, 1, 0xFF, 0x100, 0x7FF0, 0x7FFF, 0x8000, 0xFFFF]
    wheel = TimingWheel(NOW_MS)
    wheel.arm(rows)
    fired = wheel.advance(2**63 - 1)
    assert fired.dtype == TIMER
    assert fired.tobytes() == rows[np.argsort(rows["due_ms"], kind="stable")].tobytes()


@pytest.mark.parametrize("past_the_hour_ms", [0, 1, 123_456])
def test_equal_due_times_keep_the_arming_order_across_all_levels(past_the_hour_ms: int) -> None:
    """Armed while older rows of the slot wait in every coarser level, half split, because the budget is tiny."""
    wheel = TimingWheel(NOW_MS, budget_rows=2)
    due_ms = (NOW_MS // HOUR_MS + 5) * HOUR_MS + past_the_hour_ms
    armed = 0
    for before_ms in [5 * HOUR_MS, 3 * HOUR_MS, 10 * MINUTE_MS, MINUTE_MS, 1_500, 50, 1]:
        wheel.advance(due_ms - before_ms)
        wheel.arm(timers([due_ms] * 30, first=armed))
        wheel.arm(timers([due_ms], first=armed + 30))
        armed += 31
    pages = [wheel.advance(due_ms, 40)["scheduled_ms"] for _ in range(6)]
    assert np.concatenate(pages).tolist() == list(range(armed))


def test_arming_order_holds_across_a_clock_step_back_over_a_half_split_hour() -> None:
    hour_ms = NOW_MS // HOUR_MS * HOUR_MS
    due_ms = hour_ms + 6 * HOUR_MS + 7
    wheel = TimingWheel(hour_ms, budget_rows=1)
    wheel.arm(timers([due_ms] * 30))
    wheel.advance(due_ms - HOUR_MS + 10 * MINUTE_MS)
    wheel.advance(due_ms - 2 * HOUR_MS + 5 * MINUTE_MS)
    wheel.arm(timers([due_ms] * 30, first=30))
    assert wheel.advance(due_ms, 45)["scheduled_ms"].tolist() == list(range(45))
    assert wheel.advance(due_ms)["scheduled_ms"].tolist() == list(range(45, 60))


def test_rows_that_wait_in_a_half_split_second_come_before_later_ones_of_its_first_tick() -> None:
    second_ms = (NOW_MS // SECOND_MS + 4) * SECOND_MS
    wheel = TimingWheel(NOW_MS, budget_rows=1)
    wheel.arm(timers([second_ms + 3, second_ms]))
    wheel.advance(second_ms - 2 * SECOND_MS)
    assert wheel.moved_count == 1
    assert wheel.advance(second_ms + 4, 1)["due_ms"].tolist() == [second_ms]
    assert wheel.advance(second_ms + 4, 1)["due_ms"].tolist() == [second_ms + 3]


def test_limit_returns_the_earliest_and_keeps_the_rest_due() -> None:
    wheel = TimingWheel(NOW_MS)
    dues = [NOW_MS + ms for ms in (900, 5, 7, 6, 65_000, 1)]
    wheel.arm(timers(dues))
    now_ms = NOW_MS + DAY_MS
    assert wheel.advance(now_ms, 0)["due_ms"].tolist() == []
    assert wheel.advance(now_ms, 2)["due_ms"].tolist() == sorted(dues)[:2]
    assert wheel.next_due_ms() == NOW_MS + 6
    wheel.arm(timers([NOW_MS + 800, NOW_MS - 4]))
    assert wheel.advance(now_ms, 3)["due_ms"].tolist() == [NOW_MS - 4, NOW_MS + 6, NOW_MS + 7]
    assert wheel.advance(now_ms, 9)["due_ms"].tolist() == [NOW_MS + 800, NOW_MS + 900, NOW_MS + 65_000]
    assert len(wheel) == 0


def test_negative_limit_and_empty_budget_are_refused() -> None:
    with pytest.raises(ValueError, match="limit"):
        TimingWheel(NOW_MS).advance(NOW_MS, -1)
    with pytest.raises(ValueError, match="budget_rows"):
        TimingWheel(NOW_MS, budget_rows=0)


@pytest.mark.parametrize("slept_ms", [SECOND_MS, HOUR_MS, 40 * DAY_MS])
def test_everything_missed_while_the_machine_slept_is_due_at_once(slept_ms: int) -> None:
    wheel = TimingWheel(NOW_MS)
    dues = np.linspace(NOW_MS, NOW_MS + slept_ms, 5_000).astype(np.int64)
    wheel.arm(timers(np.random.default_rng(1).permutation(dues)))
    wheel.arm(timers([NOW_MS + slept_ms + 1]))
    assert wheel.advance(NOW_MS + slept_ms)["due_ms"].tolist() == dues.tolist()
    assert len(wheel.advance(NOW_MS + slept_ms)) == 0
    assert len(wheel.advance(NOW_MS + slept_ms + 1)) == 1


@pytest.mark.parametrize("step_ms", [1, TICK_MS, MINUTE_MS, HOUR_MS + 1, 400 * DAY_MS])
def test_clock_set_back_repeats_nothing_and_fires_nothing_early(step_ms: int) -> None:
    wheel = TimingWheel(NOW_MS)
    dues = [NOW_MS + ms for ms in (0, 3, 1_000, 70_000, 4_000_000)]
    wheel.arm(timers(dues))
    assert wheel.advance(NOW_MS + 1_000)["due_ms"].tolist() == dues[:3]
    back_ms = NOW_MS - step_ms
    assert len(wheel.advance(back_ms)) == 0
    wheel.arm(timers([back_ms, back_ms + 1, NOW_MS + 2]))
    assert wheel.advance(back_ms)["due_ms"].tolist() == [back_ms]
    assert next_due_ms(wheel) <= back_ms + 1
    assert wheel.advance(NOW_MS + DAY_MS)["due_ms"].tolist() == sorted([back_ms + 1, NOW_MS + 2, *dues[3:]])


def test_timers_armed_after_a_clock_step_of_years_back_are_placed_by_the_new_time() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.advance(NOW_MS + 4_000 * DAY_MS)
    wheel.advance(NOW_MS)
    wheel.arm(timers([NOW_MS + 3 * HOUR_MS + 7] * 100))
    before = wheel.moved_count
    assert len(wheel.advance(NOW_MS + 3 * HOUR_MS)) == 0
    assert wheel.moved_count > before
    assert len(wheel.advance(NOW_MS + 3 * HOUR_MS + 7)) == 100


def test_next_due_is_exact_to_the_tick_near_and_exact_inside_a_tick_that_has_begun() -> None:
    wheel = TimingWheel(NOW_MS)
    assert wheel.next_due_ms() is None
    assert wheel.next_wake_ms() is None
    due_ms = (NOW_MS + 1_500) // TICK_MS * TICK_MS + 3
    wheel.arm(timers([due_ms, NOW_MS + DAY_MS]))
    assert wheel.next_due_ms() == due_ms - 3
    assert len(wheel.advance(due_ms - 3)) == 0
    assert wheel.next_due_ms() == due_ms
    assert len(wheel.advance(due_ms)) == 1
    assert wheel.next_due_ms() == (NOW_MS + DAY_MS) // HOUR_MS * HOUR_MS


def test_ticker_that_sleeps_to_the_next_wake_is_never_late_and_needs_few_calls() -> None:
    rng = np.random.default_rng(7)
    dues = np.sort(rng.integers(NOW_MS, NOW_MS + 8 * HOUR_MS, 300))
    wheel = TimingWheel(NOW_MS)
    wheel.arm(timers(rng.permutation(dues)))
    now_ms, calls, fired = NOW_MS, 0, []
    while len(wheel):
        now_ms = max(now_ms + 1, next_wake_ms(wheel))
        rows = wheel.advance(now_ms)
        assert (now_ms - rows["due_ms"] <= 1).all()
        fired += rows["due_ms"].tolist()
        calls += 1
    assert fired == dues.tolist()
    assert calls < 6 * len(dues)


def test_clear_forgets_every_timer_and_keeps_the_time() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.arm(timers([NOW_MS - 1, NOW_MS + 1, NOW_MS + 5_000, NOW_MS + 200_000, NOW_MS + DAY_MS]))
    wheel.advance(NOW_MS - 5)
    wheel.clear()
    assert len(wheel) == 0
    assert wheel.next_due_ms() is None
    assert len(wheel.advance(NOW_MS + 2 * DAY_MS)) == 0
    wheel.arm(timers([NOW_MS]))
    assert len(wheel.advance(NOW_MS)) == 1


def test_retain_drops_exactly_what_the_mask_refuses_on_every_level() -> None:
    wheel = TimingWheel(NOW_MS)
    dues = [NOW_MS + ms for ms in (-9, 0, 900, 2_000, 100_000, HOUR_MS, DAY_MS) for _ in range(2)]
    wheel.arm(timers(dues))
    assert wheel.retain(lambda rows: rows["scheduled_ms"] % 2 == 1) == 7
    assert len(wheel) == 7
    assert wheel.advance(NOW_MS + 2 * DAY_MS)["scheduled_ms"].tolist() == [1, 3, 5, 7, 9, 11, 13]


def test_retain_whose_mask_fails_leaves_a_working_wheel() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.arm(timers([NOW_MS - 10, NOW_MS + 900, NOW_MS + DAY_MS]))

    def refuse_far(rows: Rows) -> NDArray[np.bool_]:
        if (rows["due_ms"] > NOW_MS + HOUR_MS).any():
            raise LookupError
        return rows["due_ms"] > NOW_MS

    with pytest.raises(LookupError):
        wheel.retain(refuse_far)
    left = len(wheel)
    assert left == 2
    assert len(wheel.advance(NOW_MS + 2 * DAY_MS)) == left
    assert len(wheel) == 0


def test_returned_rows_belong_to_the_caller() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.arm(timers([NOW_MS - 3, NOW_MS - 2, NOW_MS - 1]))
    first = wheel.advance(NOW_MS, 1)
    assert first.base is None  # a view would keep the whole backlog in memory
    first["due_ms"] = 0
    assert wheel.advance(NOW_MS)["due_ms"].tolist() == [NOW_MS - 2, NOW_MS - 1]


def test_arming_nothing_changes_nothing() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.arm(empty(TIMER))
    assert len(wheel) == 0
    assert len(wheel.advance(NOW_MS)) == 0
