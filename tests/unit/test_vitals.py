"""How a node does, and all nodes together; and the last minute that it is told from."""

import numpy as np
import pytest

from tickwheel.domain.columns import COMPLETION, empty
from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.domain.vitals import LaneVitals, Standing, Vitals, seconds_text, standing, sum_vitals
from tickwheel.domain.waits import Wait
from tickwheel.ports.events import AttemptsEnded, AttemptsStarted
from tickwheel.services.live.recent import Recent
from tickwheel.testing.virtual_clock import VirtualClock

NOW_MS = 1_700_000_000_000
NOTHING = [0] * len(Lane)


def lanes(**changed: LaneVitals) -> tuple[LaneVitals, ...]:
    return tuple(changed.get(lane.name.lower(), LaneVitals()) for lane in Lane)


def started(lateness_ms: list[int], lane: Lane = Lane.DEFAULT) -> AttemptsStarted:
    return AttemptsStarted(
        lateness_ms=np.array(lateness_ms, dtype=np.int64), lane=np.full(len(lateness_ms), lane, dtype=np.int64)
    )


def ended(*ends: tuple[OutcomeClass, RunState]) -> AttemptsEnded:
    rows = empty(COMPLETION, len(ends))
    rows["outcome"] = [outcome for outcome, _ in ends]
    rows["state"] = [state for _, state in ends]
    return AttemptsEnded(rows, np.ones(len(ends), dtype=bool), {}, [None] * len(ends))


def test_what_waits_now_counts_more_than_what_was_late() -> None:
    vitals = Vitals(lanes(default=LaneVitals(100, 5, 20, 30, backlog=7, oldest_due_ms=NOW_MS - 34_000)))
    assert standing(vitals, NOW_MS) == (Standing.LATE, "Late: 7 due runs wait for a slot, the oldest for 34.0 s.")


def test_a_slow_lane_is_late_though_nothing_waits() -> None:
    vitals = Vitals(lanes(high=LaneVitals(100, 5, 1_001, 2_000), low=LaneVitals(10, 1, 2, 3)))
    word, says = standing(vitals, NOW_MS)
    assert word is Standing.LATE
    assert says.startswith("Late: of the 100 runs of the lane HIGH in the last minute 1 in 100 began 1.0 s or m")


def test_of_few_runs_the_slowest_is_told() -> None:
    few = Vitals(lanes(default=LaneVitals(27, 5, 319_000, 319_000)))
    assert standing(few, NOW_MS)[1] == (
        "Late: the slowest of the 27 runs of the last minute began 5 min 19 s after it was due."
    )
    one = Vitals(lanes(default=LaneVitals(1, 2_000, 2_000, 2_000)))
    assert standing(one, NOW_MS)[1] == "Late: the run of the last minute began 2.0 s after it was due."
    assert standing(Vitals(lanes(default=LaneVitals(27, 5, 9, 11))), NOW_MS)[1] == (
        "On time: 27 runs began in the last minute, all within 11 ms."
    )


def test_what_is_held_is_overdue_too_and_the_reason_is_told() -> None:
    host = Wait("target", "pay.example", NOW_MS - 200_000, NOW_MS, "failing")
    held = Vitals(held=16, held_due_ms=NOW_MS - 200_000, waits=(host,))
    assert standing(held, NOW_MS) == (
        Standing.LATE,
        "Late: 16 due runs wait, the oldest for 3 min 20 s. "
        "It waits for the host pay.example, which gives no answer.",
    )
    without_worker = Vitals(elsewhere=1, held_due_ms=NOW_MS - 5_000)
    assert standing(without_worker, NOW_MS)[1] == "Late: 1 due run waits, the oldest for 5.0 s."


def test_what_held_runs_until_a_moment_ago_is_told_of_those_that_were_late() -> None:
    host = Wait("target", "pay.example", NOW_MS - 340_000, NOW_MS - 20_000, "failing")
    late = Vitals(lanes(default=LaneVitals(27, 5, 319_000, 319_000)), waits=(host,))
    assert standing(late, NOW_MS)[1].endswith("It waited for the host pay.example, which gives no answer.")
    short = Wait("slots", "webhook/DEFAULT", NOW_MS - 40_000, NOW_MS - 20_000)
    unknown = Vitals(late.lanes, waits=(short,))
    assert standing(unknown, NOW_MS)[1].endswith("after it was due.")  # too short to be the reason


@pytest.mark.parametrize(
    ("vitals", "word"),
    [
        (Vitals(lanes(default=LaneVitals(1, 3, 3, 3))), Standing.ON_TIME),
        (Vitals(lanes(default=LaneVitals(0, 0, 0, 0, 3, NOW_MS - 1_000))), Standing.IDLE),
        (Vitals(), Standing.IDLE),
    ],
)
def test_otherwise_all_is_well(vitals: Vitals, word: Standing) -> None:
    assert standing(vitals, NOW_MS)[0] is word


def test_nodes_add_up_and_the_slowest_counts() -> None:
    one = Vitals(lanes(low=LaneVitals(10, 5, 9, 9, 1, NOW_MS - 5)), 1, 2, 3, 4, 5, 6)
    two = Vitals(lanes(low=LaneVitals(5, 2, 30, 40, 2, NOW_MS - 50)), 1, 1, 1, 1, 1, 1)
    assert sum_vitals([Vitals(held_due_ms=9), Vitals(held_due_ms=4), Vitals()]).held_due_ms == 4
    both = sum_vitals([one, two, Vitals()])
    assert both == Vitals(lanes(low=LaneVitals(15, 5, 30, 40, 3, NOW_MS - 50)), 2, 3, 4, 5, 6, 7)
    assert (both.started, both.backlog, both.oldest_due_ms) == (15, 3, NOW_MS - 50)


@pytest.mark.parametrize(
    ("one", "two", "both"),
    [
        ((), (), ()),
        ((1, 2, 3), (), (1, 2, 3)),
        ((1, 2, 3), (10, 20), (1, 12, 23)),
        ((10, 20), (1, 2, 3), (1, 12, 23)),
        ((1,) * 60, (1,) * 90, (2,) * 60),
    ],
)
def test_seconds_add_up_from_the_latest_one(
    one: tuple[int, ...], two: tuple[int, ...], both: tuple[int, ...]
) -> None:
    total = sum_vitals([Vitals(starts=one, failures=two), Vitals(starts=two, failures=one)])
    assert total.starts == total.failures == both


def test_a_node_of_another_version_may_know_other_lanes() -> None:
    assert sum_vitals([Vitals((LaneVitals(3),))]).started == 3
    assert sum_vitals([Vitals((LaneVitals(1),) * 9)]).started == len(Lane)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0 s"),
        (59_949, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (7_500_000, "2 h 5 min"),
    ],
)
def test_lengths_in_words(ms: int, text: str) -> None:
    assert seconds_text(ms) == text


async def test_percentiles_are_right_to_within_a_quarter() -> None:
    clock = VirtualClock(NOW_MS)
    recent = Recent(clock)
    recent.emit(started([0] * 10 + [100] * 85 + [900] * 5))
    [lane] = [one for one in recent.lanes(NOTHING, NOTHING) if one.started]
    assert lane.started == 100
    assert 100 <= lane.p50_ms <= 125
    assert lane.p99_ms == lane.max_ms == 900


async def test_a_minute_later_all_is_forgotten() -> None:
    clock = VirtualClock(NOW_MS)
    recent = Recent(clock)
    recent.emit(started([3, 4], Lane.HIGH))
    recent.emit(ended((OutcomeClass.SUCCESS, RunState.SUCCEEDED), (OutcomeClass.RETRYABLE, RunState.SCHEDULED)))
    recent.emit(ended((OutcomeClass.PERMANENT, RunState.FAILED), (OutcomeClass.CANCELLED, RunState.CANCELLED)))
    assert recent.ends() == (1, 2, 1)
    await clock.advance(1_000)
    assert recent.by_second()[0][-1] == 2
    assert recent.by_second()[1][-1] == 2
    await clock.advance(58_000)
    assert recent.lanes(NOTHING, NOTHING)[Lane.HIGH].started == 2
    await clock.advance(3_000)
    assert recent.lanes(NOTHING, NOTHING)[Lane.HIGH] == LaneVitals()
    assert recent.ends() == (0, 0, 0)
    assert recent.by_second() == ([0] * 60, [0] * 60)


async def test_seconds_are_told_in_order() -> None:
    clock = VirtualClock(NOW_MS)
    recent = Recent(clock)
    for number in (1, 2, 3):
        recent.emit(started([0] * number))
        await clock.advance(1_000)
    assert recent.by_second()[0][-3:] == [1, 2, 3]
    await clock.advance(3_600_000)
    recent.emit(started([0]))
    assert sum(recent.by_second()[0]) == 0
    await clock.advance(1_000)
    assert recent.by_second()[0] == [0] * 59 + [1]
