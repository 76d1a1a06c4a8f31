"""What a node says of the runs that wait on it, whatever they wait for."""

import pytest

from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.domain.vitals import Standing, standing
from tickwheel.ports.executor import Work
from tickwheel.services.delay_book import DelayBook
from tickwheel.services.gates.host_gate import host_of
from tickwheel.services.live.pulse import LOOK_MS, Pulse
from tickwheel.services.live.recent import Recent
from tickwheel.services.scheduler import Scheduler

from .explaining_world import ExplainingWorld

TROUBLED = "https://troubled.example/x"
DEAD = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="the connection was refused")


def behave(work: Work) -> Outcome:
    is_dead = work.target.endpoint and host_of(work.target.endpoint) == "troubled.example"
    return DEAD if is_dead else OK


def pulse_of(world: ExplainingWorld, scheduler: Scheduler, book: DelayBook) -> Pulse:
    pulse = Pulse(
        Recent(world.clock),
        scheduler,
        ownership=lambda: None,
        is_leader=lambda: True,
        name="here",
        version="1.0",
        roles=("scheduler",),
    )
    pulse.book = book
    return pulse


async def test_runs_that_are_held_for_a_dead_host_are_overdue_and_the_host_is_told() -> None:
    world = ExplainingWorld()
    world.behave = behave
    scheduler = await world.start()
    pulse = pulse_of(world, scheduler, world.book)
    await world.add(scheduler, *(world.job(in_ms=10, endpoint=TROUBLED) for _ in range(100)))
    await world.clock.advance(30_000)
    vitals = pulse.vitals()
    assert vitals.held > 50
    assert vitals.backlog == 0
    assert 25_000 < world.clock.now_ms() - vitals.oldest_due_ms <= 30_000
    assert [(wait.kind, wait.subject, wait.detail) for wait in vitals.waits] == [
        ("target", "troubled.example", "failing")
    ]
    word, says = standing(vitals, world.clock.now_ms())
    assert word is Standing.LATE
    assert says.endswith("It waits for the host troubled.example, which gives no answer.")
    await world.crash(scheduler)


async def test_a_run_whose_handler_nobody_has_waits_and_the_handler_is_told() -> None:
    world = ExplainingWorld()
    world.serves = lambda target: not target.name
    scheduler = await world.start()
    pulse = pulse_of(world, scheduler, world.book)
    await world.add(scheduler, world.job(in_ms=10, handler="absent"))
    await world.clock.advance(20_000)
    vitals = pulse.vitals()
    assert (vitals.due, vitals.elsewhere) == (1, 1)
    assert standing(vitals, world.clock.now_ms())[1].endswith(
        "It waits for the handler absent, which no server or worker has."
    )
    await world.crash(scheduler)


async def test_it_is_looked_for_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ExplainingWorld()
    scheduler = await world.start()
    looks = list[int]()
    lowest = scheduler.gate.lowest_due_ms

    def counted() -> int | None:
        looks.append(world.clock.now_ms())
        return lowest()

    monkeypatch.setattr(scheduler.gate, "lowest_due_ms", counted)
    pulse = pulse_of(world, scheduler, world.book)
    for _ in range(20):
        pulse.vitals()
        await world.clock.advance(LOOK_MS // 10)
    assert len(looks) == 2
    await world.crash(scheduler)
