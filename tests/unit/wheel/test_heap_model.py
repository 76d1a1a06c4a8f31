"""The wheel against the obvious model, a heap of (due time, arming order), under any mix of calls and clocks."""

import heapq

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tickwheel.domain.columns import TIMER, empty
from tickwheel.domain.wheel import MINUTE_MS, SECOND_MS, TICK_MS, TimingWheel
from tickwheel.domain.wheel_slots import HOUR_MS

DAY_MS = 24 * HOUR_MS
MAX_MS = 2**63 - 1
MIN_MS = -(2**63)

starts = st.sampled_from([0, HOUR_MS - 1, 1_790_000_000_123, -5_000])
scales = st.sampled_from([1, TICK_MS, SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS, 3_650 * DAY_MS])
distances = st.builds(lambda scale, part: scale * part // 1_000, scales, st.integers(-500, 3_000))
edges = st.sampled_from([MIN_MS, MIN_MS + 1, -1, 0, 2**31 - 1, 2**31, 2**32, MAX_MS - 1, MAX_MS])
limits = st.none() | st.sampled_from([0, 1, 2, 50])


class WheelMachine(RuleBasedStateMachine):
    @initialize(now_ms=starts, budget_rows=st.sampled_from([1, 3, 40, 10_000]))
    def begin(self, now_ms: int, budget_rows: int) -> None:
        self.now_ms = now_ms
        self.wheel = TimingWheel(now_ms, budget_rows=budget_rows)
        self.heap: list[tuple[int, int]] = []
        self.armed_count = self.left_count = 0

    def arm(self, dues_ms: list[int]) -> None:
        rows = empty(TIMER, len(dues_ms))
        rows["due_ms"] = np.array(dues_ms, dtype=np.int64)
        rows["scheduled_ms"] = np.arange(self.armed_count, self.armed_count + len(rows))
        rows["job_id"] = rows["due_ms"].astype("<i8").view("V8").astype("V16")
        rows["gen"] = -rows["scheduled_ms"] - 1
        rows["flags"] = rows["scheduled_ms"] * 251 % 65_521
        self.wheel.arm(rows)
        rows["due_ms"] = 0  # the wheel must hold a copy
        for due_ms in dues_ms:
            heapq.heappush(self.heap, (due_ms, self.armed_count))
            self.armed_count += 1

    @rule(ahead=st.lists(distances, max_size=40))
    def arm_near_and_far(self, ahead: list[int]) -> None:
        self.arm([self.now_ms + distance for distance in ahead])

    @rule(ahead=distances, count=st.integers(1, 60))
    def arm_equal_dues(self, ahead: int, count: int) -> None:
        self.arm([self.now_ms + ahead] * count)

    @rule(ahead=distances, step=st.sampled_from([1, 7, 997, 60_001]), count=st.integers(25, 300))
    def arm_spread(self, ahead: int, step: int, count: int) -> None:
        self.arm([self.now_ms + ahead + step * (at * 31 % count) for at in range(count)])

    @rule(due_ms=edges)
    def arm_at_an_integer_edge(self, due_ms: int) -> None:
        self.arm([due_ms])

    @rule(by=distances, limit=limits)
    def advance_somewhere(self, by: int, limit: int | None) -> None:
        self.advance(self.now_ms + by, limit)

    @rule(by=st.integers(0, 12), limit=limits)
    def advance_by_ticks(self, by: int, limit: int | None) -> None:
        self.advance(self.now_ms + by, limit)

    @rule(limit=limits)
    @precondition(lambda self: self.heap)
    def advance_to_next(self, limit: int | None) -> None:
        next_ms = self.wheel.next_due_ms()
        assert next_ms is not None
        if abs(next_ms) < 2**60:
            self.advance(next_ms, limit)

    @rule(now_ms=edges)
    def look_in_from_an_integer_edge(self, now_ms: int) -> None:
        back = self.now_ms
        self.advance(now_ms, 3)
        self.now_ms = back

    @rule(divisor=st.integers(2, 5))
    def drop_some(self, divisor: int) -> None:
        gone = self.wheel.retain(lambda rows: rows["scheduled_ms"] % divisor != 0)
        kept = [entry for entry in self.heap if entry[1] % divisor]
        assert gone == len(self.heap) - len(kept)
        self.left_count += gone
        self.heap = kept
        heapq.heapify(self.heap)

    def advance(self, now_ms: int, limit: int | None) -> None:
        self.now_ms = now_ms
        rows = self.wheel.advance(now_ms, limit)
        expected: list[tuple[int, int]] = []
        while self.heap and self.heap[0][0] <= now_ms and (limit is None or len(expected) < limit):
            expected.append(heapq.heappop(self.heap))
        assert list(zip(rows["due_ms"].tolist(), rows["scheduled_ms"].tolist(), strict=True)) == expected
        assert (rows["gen"] == -rows["scheduled_ms"] - 1).all()
        assert (rows["flags"] == rows["scheduled_ms"] * 251 % 65_521).all()
        assert rows["job_id"].tolist() == [
            due_ms.to_bytes(8, "little", signed=True) + bytes(8) for due_ms, _ in expected
        ]
        self.left_count += len(rows)

    @invariant()
    def every_timer_is_either_armed_or_gone(self) -> None:
        assert len(self.wheel) == len(self.heap) == self.armed_count - self.left_count

    @invariant()
    def next_due_is_never_later_than_the_earliest(self) -> None:
        next_ms, wake_ms = self.wheel.next_due_ms(), self.wheel.next_wake_ms()
        if not self.heap:
            assert next_ms is None
            assert wake_ms is None
        else:
            assert wake_ms is not None
            assert next_ms is not None
            assert wake_ms <= next_ms <= self.heap[0][0]
            assert next_ms > self.heap[0][0] - HOUR_MS

    def teardown(self) -> None:
        if hasattr(self, "wheel"):
            self.advance(MAX_MS, None)
            assert len(self.wheel) == 0


WheelMachine.TestCase.settings = settings(stateful_step_count=40)
TestWheelAgainstHeap = WheelMachine.TestCase
