"""Objectives as an operator writes them, and the arithmetic of error budgets."""

import pytest

from tickwheel.config import load_settings
from tickwheel.domain.errors import ConfigError
from tickwheel.domain.job import Lane
from tickwheel.domain.slo import (
    LATE_LEAST,
    OBJECTIVES_MOST,
    PERIOD_MS,
    Counted,
    Objective,
    Tally,
    Window,
    alarming,
    budget_left,
    burn_rate,
    parse_objective,
    watched_rate,
)

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
TARGET = 999_000
CALM = dict.fromkeys(Window, 0.0)
MANY = dict.fromkeys(Window, 1_000)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("HIGH=99.9%@500ms", Objective(999_000, 500, Lane.HIGH)),
        ("LOW=95%@2m", Objective(950_000, 120_000, Lane.LOW)),
        ("CRITICAL=99.9999%@1s", Objective(999_999, 1_000, Lane.CRITICAL)),
        ("tenant:acme=99%@1h", Objective(990_000, HOUR_MS, None, "acme")),
        ("LOW/tenant:a=b/c=99.5%@3s", Objective(995_000, 3_000, Lane.LOW, "a=b/c")),
    ],
)
def test_objectives_are_read(text: str, wanted: Objective) -> None:
    assert parse_objective(text) == wanted
    assert wanted.name == text.rpartition("=")[0]


@pytest.mark.parametrize(
    ("texts", "remedy"),
    [
        (("HIGH",), "must look like DEFAULT=99.9%@1s"),
        (("HIGH=100%@1s",), "must look like"),
        (("HIGH=99.9@1s",), "must look like"),
        (("HIGH=99.9%@0s",), "must look like"),
        (("HIGH=40%@1s",), "less than 50%"),
        (("HIGH=99%@25h",), "more than a day"),
        (("URGENT=99%@1s",), "is no lane; there are CRITICAL, HIGH"),
        (("HIGH/acme=99%@1s",), "LANE/tenant:NAME"),
        (("=99%@1s",), "names a lane or a tenant"),
        (("tenant:=99%@1s",), "names no tenant"),
        (("HIGH=99%@1s", "HIGH=98%@1s"), "has two objectives"),
        (tuple(f"tenant:{n}=99%@1s" for n in range(OBJECTIVES_MOST + 1)), "more than 100"),
    ],
)
def test_wrong_objectives_are_refused_with_setting_and_remedy(texts: tuple[str, ...], remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy) as caught:
        load_settings(flags={"slo": texts}, environ={})
    assert [problem.field for problem in caught.value.problems] == ["--slo"]


def test_each_lane_has_an_objective_unless_settings_say_otherwise() -> None:
    names = [parse_objective(text).lane for text in load_settings(flags={}, environ={}).slo]
    assert names == list(Lane)
    assert load_settings(flags={}, environ={"TICKWHEEL_SLO": ""}).slo == ()


def test_tenants_with_metrics_are_named_once_and_are_few() -> None:
    given = {"TICKWHEEL_METRICS_TENANTS": "acme, bolt"}
    assert load_settings(flags={}, environ=given).metrics_tenants == ("acme", "bolt")
    for texts, remedy in (
        (("acme", "acme"), "is there twice"),
        (tuple(map(str, range(OBJECTIVES_MOST + 1))), "more than 100"),
        (("x" * 300,), "names no tenant"),
    ):
        with pytest.raises(ConfigError, match=remedy):
            load_settings(flags={"metrics_tenants": texts}, environ={})


def test_what_is_late_is_counted_against_what_may_be() -> None:
    assert burn_rate(Counted(10_000, 10), TARGET) == pytest.approx(1.0)
    assert burn_rate(Counted(10_000, 144), TARGET) == pytest.approx(14.4)
    assert budget_left(Counted(10_000, 4), TARGET) == pytest.approx(0.6)
    assert budget_left(Counted(10_000, 25), TARGET) == pytest.approx(-1.5)
    assert (burn_rate(Counted(0, 0), TARGET), budget_left(Counted(0, 0), TARGET)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("rates", "name"),
    [
        ({Window.HOUR: 14.4, Window.FIVE_MINUTES: 14.4}, "fast"),
        ({Window.HOUR: 20.0, Window.FIVE_MINUTES: 14.3}, None),  # the trouble is over
        ({Window.HOUR: 14.3, Window.FIVE_MINUTES: 900.0}, None),  # it has only begun
        ({Window.SIX_HOURS: 6.0, Window.HALF_HOUR: 7.0}, "medium"),
        ({Window.SIX_HOURS: 5.9, Window.HALF_HOUR: 7.0, Window.THREE_DAYS: 1.0}, "slow"),
        ({Window.SIX_HOURS: 0.9, Window.THREE_DAYS: 3.0}, None),
        ({}, None),
    ],
)
def test_a_rule_needs_its_long_and_its_short_window(rates: dict[Window, float], name: str | None) -> None:
    rule = alarming({**CALM, **rates}, MANY, PERIOD_MS)
    assert (None if rule is None else rule.name) == name


@pytest.mark.parametrize(
    ("late", "watched_ms", "name"),
    [
        (LATE_LEAST - 1, PERIOD_MS, None),
        (LATE_LEAST, PERIOD_MS, "fast"),
        (LATE_LEAST, 5 * MINUTE_MS - 1, None),
        (LATE_LEAST, 5 * MINUTE_MS, "fast"),
    ],
)
def test_no_rule_is_met_by_few_late_starts_or_by_a_short_look(
    late: int, watched_ms: int, name: str | None
) -> None:
    rule = alarming(dict.fromkeys(Window, 1_000.0), dict.fromkeys(Window, late), watched_ms)
    assert (None if rule is None else rule.name) == name


def test_what_was_not_watched_of_a_window_counts_as_calm() -> None:
    counted = Counted(1_000, 300)
    assert watched_rate(counted, TARGET, Window.FIVE_MINUTES, 5 * MINUTE_MS) == pytest.approx(300)
    assert watched_rate(counted, TARGET, Window.HOUR, 5 * MINUTE_MS) == pytest.approx(25)
    assert watched_rate(counted, TARGET, Window.HOUR, 9 * HOUR_MS) == pytest.approx(300)
    assert watched_rate(counted, TARGET, Window.HOUR, 0) == 0


def test_windows_look_back_as_far_as_they_say() -> None:
    start_ms = 1_000 * HOUR_MS
    tally = Tally(start_ms)
    tally.note(Counted(10, 1), start_ms)
    for window in Window:
        bucket_ms = MINUTE_MS if window <= Window.SIX_HOURS else HOUR_MS
        last_ms = start_ms + window - bucket_ms  # the bucket under way counts too
        assert tally.over(window, last_ms) == Counted(10, 1), window
        assert tally.over(window, last_ms + bucket_ms) == Counted(0, 0), window


def test_a_start_is_counted_once_however_late_it_is_asked() -> None:
    tally = Tally(0)
    for minute in range(3 * 24 * 60):
        tally.note(Counted(2, 1), minute * MINUTE_MS)
    now_ms = (3 * 24 * 60 - 1) * MINUTE_MS
    assert tally.over(Window.FIVE_MINUTES, now_ms) == Counted(10, 5)
    assert tally.over(Window.SIX_HOURS, now_ms) == Counted(720, 360)
    assert tally.over(Window.PERIOD, now_ms) == Counted(8_640, 4_320)
    assert tally.over(Window.PERIOD, now_ms + 10 * PERIOD_MS) == Counted(0, 0)


def test_windows_are_written_as_prometheus_does() -> None:
    assert [window.label for window in Window] == ["5m", "30m", "1h", "6h", "3d", "30d"]
