"""A node goes by the store's clock, however wrong its own is."""

from collections.abc import Callable

import pytest

from tickwheel.domain.errors import ConfigError, StoreUnavailable
from tickwheel.ports.events import ClockDiffers
from tickwheel.services.store_clock import StoreClock, StoreClockWatch
from tickwheel.testing.virtual_clock import VirtualClock

from .world import Events


class Database:
    """Answers with its own time, each way after some delay."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.ahead_ms = 0
        self.there_ms = self.back_ms = 1
        self.away = False

    def time_ms(self) -> int:
        return self._clock.now_ms() + self.ahead_ms

    async def now_ms(self) -> int:
        if self.away:
            raise StoreUnavailable("away")
        self._clock.step_ms(self.there_ms)
        answer = self.time_ms()
        self._clock.step_ms(self.back_ms)
        return answer


class Machine:
    """The node's machine: its wall clock is `wrong_ms` off the true time that the virtual clock keeps."""

    def __init__(self) -> None:
        self.true = VirtualClock()
        self.wrong_ms = 0
        self.database = Database(self.true)
        self.clock = StoreClock(machine=self.true, wall_ms=lambda: self.true.now_ms() + self.wrong_ms)
        self.events = Events()
        self.watch = StoreClockWatch(clock=self.clock, store=self.database, events=self.events)

    async def ask(self, times: int = 1) -> None:
        for _ in range(times):
            self.true.step_ms(1_000)
            await self.clock.ask(self.database)
            self.watch.tell()

    def error_ms(self) -> int:
        return self.clock.now_ms() - self.database.time_ms()


async def test_time_is_the_databases_whatever_the_machine_says() -> None:
    machine = Machine()
    machine.wrong_ms, machine.database.ahead_ms = -3_000, 400
    machine.clock = StoreClock(machine=machine.true, wall_ms=lambda: machine.true.now_ms() - 3_000)
    await machine.clock.synchronise(machine.database)
    assert abs(machine.error_ms()) <= 1
    machine.true.step_ms(60_000)
    assert abs(machine.error_ms()) <= 1
    assert machine.clock.difference_ms == pytest.approx(-3_400, abs=1)


async def test_the_quickest_answer_counts_and_a_slow_one_changes_nothing() -> None:
    machine = Machine()
    await machine.clock.synchronise(machine.database)
    machine.database.there_ms, machine.database.back_ms = 0, 300  # all the delay on the way back: wrong by 150
    await machine.ask(5)
    assert abs(machine.error_ms()) <= 1


async def test_a_database_whose_clock_was_set_is_followed_though_older_answers_were_quicker() -> None:
    machine = Machine()
    await machine.clock.synchronise(machine.database)
    machine.database.ahead_ms = 700
    machine.database.there_ms = machine.database.back_ms = 20
    await machine.ask()
    assert abs(machine.error_ms()) <= 20
    await machine.ask(30)
    assert abs(machine.error_ms()) <= 20


async def test_time_never_runs_backwards_and_reaches_the_database_slowly() -> None:
    machine = Machine()
    await machine.clock.synchronise(machine.database)
    machine.database.ahead_ms = -1_000
    await machine.ask()
    seen_ms = machine.clock.now_ms()
    assert machine.error_ms() > 900
    for _ in range(400):
        machine.true.step_ms(100)
        now_ms = machine.clock.now_ms()
        assert seen_ms <= now_ms <= seen_ms + 100
        seen_ms = now_ms
    assert abs(machine.error_ms()) <= 1


@pytest.mark.pitfall(46)
async def test_a_machine_two_minutes_ahead_shows_it_and_is_unfit_but_keeps_right_time() -> None:
    machine = Machine()
    await machine.clock.synchronise(machine.database)
    assert machine.clock.unfit_reason() == ""
    machine.wrong_ms = 120_000
    await machine.ask()
    assert machine.clock.difference_ms == pytest.approx(120_000, abs=1)
    assert machine.clock.unfit_reason() == "this machine's clock is 120.0 s ahead of the database's"
    assert abs(machine.error_ms()) <= 1, "its shards were fired on time all the same, until it gave them up"
    (event,) = machine.events.of(ClockDiffers)
    assert event.differs
    machine.wrong_ms = 0
    await machine.ask()
    assert machine.clock.unfit_reason() == ""
    assert [event.differs for event in machine.events.of(ClockDiffers)] == [True, False]


@pytest.mark.parametrize(("wrong_ms", "told"), [(499, 0), (-499, 0), (501, 1), (-501, 1)])
async def test_half_a_second_is_told_once(wrong_ms: int, told: int) -> None:
    machine = Machine()
    machine.wrong_ms = wrong_ms
    await machine.clock.synchronise(machine.database)
    await machine.ask(10)
    assert len(machine.events.of(ClockDiffers)) == told


async def test_at_the_limit_a_node_does_not_flap() -> None:
    machine = Machine()
    await machine.clock.synchronise(machine.database)
    fit = []
    for machine.wrong_ms in (4_900, 5_010, 4_900, 5_010, 4_100, 3_900, 4_900):
        fit.append(not machine.clock.unfit_reason())
    assert fit == [True, False, False, False, False, True, True]


@pytest.mark.parametrize(
    ("wrong_ms", "words"),
    [(10_200, "10.2 s ahead of the database's"), (-10_200, "10.2 s behind the database's")],
)
async def test_a_node_whose_clock_is_ten_seconds_off_refuses_to_start(wrong_ms: int, words: str) -> None:
    machine = Machine()
    machine.wrong_ms = wrong_ms
    await machine.clock.synchronise(machine.database)
    with pytest.raises(ConfigError) as caught:
        machine.clock.refuse_when_off()
    (problem,) = caught.value.problems
    assert problem.field == "clock"
    assert words in problem.message
    assert "chrony" in problem.message


async def test_four_seconds_are_no_reason_not_to_start() -> None:
    machine = Machine()
    machine.wrong_ms = 4_000
    await machine.clock.synchronise(machine.database)
    machine.clock.refuse_when_off()


async def test_while_the_database_is_away_time_goes_on() -> None:
    machine = Machine()
    await machine.clock.synchronise(machine.database)
    machine.database.away = True
    with pytest.raises(StoreUnavailable):
        await machine.clock.ask(machine.database)
    machine.true.step_ms(30_000)
    assert abs(machine.error_ms()) <= 1


def read_from_threads(read: Callable[[], int]) -> list[int]:
    import threading

    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.extend(read() for _ in range(1_000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


async def test_any_thread_may_read_it() -> None:
    machine = Machine()
    await machine.clock.synchronise(machine.database)
    assert len(set(read_from_threads(machine.clock.now_ms))) == 1
