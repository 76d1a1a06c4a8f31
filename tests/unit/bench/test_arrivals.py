"""The failover benchmark reads the receiver's log rightly."""

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.arrivals import Arrivals, Effect, Fault

FAULT = Fault(node=0, at_ms=10_000, until_ms=14_000, slow_due_ms=9_000)
PUNCTUAL_MS = 5


def log(*requests: tuple[int, int, int, int, int]) -> Ints:
    return np.array(requests, dtype=np.int64)


def effect(rows: Ints, jobs: list[tuple[int, int, int]]) -> Effect:
    keys, shards, due_ms = np.array(jobs, dtype=np.int64).T
    return Arrivals(rows).effect(FAULT, keys, shards, due_ms)


def test_the_gap_is_the_longest_wait_of_a_run_due_after_the_fault() -> None:
    rows = log(
        (9_900, 9_990, 1, 7, 1),  # late, but due before the fault
        (10_010, 10_900, 2, 7, 1),
        (10_800, 10_901, 3, 7, 1),
        (11_000, 11_000 + PUNCTUAL_MS, 4, 7, 1),
    )
    jobs = [(1, 7, 9_900), (2, 7, 10_010), (3, 7, 10_800), (4, 7, 11_000)]
    assert effect(rows, jobs) == Effect(gap_ms=890, resumed_ms=900, rerun_ms=-1)


def test_resumed_is_when_the_last_shard_fires_again() -> None:
    rows = log((10_010, 10_600, 1, 7, 1), (10_020, 11_200, 2, 8, 1), (10_500, 10_500 + PUNCTUAL_MS, 3, 9, 1))
    assert effect(rows, [(1, 7, 10_010), (2, 8, 10_020), (3, 9, 10_500)]).resumed_ms == 1_200


def test_a_shard_without_a_late_run_did_not_stand_still() -> None:
    rows = log((10_010, 10_012, 1, 7, 1))
    assert effect(rows, [(1, 7, 10_010)]) == Effect(gap_ms=2, resumed_ms=-1, rerun_ms=-1)


def test_a_run_in_flight_counts_until_its_next_attempt() -> None:
    rows = log(
        (9_000, 9_001, 1, 7, 1), (9_000, 9_002, 2, 8, 1), (9_000, 11_500, 1, 7, 2), (9_000, 12_100, 2, 8, 2)
    )
    assert effect(rows, [(1, 7, 9_000), (2, 8, 9_000)]).rerun_ms == 2_100


def test_a_job_that_never_came_is_told() -> None:
    arrivals = Arrivals(log((9_000, 9_001, 1, 7, 1)))
    assert arrivals.first_ms(np.array([1, 2])).tolist() == [9_001, -1]
    assert arrivals.early == 0


def test_an_early_request_is_told() -> None:
    assert Arrivals(log((9_000, 8_999, 1, 7, 1))).early == 1


def again(rows: Ints, jobs: list[tuple[int, int, int]], limit_ms: int = 50) -> list[int]:
    keys, shards, due_ms = np.array(jobs, dtype=np.int64).T
    found: list[int] = Arrivals(rows).punctual_again_ms(FAULT.at_ms, limit_ms, keys, shards, due_ms).tolist()
    return found


def test_a_shard_is_on_time_again_with_its_first_run_that_did_not_wait() -> None:
    rows = log(
        (9_900, 9_901, 1, 7, 1),  # due before the fault
        (10_010, 10_700, 2, 7, 1),  # waited
        (10_650, 10_710, 3, 7, 1),  # a little
        (10_800, 10_800 + PUNCTUAL_MS, 4, 7, 1),
        (10_900, 10_900 + PUNCTUAL_MS, 5, 7, 1),
    )
    jobs = [(1, 7, 9_900), (2, 7, 10_010), (3, 7, 10_650), (4, 7, 10_800), (5, 7, 10_900)]
    assert again(rows, jobs) == [805]
    assert again(rows, jobs, limit_ms=60) == [710]


def test_each_shard_is_on_time_by_itself() -> None:
    rows = log((10_100, 10_101, 1, 7, 1), (10_200, 11_000, 2, 8, 1))
    jobs = [(1, 7, 10_100), (2, 8, 10_200), (3, 9, 10_300)]  # the last one never came
    assert again(rows, jobs) == [101, -1, -1]
