"""When new jobs are refused, and when they are taken again."""

import pytest

from tickwheel.domain.shedding import (
    BEHIND_HOLD_MS,
    BEHIND_LIMIT_MS,
    COMMIT_LIMIT_MS,
    LAG_LIMIT_MS,
    UNCOMMITTED_LIMIT,
    WAITING_LIMIT_JOBS,
    Load,
    Shedder,
    Why,
)

QUIET = Load(waiting_jobs=0, commit_ms=0, uncommitted=0, lag_ms=0, behind_ms=0, backlog=0)


@pytest.mark.parametrize(
    ("over", "half", "why"),
    [
        ({"waiting_jobs": WAITING_LIMIT_JOBS + 1}, {"waiting_jobs": WAITING_LIMIT_JOBS // 2}, Why.WAITING),
        (
            {"commit_ms": COMMIT_LIMIT_MS + 1, "waiting_jobs": 1},
            {"commit_ms": COMMIT_LIMIT_MS // 2, "waiting_jobs": 1},
            Why.COMMITS,
        ),
        ({"uncommitted": UNCOMMITTED_LIMIT + 1}, {"uncommitted": UNCOMMITTED_LIMIT // 2}, Why.ENDS),
        ({"lag_ms": LAG_LIMIT_MS + 1}, {"lag_ms": LAG_LIMIT_MS // 2}, Why.LOOP),
    ],
)
def test_each_signal_begins_above_its_limit_and_ends_at_half_of_it(
    over: dict[str, int], half: dict[str, int], why: Why
) -> None:
    shedder = Shedder()
    at_limit = {name: value - 1 for name, value in over.items() if name != "waiting_jobs" or value > 1}
    assert shedder.judge(QUIET._replace(**at_limit), 0) is None
    assert shedder.judge(QUIET._replace(**over), 100) is why
    just_over_half = {name: value // 2 + 1 if value > 1 else value for name, value in over.items()}
    assert shedder.judge(QUIET._replace(**just_over_half), 200) is why
    assert shedder.judge(QUIET._replace(**half), 300) is None
    assert shedder.judge(QUIET._replace(**just_over_half), 400) is None


def test_slow_commits_let_one_in_when_none_waits_so_that_their_end_is_seen() -> None:
    shedder = Shedder()
    assert shedder.judge(QUIET._replace(commit_ms=9_000, waiting_jobs=1), 0) is Why.COMMITS
    assert shedder.judge(QUIET._replace(commit_ms=9_000), 100) is None


def test_backlog_that_shrinks_is_no_reason_for_long() -> None:
    shedder = Shedder()
    late = QUIET._replace(behind_ms=BEHIND_LIMIT_MS + 1)
    assert shedder.judge(late._replace(backlog=1_000), 0) is None
    assert shedder.judge(late._replace(backlog=900), 1_000) is None
    assert shedder.judge(late._replace(backlog=1_100), 2_000) is Why.BEHIND
    assert shedder.judge(late._replace(backlog=1_050), 3_000) is Why.BEHIND
    assert shedder.judge(late._replace(backlog=1_000), 1_999 + BEHIND_HOLD_MS) is Why.BEHIND
    assert shedder.judge(late._replace(backlog=900), 2_000 + BEHIND_HOLD_MS) is None


def test_backlog_that_is_half_as_late_is_well_again() -> None:
    shedder = Shedder()
    late = QUIET._replace(behind_ms=BEHIND_LIMIT_MS + 1)
    shedder.judge(late._replace(backlog=1_000), 1_000)
    assert shedder.judge(late._replace(backlog=1_100), 2_000) is Why.BEHIND
    assert shedder.judge(QUIET._replace(behind_ms=BEHIND_LIMIT_MS // 2, backlog=1_200), 2_100) is None


def test_wait_that_is_asked_for_grows_with_the_time_it_lasts() -> None:
    shedder = Shedder()
    shedder.judge(QUIET._replace(lag_ms=9_999), 0)
    assert [shedder.retry_after_s(at_ms) for at_ms in (0, 9_999, 10_000, 30_000)] == [1, 1, 2, 5]
