"""What the cascades and the memory cost, counted and not timed."""

import tracemalloc

import numpy as np
import pytest

from tickwheel.domain.wheel import SECOND_MS, TICK_MS, TimingWheel
from tickwheel.domain.wheel_slots import HOUR_MS

from .rows import next_wake_ms, timers

NOW_MS = 1_790_000_000_000
BUDGET_ROWS = 500


@pytest.mark.parametrize("span_ms", [1, SECOND_MS, HOUR_MS])
def test_no_call_moves_more_than_the_budget_while_time_flows(span_ms: int) -> None:
    """20,000 timers of one millisecond, second or hour arrive on time through all levels, 500 rows at a time."""
    wheel = TimingWheel(NOW_MS, budget_rows=BUDGET_ROWS)
    dues = np.random.default_rng(3).integers(0, span_ms, 20_000) + NOW_MS + 5 * HOUR_MS
    wheel.arm(timers(dues))
    now_ms, worst = NOW_MS, 0
    while len(wheel):
        now_ms = max(now_ms + TICK_MS, next_wake_ms(wheel))
        moved = wheel.moved_count
        rows = wheel.advance(now_ms)
        assert (now_ms - rows["due_ms"] < TICK_MS + 1).all()
        worst = max(worst, wheel.moved_count - moved)
    assert 0 < worst <= BUDGET_ROWS
    assert wheel.moved_count == 3 * len(dues)


def test_long_jump_moves_each_row_at_most_three_times() -> None:
    wheel = TimingWheel(NOW_MS, budget_rows=BUDGET_ROWS)
    dues = NOW_MS + np.random.default_rng(4).integers(0, 48 * HOUR_MS, 20_000)
    wheel.arm(timers(dues))
    fired = wheel.advance(NOW_MS + 47 * HOUR_MS)
    assert len(fired) == (dues <= NOW_MS + 47 * HOUR_MS).sum()
    assert wheel.moved_count <= 3 * len(dues)


def test_hours_that_are_over_skip_the_finer_levels() -> None:
    wheel = TimingWheel(NOW_MS, budget_rows=1)
    wheel.arm(timers(NOW_MS + 10 * HOUR_MS + np.arange(5_000)))
    assert len(wheel.advance(NOW_MS + 12 * HOUR_MS)) == 5_000
    assert wheel.moved_count == 0


def test_page_filled_by_late_timers_leaves_the_slots_alone() -> None:
    wheel = TimingWheel(NOW_MS, budget_rows=1)
    wheel.arm(timers([NOW_MS - 1] * 100))
    wheel.arm(timers(NOW_MS + 10 * HOUR_MS + np.arange(5_000)))
    assert len(wheel.advance(NOW_MS + 10 * HOUR_MS + 100, 100)) == 100
    assert wheel.moved_count <= 1


def test_pages_of_a_long_backlog_are_split_no_finer_than_they_need() -> None:
    wheel = TimingWheel(NOW_MS)
    wheel.arm(timers(NOW_MS + np.arange(0, 4 * HOUR_MS, 200)))
    count, now_ms = len(wheel), NOW_MS + 5 * HOUR_MS
    for _ in range(count // 1_000):
        assert len(wheel.advance(now_ms, 1_000)) == 1_000
    assert len(wheel) == 0
    assert wheel.moved_count < 1.5 * count


def test_armed_timer_takes_at_most_forty_bytes() -> None:
    """The small twin of the memory benchmark: allocated bytes, for bulk loads and for single inserts."""
    rng = np.random.default_rng(5)
    loads = [timers(NOW_MS + rng.integers(60_000, HOUR_MS, 20_000)) for _ in range(10)]
    singles = timers(NOW_MS + rng.integers(60_000, HOUR_MS, 20_000))
    wheel = TimingWheel(NOW_MS)
    tracemalloc.start()
    try:
        for rows in loads:
            wheel.arm(rows)
        for at in range(len(singles)):
            wheel.arm(singles[at : at + 1])
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes / len(wheel) <= 40
