"""The clock of a real process, with the machine's clocks in the test's hand."""

from collections.abc import Callable

import pytest

from tickwheel.adapters.system import SystemClock

HOUR_MS = 3_600_000


class Machine:
    def __init__(self) -> None:
        self.wall_ms, self.mono_ms = 1_790_000_000_000, 50_000

    def clock(self) -> SystemClock:
        return SystemClock(wall_ns=lambda: self.wall_ms * 10**6, monotonic_ns=lambda: self.mono_ms * 10**6)

    def pass_ms(self, length_ms: int) -> None:
        self.wall_ms += length_ms
        self.mono_ms += length_ms


def test_time_passes_with_the_machine() -> None:
    machine = Machine()
    clock = machine.clock()
    before_ms = clock.now_ms()
    machine.pass_ms(1_234)
    assert clock.now_ms() - before_ms == 1_234


@pytest.mark.pitfall(44)
def test_step_back_of_an_hour_for_ten_seconds_moves_time_by_less_than_a_second() -> None:
    machine = Machine()
    clock = machine.clock()
    began_ms, seen_ms = clock.now_ms(), clock.now_ms()
    machine.wall_ms -= HOUR_MS
    for _ in range(100):
        machine.pass_ms(100)
        assert clock.now_ms() >= seen_ms
        seen_ms = clock.now_ms()
    assert clock.behind_ms() > HOUR_MS - 1_000
    machine.wall_ms += HOUR_MS
    machine.pass_ms(1)
    assert abs(clock.now_ms() - began_ms - 10_001) <= 1


def test_step_forward_is_followed_at_once() -> None:
    machine = Machine()
    clock = machine.clock()
    before_ms = clock.now_ms()
    machine.wall_ms += HOUR_MS
    machine.pass_ms(10)
    assert clock.now_ms() - before_ms == HOUR_MS + 10
    assert clock.behind_ms() == 0


def test_being_interrupted_while_reading_the_clocks_puts_time_neither_ahead_nor_back() -> None:
    machine = Machine()
    clock = machine.clock()

    def interrupted(read_ns: Callable[[], int]) -> Callable[[], int]:
        def read() -> int:
            seen_ns = read_ns()
            machine.pass_ms(50)  # the thread was not run for so long, just after it had looked
            return seen_ns

        return read

    with pytest.MonkeyPatch.context() as patched:
        machine.pass_ms(1)
        patched.setattr(clock, "_wall_ns", interrupted(clock._wall_ns))
        patched.setattr(clock, "_monotonic_ns", interrupted(clock._monotonic_ns))
        seen_ms = clock.now_ms()
    for _ in range(10):
        now_ms = clock.now_ms()
        assert now_ms <= machine.wall_ms, "early"
        assert now_ms >= seen_ms, "backwards"
        seen_ms = now_ms
        machine.pass_ms(1)
