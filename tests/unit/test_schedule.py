"""Occurrences: which are due, which run late, which are skipped."""

import pytest

from tickwheel.domain import schedule
from tickwheel.domain.columns import ClaimAction
from tickwheel.domain.job import CatchUp, Spec, Target, TargetType
from tickwheel.domain.requests.instants import parse_instant
from tickwheel.domain.run import SkipReason
from tickwheel.domain.schedule import (
    MISSED_AFTER_MS,
    RECORDED_SKIPS,
    deadline_passed,
    first_occurrence,
    next_occurrence,
    plan_occurrence,
    settle,
)

RUN, SKIP = ClaimAction.RUN, ClaimAction.SKIP
SECOND_MS, MINUTE_MS, DAY_MS = 1000, 60_000, 86_400_000


def at(text: str) -> int:
    return parse_instant(text)


def spec(cron: str, catch_up: CatchUp = CatchUp.FIRE_ONCE, **more: object) -> Spec:
    return Spec(Target(TargetType.HANDLER, name="x"), cron=cron, catch_up=catch_up, **more)  # type: ignore[arg-type]  # each caller gives a field of Spec


def play(
    one: Spec, first_ms: int, now_ms: int, alive_since_ms: int = 0
) -> tuple[list[tuple[int, SkipReason]], int | None]:
    """Claims one occurrence after the other, as the firing engine does, until the next lies in the future."""
    done = []
    due: int | None = first_ms
    while due is not None and due <= now_ms:
        plan = plan_occurrence(one, due, 0, now_ms, alive_since_ms)
        assert (plan.action is RUN) == (plan.reason is SkipReason.NONE)
        assert plan.next_ms is None or plan.next_ms > due
        done.append((due, plan.reason))
        due = plan.next_ms
    return done, due


@pytest.mark.pitfall(97)
def test_a_new_schedule_first_fires_at_its_next_time_and_not_at_once() -> None:
    daily = spec("0 15 * * *", start_ms=at("2026-03-02T14:00:00Z"))
    assert first_occurrence(daily, at("2026-03-02T14:02:00Z")) == at("2026-03-02T15:00:00Z")


def test_an_occurrence_at_the_very_instant_of_creation_belongs_to_the_past() -> None:
    assert first_occurrence(spec("* * * * *"), at("2026-03-02T14:02:00Z")) == at("2026-03-02T14:03:00Z")


def test_start_and_end_bound_the_occurrences() -> None:
    start, end = at("2026-03-02T10:00:00Z"), at("2026-03-02T10:02:00Z")
    minutely = spec("* * * * *", start_ms=start, end_ms=end)
    assert first_occurrence(minutely, start - DAY_MS) == start
    assert next_occurrence(minutely, start, 0) == start + MINUTE_MS
    assert next_occurrence(minutely, start + MINUTE_MS, 0) is None


def test_occurrences_of_a_version_lie_after_it_took_effect() -> None:
    edited = at("2026-03-02T10:30:30Z")
    assert next_occurrence(spec("* * * * *"), at("2026-03-02T10:00:00Z"), edited) == at("2026-03-02T10:31:00Z")


@pytest.mark.parametrize("policy", list(CatchUp))
def test_an_occurrence_on_time_runs_and_names_the_next(policy: CatchUp) -> None:
    due = at("2026-03-02T10:00:00Z")
    plan = plan_occurrence(spec("0 * * * *", policy), due, 0, due + 3)
    assert plan == (RUN, SkipReason.NONE, due + 3_600_000)


@pytest.mark.pitfall(17)
def test_fire_once_runs_the_missed_one_under_its_own_time_and_then_goes_on_in_the_future() -> None:
    due, up = at("2026-03-02T12:30:00Z"), at("2026-03-02T13:30:00Z")
    assert plan_occurrence(spec("30 12 * * *"), due, 0, up, alive_since_ms=up) == (RUN, 0, due + DAY_MS)


def test_fire_once_makes_one_run_out_of_many_missed() -> None:
    down, up = at("2026-03-02T11:30:00Z"), at("2026-03-02T13:30:30Z")
    done, following = play(spec("* * * * *"), down, up)
    assert done == [(down, SkipReason.NONE)]
    assert following == at("2026-03-02T13:31:00Z")


@pytest.mark.pitfall(13)
@pytest.mark.parametrize("phase_ms", [0, 1, 7_000, 14_999])
def test_skip_replays_nothing_after_downtime_and_records_each_missed_one(phase_ms: int) -> None:
    stopped = at("2026-03-02T10:00:00Z") + phase_ms
    started = stopped + 60 * SECOND_MS
    quarter_minutely = spec("*/15 * * * * *", CatchUp.SKIP)
    first = next_occurrence(quarter_minutely, stopped, 0)
    assert first is not None
    done, following = play(quarter_minutely, first, started, alive_since_ms=started + 1)
    assert [reason for _, reason in done] == [SkipReason.CATCH_UP] * 4
    assert following == first + 60 * SECOND_MS


@pytest.mark.pitfall(14)
def test_skip_does_not_drop_work_that_is_late_because_the_process_was_slow() -> None:
    due = at("2026-03-02T10:00:00Z")
    daily = spec("0 10 * * *", CatchUp.SKIP)
    assert plan_occurrence(daily, due, 0, due + 1_800, alive_since_ms=due - 1).action is RUN
    assert plan_occurrence(daily, due, 0, due + MISSED_AFTER_MS, alive_since_ms=due - 1).action is RUN
    assert plan_occurrence(daily, due, 0, due + MISSED_AFTER_MS + 1, alive_since_ms=due - 1).action is SKIP


@pytest.mark.pitfall(14)
@pytest.mark.parametrize("policy", [CatchUp.FIRE_ONCE, CatchUp.FIRE_ALL])
def test_without_a_deadline_nothing_is_too_late(policy: CatchUp) -> None:
    due = at("2026-03-02T10:00:00Z")
    plan = plan_occurrence(
        spec("0 10 2 3 *", policy), due, 0, due + 300 * DAY_MS, alive_since_ms=due + 299 * DAY_MS
    )
    assert plan.action is RUN


def test_fire_all_runs_every_missed_one_in_order() -> None:
    down, up = at("2026-03-02T10:00:00Z"), at("2026-03-02T10:05:10Z")
    done, following = play(spec("* * * * *", CatchUp.FIRE_ALL), down, up)
    assert done == [(down + i * MINUTE_MS, SkipReason.NONE) for i in range(6)]
    assert following == at("2026-03-02T10:06:00Z")


def test_fire_all_runs_the_newest_and_records_the_older_ones() -> None:
    down, up = at("2026-03-02T10:00:00Z"), at("2026-03-02T11:00:10Z")
    done, _ = play(spec("* * * * *", CatchUp.FIRE_ALL, catch_up_max=10), down, up)
    assert [reason for _, reason in done] == [SkipReason.LIMIT] * 51 + [SkipReason.NONE] * 10
    assert done[-1][0] == at("2026-03-02T11:00:00Z")


@pytest.mark.parametrize("policy", [CatchUp.SKIP, CatchUp.FIRE_ALL])
@pytest.mark.parametrize("cron", ["* * * * * *", "* * 9 * * *"])
def test_a_mass_skip_is_bounded_and_loses_none_that_should_run(policy: CatchUp, cron: str) -> None:
    down, up = at("2026-03-02T09:00:00Z"), at("2026-03-09T08:00:00Z")
    one = spec(cron, policy, catch_up_max=50)
    done, following = play(one, down, up, alive_since_ms=up + 1)
    skipped = [due for due, reason in done if reason is not SkipReason.NONE]
    ran = [due for due, reason in done if reason is SkipReason.NONE]
    assert skipped[0] == down
    assert RECORDED_SKIPS <= len(skipped) <= RECORDED_SKIPS + 61
    newest_ms = up if cron == "* * * * * *" else at("2026-03-08T09:59:59Z")
    expected = [newest_ms - i * SECOND_MS for i in range(49, -1, -1)]
    assert ran == (expected if policy is CatchUp.FIRE_ALL else [])
    assert following is not None
    assert following > up


def test_a_deadline_skips_what_is_too_late_and_goes_straight_to_what_is_not() -> None:
    down, up = at("2026-03-02T11:31:00Z"), at("2026-03-02T13:30:30Z")
    done, following = play(spec("* * * * *", deadline_ms=5 * MINUTE_MS), down, up)
    assert done == [(down, SkipReason.DEADLINE), (at("2026-03-02T13:26:00Z"), SkipReason.NONE)]
    assert following == at("2026-03-02T13:31:00Z")


def test_a_deadline_is_not_passed_at_its_very_instant() -> None:
    limited = spec("* * * * *", deadline_ms=5_000)
    assert not deadline_passed(limited, 10_000, 15_000)
    assert deadline_passed(limited, 10_000, 15_001)
    assert not deadline_passed(spec("* * * * *"), 0, 10**13)


@pytest.mark.pitfall(19)
def test_an_uneven_step_shows_every_occurrence() -> None:
    start = at("2026-03-02T10:00:30Z")
    uneven = spec("0/59 * * * * *")
    first = next_occurrence(uneven, start, 0)
    assert first == start + 29 * SECOND_MS
    assert next_occurrence(uneven, first, 0) == start + 30 * SECOND_MS


def test_settling_runs_what_the_policy_runs_and_records_the_rest() -> None:
    first, now = at("2026-03-02T10:00:00Z"), at("2026-03-02T10:03:30Z")
    due = [first + i * MINUTE_MS for i in range(4)]
    paused = SkipReason.PAUSED
    assert settle(spec("* * * * *"), first, now, paused) == [(due[0], 0), *((d, paused) for d in due[1:])]
    assert settle(spec("* * * * *", CatchUp.FIRE_ALL), first, now, paused) == [(d, 0) for d in due]
    assert settle(spec("* * * * *", CatchUp.FIRE_ALL, catch_up_max=1), first, now, paused) == [
        *((d, paused) for d in due[:3]),
        (due[3], 0),
    ]
    assert settle(spec("* * * * *", CatchUp.SKIP), first, now, paused) == [
        *((d, paused) for d in due[:3]),
        (due[3], 0),
    ]
    assert settle(spec("0 10 * * *", CatchUp.SKIP), first, now, paused) == [(first, paused)]


def test_settling_nothing_due_gives_nothing() -> None:
    now = at("2026-03-02T10:00:00Z")
    assert settle(spec("* * * * *"), now + 1, now, SkipReason.PAUSED) == []
    assert settle(spec("* * * * *"), None, now, SkipReason.PAUSED) == []


def test_settling_respects_the_deadline() -> None:
    first, now = at("2026-03-02T10:00:00Z"), at("2026-03-02T10:03:30Z")
    settled = settle(spec("* * * * *", deadline_ms=2 * MINUTE_MS), first, now, SkipReason.CATCH_UP)
    assert [one.reason for one in settled] == [
        SkipReason.DEADLINE,
        SkipReason.DEADLINE,
        SkipReason.NONE,
        SkipReason.CATCH_UP,
    ]


def test_settling_a_year_of_seconds_is_bounded() -> None:
    now = at("2027-03-02T10:00:00Z")
    settled = settle(spec("* * * * * *", CatchUp.FIRE_ALL), at("2026-03-02T10:00:00Z"), now, SkipReason.PAUSED)
    assert len(settled) <= RECORDED_SKIPS + 1 + 100
    assert [one.scheduled_ms for one in settled if one.reason is SkipReason.NONE] == [
        now - i * SECOND_MS for i in range(99, -1, -1)
    ]


@pytest.mark.parametrize("policy", [CatchUp.SKIP, CatchUp.FIRE_ALL])
@pytest.mark.parametrize("cron", ["* * * * *", "*/10 * * * * *", "*/5 9-17 * * 1-5", "* 4 1 */3 *"])
def test_catching_up_after_months_costs_little_at_each_step(
    policy: CatchUp, cron: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, searches = schedule._Calendar.next_after, []

    def search(calendar: schedule._Calendar, after_ms: int) -> int | None:
        searches.append(after_ms)
        return original(calendar, after_ms)

    monkeypatch.setattr(schedule._Calendar, "next_after", search)
    schedule._oldest_kept.cache_clear()
    one, now_ms = spec(cron, policy, catch_up_max=1000), at("2026-06-01T00:00:30Z")
    first_ms = next_occurrence(one, now_ms - 90 * DAY_MS, 0)
    assert first_ms is not None
    done, _ = play(one, first_ms, now_ms)
    assert len(searches) < 2 * len(done) + 25 * (RECORDED_SKIPS + 1000)
