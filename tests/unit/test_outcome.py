"""Outcomes and decisions: pure, so every case is a line."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.outcome import (
    BACKOFF_FLOOR_MS,
    NOTE_LIMIT_BYTES,
    OK,
    RETRY_AFTER_CAP_MS,
    Outcome,
    OutcomeClass,
    RetryPolicy,
    backoff_ms,
    classify_http,
    clip_text,
    decide,
    parse_retry_after,
)
from tickwheel.domain.run import RunState

NOW_MS = 1_791_000_000_000
POLICY = RetryPolicy(max_retries=3, initial_interval_ms=10_000, multiplier=2.0, max_interval_ms=300_000)
ALMOST_ONE = 1 - 2**-53


def failure(outcome_class: OutcomeClass, **fields: object) -> Outcome:
    return Outcome(outcome_class=outcome_class, error="why", **fields)  # type: ignore[arg-type]  # free keywords


@pytest.mark.pitfall(64)
@pytest.mark.parametrize("fraction", [0.0, 0.5, ALMOST_ONE])
def test_two_hundred_attempts_never_overflow_the_backoff(fraction: float) -> None:
    policy = RetryPolicy(initial_interval_ms=1_000, multiplier=2.0, max_interval_ms=3_600_000)
    waits = [backoff_ms(policy, attempt, fraction) for attempt in range(1, 201)]
    assert all(BACKOFF_FLOOR_MS <= wait <= 3_600_000 for wait in waits)
    assert waits == sorted(waits)
    if fraction == 0.5:
        assert set(waits[12:]) == {1_800_000}


@pytest.mark.pitfall(64)
@given(
    attempt=st.integers(1, 10_000_000),
    fraction=st.floats(0, 1, exclude_max=True),
    initial_ms=st.integers(0, 10**9),
    multiplier=st.floats(0, 1e6),
    cap_ms=st.integers(0, 10**10),
)
def test_backoff_stays_within_floor_and_cap(
    attempt: int, fraction: float, initial_ms: int, multiplier: float, cap_ms: int
) -> None:
    policy = RetryPolicy(initial_interval_ms=initial_ms, multiplier=multiplier, max_interval_ms=cap_ms)
    assert BACKOFF_FLOOR_MS <= backoff_ms(policy, attempt, fraction) <= max(BACKOFF_FLOOR_MS, cap_ms)


def test_backoff_doubles_up_to_the_cap() -> None:
    ceilings = [backoff_ms(POLICY, attempt, ALMOST_ONE) for attempt in range(1, 9)]
    assert [round(ceiling, -3) for ceiling in ceilings] == [
        10_000,
        20_000,
        40_000,
        80_000,
        160_000,
        300_000,
        300_000,
        300_000,
    ]


def test_backoff_is_full_jitter() -> None:
    assert backoff_ms(POLICY, 3, 0.25) == 10_000
    assert backoff_ms(POLICY, 3, 0.0) == BACKOFF_FLOOR_MS


@pytest.mark.parametrize(
    ("expected", "statuses"),
    [
        (OutcomeClass.SUCCESS, [200, 201, 202, 204, 226, 299]),
        (OutcomeClass.RETRYABLE, [408, 421, 423, 425, 429, 500, 502, 503, 504, 507, 520, 599]),
        (OutcomeClass.PERMANENT, [300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 410, 422, 451, 499]),
        (OutcomeClass.PERMANENT, [501, 505]),
        (OutcomeClass.RETRYABLE, [0, 101, 199, 600, 999]),
    ],
)
def test_statuses_have_their_classes(expected: OutcomeClass, statuses: list[int]) -> None:
    assert {status: classify_http(status) for status in statuses} == dict.fromkeys(statuses, expected)


def test_success_succeeds() -> None:
    decision = decide(OK, 4, 2, POLICY, 0.5, NOW_MS)
    assert (decision.state, decision.retry_at_ms, decision.lost_count) == (RunState.SUCCEEDED, None, 0)


@pytest.mark.parametrize("outcome_class", [OutcomeClass.RETRYABLE, OutcomeClass.TIMEOUT])
def test_three_retries_are_four_attempts(outcome_class: OutcomeClass) -> None:
    states = [decide(failure(outcome_class), attempt, 0, POLICY, 0.5, NOW_MS).state for attempt in range(1, 5)]
    assert states == [RunState.SCHEDULED] * 3 + [RunState.FAILED]


def test_no_retries_fail_at_once() -> None:
    policy = RetryPolicy(max_retries=0)
    assert policy.max_attempts == 1
    assert decide(failure(OutcomeClass.RETRYABLE), 1, 0, policy, 0.5, NOW_MS).state is RunState.FAILED


def test_retry_waits_for_the_backoff() -> None:
    decision = decide(failure(OutcomeClass.RETRYABLE), 2, 2, POLICY, 0.5, NOW_MS)
    assert (decision.retry_at_ms, decision.lost_count) == (NOW_MS + 10_000, 0)


@pytest.mark.parametrize(("hint_ms", "expected_ms"), [(60_000, 60_000), (1, 5_000), (0, 5_000), (None, 5_000)])
def test_later_of_backoff_and_retry_after_counts(hint_ms: int | None, expected_ms: int) -> None:
    outcome = failure(OutcomeClass.RETRYABLE, retry_after_ms=hint_ms)
    assert decide(outcome, 1, 0, POLICY, 0.5, NOW_MS).retry_at_ms == NOW_MS + expected_ms


def test_permanent_failure_uses_no_retries() -> None:
    assert decide(failure(OutcomeClass.PERMANENT), 1, 0, POLICY, 0.5, NOW_MS).state is RunState.FAILED


def test_third_lost_worker_quarantines_whatever_is_left() -> None:
    policy = RetryPolicy(max_retries=50)
    lost = failure(OutcomeClass.LOST)
    decisions = [decide(lost, attempt, attempt - 1, policy, 0.5, NOW_MS) for attempt in (1, 2, 3)]
    assert [d.state for d in decisions] == [RunState.SCHEDULED, RunState.SCHEDULED, RunState.FAILED]
    assert [d.lost_count for d in decisions] == [1, 2, 3]
    assert "worker lost 3 times" in decisions[-1].reason


def test_lost_worker_uses_an_attempt_up() -> None:
    assert decide(failure(OutcomeClass.LOST), 4, 0, POLICY, 0.5, NOW_MS).state is RunState.FAILED


def test_unstarted_attempt_is_handed_back_at_once() -> None:
    decision = decide(failure(OutcomeClass.UNSTARTED), 4, 2, POLICY, 0.5, NOW_MS)
    assert (decision.state, decision.retry_at_ms) == (RunState.SCHEDULED, NOW_MS)
    assert not decision.uses_attempt
    assert decision.lost_count == 2


def test_snooze_waits_as_asked_and_uses_no_attempt() -> None:
    decision = decide(failure(OutcomeClass.SNOOZE, retry_after_ms=90_000), 4, 0, POLICY, 0.5, NOW_MS)
    assert (decision.state, decision.retry_at_ms) == (RunState.SCHEDULED, NOW_MS + 90_000)
    assert not decision.uses_attempt


def test_cancelled_stays_cancelled() -> None:
    assert decide(failure(OutcomeClass.CANCELLED), 1, 0, POLICY, 0.5, NOW_MS).state is RunState.CANCELLED


@given(
    outcome_class=st.sampled_from(OutcomeClass),
    attempt=st.integers(1, 200),
    lost_count=st.integers(0, 2),
    fraction=st.floats(0, 1, exclude_max=True),
)
def test_every_outcome_has_a_decision_and_only_waiting_ones_an_instant(
    outcome_class: OutcomeClass, attempt: int, lost_count: int, fraction: float
) -> None:
    decision = decide(failure(outcome_class), attempt, lost_count, POLICY, fraction, NOW_MS)
    assert (decision.retry_at_ms is not None) == (decision.state is RunState.SCHEDULED)
    assert decision.retry_at_ms is None or decision.retry_at_ms >= NOW_MS
    assert decision.reason


def http_date(seconds_from_now: int) -> str:
    moment = datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(seconds=seconds_from_now)
    return format_datetime(moment, usegmt=True)


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("0", 0),
        ("120", 120_000),
        (" 5 ", 5_000),
        ("00000000000000000007", 7_000),
        ("3600", RETRY_AFTER_CAP_MS),
        ("9" * 5000, RETRY_AFTER_CAP_MS),
        (http_date(90), 90_000),
        (http_date(-90), 0),
        (http_date(864_000), RETRY_AFTER_CAP_MS),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
        ("Sun Nov  6 08:49:37 1994", 0),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("1e3", None),
        ("٣", None),
        ("soon", None),
        ("Mon, 99 Foo 2026 99:99:99 GMT", None),
        ("Mon, 01 Jan 99999 00:00:00 GMT", None),
        ("\x00\x00", None),
    ],
)
def test_retry_after_is_read(value: str, expected_ms: int | None) -> None:
    assert parse_retry_after(value, NOW_MS) == expected_ms


@given(st.text(max_size=80))
def test_retry_after_survives_anything(value: str) -> None:
    length_ms = parse_retry_after(value, NOW_MS)
    assert length_ms is None or 0 <= length_ms <= RETRY_AFTER_CAP_MS


def test_gone_is_flagged() -> None:
    assert Outcome(outcome_class=OutcomeClass.PERMANENT, http_status=410).endpoint_gone
    assert not OK.endpoint_gone


@given(st.text(max_size=3000))
def test_clipped_text_fits_and_is_a_prefix(text: str) -> None:
    clipped = clip_text(text)
    assert len(clipped.encode()) <= NOTE_LIMIT_BYTES
    assert text.encode("utf-8", "replace").decode().startswith(clipped)


def test_lone_surrogates_are_replaced() -> None:
    assert clip_text("a\ud800b") == "a?b"
