"""Starts are counted against the objectives: on time or late, by lane and by tenant, here and elsewhere."""

import numpy as np
import pytest

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.domain.job import Lane, TargetType
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.domain.slo import Counted, Window, parse_objectives
from tickwheel.ports.events import AttemptsStarted, Event, RunsQueued
from tickwheel.ports.workers import WorkerNote
from tickwheel.services.punctuality import Punctuality
from tickwheel.testing.virtual_clock import VirtualClock

from .world import Events, World

DEAD = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="the connection was refused")


class Of:
    """Work of a tenant."""

    def __init__(self, tenant_id: str) -> None:
        self.tenant_id = tenant_id


class Heard(Events):
    """Keeps every event, and tells the objectives."""

    punctuality: Punctuality

    def emit(self, event: Event) -> None:
        super().emit(event)
        self.punctuality.emit(event)


def started(*late: tuple[int, Lane, str]) -> AttemptsStarted:
    return AttemptsStarted(
        lateness_ms=np.array([ms for ms, _, _ in late], dtype=np.int64),
        lane=np.array([lane for _, lane, _ in late], dtype=np.int64),
        works=[Of(tenant_id) for _, _, tenant_id in late],
    )


def judged(*texts: str) -> tuple[Punctuality, VirtualClock]:
    clock = VirtualClock()
    return Punctuality(parse_objectives(texts), clock, "here"), clock


def test_a_start_just_within_the_bound_is_on_time() -> None:
    punctuality, _ = judged("HIGH=99%@1s")
    punctuality.emit(started((1_000, Lane.HIGH, "a"), (1_001, Lane.HIGH, "a"), (9_000, Lane.LOW, "a")))
    assert punctuality.totals() == (Counted(2, 1),)


def test_an_objective_is_about_its_lane_its_tenant_or_both() -> None:
    punctuality, _ = judged("HIGH=99%@1s", "tenant:a=99%@1s", "HIGH/tenant:a=99%@1s", "tenant:nobody=99%@1s")
    punctuality.emit(started((5, Lane.HIGH, "a"), (5_000, Lane.HIGH, "b"), (5_000, Lane.LOW, "a")))
    assert punctuality.totals() == (Counted(2, 1), Counted(2, 1), Counted(1, 0), Counted(0, 0))


def test_attainment_names_the_rule_that_is_met_and_forgets_it_when_the_trouble_is_over() -> None:
    punctuality, clock = judged("HIGH=99.9%@1s")
    clock.step_ms(72 * 3_600_000)
    punctuality.emit(started(*[(5, Lane.HIGH, "a")] * 90, *[(5_000, Lane.HIGH, "a")] * 10))
    [bad] = punctuality.attainments()
    assert bad.rule is not None
    assert bad.rule.name == "fast"
    assert bad.counted == Counted(100, 10)
    assert round(bad.burn_rates[Window.FIVE_MINUTES]) == round(1 - bad.budget_left) == 100
    clock.step_ms(3_600_000)
    punctuality.emit(started(*[(5, Lane.HIGH, "a")] * 100))
    [after] = punctuality.attainments()
    assert after.burn_rates[Window.HOUR] == 0
    assert after.counted == Counted(200, 10)
    assert after.rule is not None
    assert after.rule.name == "slow"


@pytest.mark.parametrize("late", [1, 500])
def test_a_restart_after_a_short_stop_alarms_nobody(late: int) -> None:
    punctuality, clock = judged("CRITICAL=99.9%@500ms")
    punctuality.emit(started(*[(6_000, Lane.CRITICAL, "a")] * late))
    for _ in range(360):
        [one] = punctuality.attainments()
        assert one.rule is None
        clock.step_ms(60_000)
        punctuality.emit(started(*[(5, Lane.CRITICAL, "a")] * late))


def test_trouble_that_goes_on_after_a_restart_alarms_within_minutes() -> None:
    punctuality, clock = judged("CRITICAL=99.9%@500ms")
    for _ in range(5):
        assert punctuality.attainments()[0].rule is None
        punctuality.emit(started(*[(6_000, Lane.CRITICAL, "a")] * 3))
        clock.step_ms(60_000)
    rule = punctuality.attainments()[0].rule
    assert rule is not None
    assert rule.name == "fast"


async def test_runs_that_were_held_for_a_dead_target_are_in_no_share() -> None:
    world, heard = World(), Heard()
    heard.punctuality = Punctuality(parse_objectives(["DEFAULT=99%@500ms"]), world.clock, "here")
    world.events = heard
    world.behave = lambda work: DEAD if "dead" in work.target.endpoint else OK
    scheduler = await world.start()
    await world.add(
        scheduler, *(world.job(in_ms=10, endpoint="https://dead.example/x", retries=3) for _ in range(200))
    )
    await world.clock.advance(30_000)
    world.behave = lambda work: OK
    await world.clock.advance(120_000)
    assert (await world.memory.counts()).waiting == 0
    begun = sum(len(event.works) for event in heard.of(AttemptsStarted))
    late = sum(int((event.lateness_ms > 500).sum()) for event in heard.of(AttemptsStarted))
    assert late > 100
    assert heard.punctuality.totals() == (Counted(begun - late, 0),)
    await world.crash(scheduler)


async def test_runs_that_start_here_are_counted_by_their_lateness() -> None:
    world, heard = World(), Heard()
    heard.punctuality = Punctuality(parse_objectives(["DEFAULT=99%@2s"]), world.clock, "here")
    world.events = heard
    await world.add(None, *(world.job(in_ms=-5_000) for _ in range(3)))
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=1_000) for _ in range(4)))
    await world.clock.advance(2_000)
    assert heard.punctuality.totals() == (Counted(7, 3),)
    await world.crash(scheduler)


async def test_runs_for_workers_elsewhere_are_counted_when_they_are_handed_over() -> None:
    clock = VirtualClock()
    world, heard = World(clock=clock, queue=MemoryQueue(clock, 5_000)), Heard()
    heard.punctuality = Punctuality(parse_objectives(["DEFAULT=99%@2s"]), clock, "here")
    world.events, world.serves = heard, lambda target: target.type is not TargetType.HANDLER
    await world.store.enlist_worker("w", WorkerNote(name="w", handlers=("work",), slots=2))
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(handler="work", in_ms=500) for _ in range(4)))
    await clock.advance(1_500)
    assert sum(len(event.works) for event in heard.of(RunsQueued)) == 2  # no more than its slots
    assert heard.punctuality.totals() == (Counted(2, 0),)
    await world.crash(scheduler)
