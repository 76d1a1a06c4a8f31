"""What events and calls of the store come to in `/metrics`."""

import re

import numpy as np
import pytest

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.adapters.telemetry.store_calls import StoreCalls
from tickwheel.domain.columns import COMPLETION, ClaimVerdict, CompletionCause, empty
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.ports.events import AttemptsEnded, AuditEnded, ClaimsAnswered, Event
from tickwheel.testing.faulty_store import FaultPlan, FaultyStore
from tickwheel.testing.virtual_clock import VirtualClock
from tickwheel.wiring.measured_store import measured

from ...services.world import World


def shown(*events: Event) -> str:
    metrics = Metrics()
    for event in events:
        metrics.emit(event)
    return metrics.render().decode()


def lines(text: str, name: str) -> set[str]:
    return {line for line in text.splitlines() if re.match(rf"{name}[{{ ]", line) and not line.endswith(" 0.0")}


def laps(*unaccounted: int) -> list[Event]:
    return [AuditEnded(accepted=9, unaccounted=count, overdue=0, examples=()) for count in unaccounted]


def test_what_is_lost_is_counted_when_it_is_found_and_not_again_in_each_lap() -> None:
    assert lines(shown(*laps(0)), "tickwheel_lost_events_total") == set()
    assert lines(shown(*laps(0, 2, 2, 2)), "tickwheel_lost_events_total") == {"tickwheel_lost_events_total 2.0"}
    assert lines(shown(*laps(2, 3, 0, 1)), "tickwheel_lost_events_total") == {"tickwheel_lost_events_total 4.0"}


def test_lost_leases_are_told_from_workers_that_are_proved_dead() -> None:
    rows = empty(COMPLETION, 5)
    rows["outcome"] = OutcomeClass.LOST
    rows["cause"] = [*[CompletionCause.REAPER] * 2, *[CompletionCause.DEAD_OWNER] * 3]
    applied = np.array([True, True, True, True, False])  # the last one was ended by its worker after all
    text = shown(AttemptsEnded(rows=rows, applied=applied, notes={}, works=[None] * 5))
    assert lines(text, "tickwheel_leases_lost_total") == {
        'tickwheel_leases_lost_total{cause="expired"} 2.0',
        'tickwheel_leases_lost_total{cause="proved_dead"} 2.0',
    }
    assert lines(text, "tickwheel_attempts_total") == {'tickwheel_attempts_total{outcome="lost"} 5.0'}


def test_triggers_are_counted_by_lane() -> None:
    verdicts = np.bincount([ClaimVerdict.WON] * 3, minlength=len(ClaimVerdict))
    text = shown(ClaimsAnswered(verdicts=verdicts, took_ms=4, triggers=np.array([0, 2, 0, 1])))
    assert lines(text, "tickwheel_triggers_total") == {
        'tickwheel_triggers_total{lane="HIGH"} 2.0',
        'tickwheel_triggers_total{lane="LOW"} 1.0',
    }


async def test_retries_are_starts_but_no_triggers() -> None:
    world, metrics = World(), Metrics()
    world.behave = lambda work: None
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job(lane=Lane.HIGH))
    await world.clock.advance(100)
    for event in world.events.seen:
        metrics.emit(event)
    assert 'tickwheel_triggers_total{lane="HIGH"} 1.0' in metrics.render().decode()
    assert 'tickwheel_lateness_seconds_count{lane="HIGH"} 1.0' in metrics.render().decode()
    await world.crash(scheduler)
    again = await world.start()
    seen = len(world.events.seen)
    await world.clock.advance(60_000)
    for event in world.events.seen[seen:]:
        metrics.emit(event)
    assert (await world.run_of(job_id)).attempt == 2
    assert 'tickwheel_triggers_total{lane="HIGH"} 1.0' in metrics.render().decode()
    assert 'tickwheel_lateness_seconds_count{lane="HIGH"} 2.0' in metrics.render().decode()
    await world.crash(again)


async def test_calls_of_the_store_are_timed_and_counted_by_verb() -> None:
    clock, metrics = VirtualClock(), Metrics()
    faulty = FaultyStore(MemoryStore(clock), FaultPlan(seed=1, refuse_rate=1.0, lose_answer_rate=0.0))
    faulty.healed = True
    store = measured(faulty, StoreCalls(metrics), clock)
    world = World(clock=clock)
    await store.insert_jobs([world.job(), world.job(), world.job()])
    faulty.healed = False
    with pytest.raises(StoreUnavailable):
        await store.insert_jobs([world.job()])
    faulty.healed = True
    assert len(await store.load_timers(0, clock.now_ms() + 1, 10)) == 3
    assert (await store.counts()).jobs == 3  # what is not measured is there as well
    text = metrics.render().decode()
    assert lines(text, "tickwheel_commits_total") == {'tickwheel_commits_total{verb="insert"} 1.0'}
    assert lines(text, "tickwheel_store_seconds_count") == {
        'tickwheel_store_seconds_count{verb="insert"} 2.0',
        'tickwheel_store_seconds_count{verb="load"} 1.0',
    }
    assert lines(text, "tickwheel_store_batch_rows_sum") == {
        'tickwheel_store_batch_rows_sum{verb="insert"} 3.0',
        'tickwheel_store_batch_rows_sum{verb="load"} 3.0',
    }


def test_a_slow_call_is_in_its_bucket() -> None:
    metrics = Metrics()
    StoreCalls(metrics).answered("claim", 500, 40)
    text = metrics.render().decode()
    assert 'tickwheel_store_seconds_bucket{le="0.025",verb="claim"} 0.0' in text
    assert 'tickwheel_store_seconds_bucket{le="0.05",verb="claim"} 1.0' in text
    assert 'tickwheel_store_seconds_sum{verb="claim"} 0.04' in text
    assert 'tickwheel_store_batch_rows_bucket{le="1024.0",verb="claim"} 1.0' in text


def test_histograms_are_not_shown_by_a_reading() -> None:
    with pytest.raises(ValueError, match="is a histogram"):
        Metrics().show("lateness_seconds", lambda: 1.0)
