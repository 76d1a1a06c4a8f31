"""Slots and lanes: what is reserved stays reserved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.job import Lane
from tickwheel.domain.lanes import AGING_MS, LaneSlots

CRITICAL, HIGH, DEFAULT, LOW = Lane
lanes = st.sampled_from(list(Lane))


def fill(slots: LaneSlots, lane: Lane) -> int:
    count = slots.free(lane)
    slots.take(lane, count)
    return count


def test_a_hundred_slots_reserve_as_documented() -> None:
    slots = LaneSlots(100)
    assert fill(slots, LOW) == 76
    assert (slots.free(HIGH), slots.free(CRITICAL), slots.free(DEFAULT)) == (12, 24, 0)


def test_critical_uses_what_high_does_not_but_high_never_what_critical_does_not() -> None:
    slots = LaneSlots(100)
    fill(slots, DEFAULT)
    assert fill(slots, HIGH) == 12
    assert slots.free(CRITICAL) == 12
    slots = LaneSlots(100)
    fill(slots, DEFAULT)
    assert fill(slots, CRITICAL) == 24
    assert slots.free(HIGH) == 0


def test_low_always_moves() -> None:
    slots = LaneSlots(100)
    for lane in (CRITICAL, HIGH, DEFAULT):
        fill(slots, lane)
    assert slots.free(LOW) == 4


@pytest.mark.parametrize("capacity", [4, 5, 8])
def test_few_slots_reserve_one_for_each(capacity: int) -> None:
    slots = LaneSlots(capacity)
    fill(slots, DEFAULT)
    assert (slots.free(HIGH), slots.free(LOW)) == (1, 1)
    assert slots.free(CRITICAL) == 2


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_fewer_than_four_slots_are_all_shared(capacity: int) -> None:
    slots = LaneSlots(capacity)
    assert fill(slots, LOW) == capacity
    assert slots.free(CRITICAL) == 0


@given(st.integers(1, 200), st.lists(st.tuples(lanes, st.booleans()), max_size=300))
def test_slots_are_never_more_than_there_are_and_come_back(capacity: int, moves: list[tuple[Lane, bool]]) -> None:
    slots = LaneSlots(capacity)
    for lane, takes in moves:
        if takes and slots.free(lane) > 0:
            slots.take(lane, 1)
        elif not takes and slots.used[lane]:
            slots.release(lane, 1)
        assert sum(slots.used) <= capacity
        assert all(slots.free(lane) <= capacity - sum(slots.used) for lane in Lane)
    for lane in Lane:
        slots.release(lane, slots.used[lane])
    assert slots.free(CRITICAL) >= slots.free(DEFAULT) > 0


@given(st.integers(4, 200), st.lists(lanes, max_size=400))
def test_lower_lanes_leave_the_reserved_slots_free(capacity: int, wanted: list[Lane]) -> None:
    slots = LaneSlots(capacity)
    for lane in wanted:
        if slots.free(lane) > 0:
            slots.take(lane, 1)
    if not slots.used[CRITICAL]:
        assert slots.free(CRITICAL) >= 1
    if not slots.used[LOW]:
        assert slots.free(LOW) >= 1
    if not slots.used[HIGH] and slots.used[CRITICAL] <= 1:
        assert slots.free(HIGH) >= 1


def test_slots_that_were_not_held_cannot_come_back() -> None:
    with pytest.raises(ValueError, match="gave back more"):
        LaneSlots(5).release(HIGH, 1)


def test_with_reservations_higher_lanes_simply_go_first() -> None:
    assert LaneSlots(4).order([None, 900, 5, 1], AGING_MS * 10) == [HIGH, DEFAULT, LOW]


@pytest.mark.pitfall(61)
def test_without_reservations_a_lane_that_has_waited_long_goes_first() -> None:
    now_ms = 1_000_000
    order = LaneSlots(2).order([now_ms - 5, None, now_ms - 10, now_ms - AGING_MS - 1], now_ms)
    assert order == [LOW, CRITICAL, DEFAULT]


def test_reserved_slots_are_told_apart_from_shared_ones() -> None:
    slots = LaneSlots(100)
    assert [slots.kept(lane) for lane in Lane] == [24, 12, 0, 4]
    slots.take(Lane.LOW, 76)
    assert [slots.kept(lane) for lane in Lane] == [24, 12, 0, 0]
    slots.take(Lane.CRITICAL, 20)
    assert [slots.kept(lane) for lane in Lane] == [4, 4, 0, 0]
