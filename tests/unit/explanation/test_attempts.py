"""Attempts: whether they reached their target, why another was made, and what of an answer is shown."""

from dataclasses import dataclass

import pytest

from tickwheel.domain.explanation.attempts import repetition, stories_of, without_secrets
from tickwheel.domain.explanation.facts import AttemptFacts
from tickwheel.domain.explanation.story import Code, Reached
from tickwheel.domain.job import Job, Lane, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptRecord, Run


def job_of(kind: TargetType) -> Job:
    target = Target(kind, name="send") if kind is TargetType.HANDLER else Target(kind, "https://a.example/x")
    spec = Spec(target=target)
    return Job(b"\0" * 16, "default", "j", ScheduleType.ONE_OFF, Lane.DEFAULT, spec, "", 0, scheduled_ms=0)


WEBHOOK, HANDLER = job_of(TargetType.HTTP_WEBHOOK), job_of(TargetType.HANDLER)


def record(attempt: int, outcome: str, error: str | None = None, status: int = 0) -> AttemptRecord:
    start_ms = 1_000 * attempt
    return AttemptRecord(attempt, attempt, "w", start_ms, start_ms + 100, outcome, status, error)


def run_of(*attempts: AttemptRecord, state: RunState = RunState.SUCCEEDED) -> Run:
    return Run(
        WEBHOOK.job_id, "default", 0, state, 0, len(attempts), len(attempts), Lane.DEFAULT, attempts=attempts
    )


@pytest.mark.parametrize(
    ("facts", "job", "reached"),
    [
        (record(1, "success"), WEBHOOK, Reached.YES),
        (record(1, "retryable", "answered 503", 503), WEBHOOK, Reached.YES),
        (record(1, "retryable", "the connection was refused"), WEBHOOK, Reached.NO),
        (record(1, "timeout", "no connection within 5000 ms"), WEBHOOK, Reached.NO),
        (record(1, "timeout", "no complete answer within 1000 ms"), WEBHOOK, Reached.UNKNOWN),
        (record(1, "retryable", "the connection broke while the request was sent"), WEBHOOK, Reached.UNKNOWN),
        (record(1, "retryable", "ValueError"), HANDLER, Reached.YES),
        (record(1, "lost"), HANDLER, Reached.UNKNOWN),
        (record(1, "running"), WEBHOOK, Reached.UNKNOWN),
    ],
)
def test_whether_the_target_was_reached(facts: AttemptFacts, job: Job, reached: Reached) -> None:
    assert isinstance(facts, AttemptRecord)
    [story] = stories_of(run_of(facts), job)
    assert story.reached is reached


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (record(1, "retryable", "answered 503", 503), record(2, "success"), Code.RETRY),
        (record(1, "timeout", "no complete answer within 9 ms"), record(2, "success"), Code.TIMEOUT),
        (record(1, "lost"), record(2, "success"), Code.WORKER_LOST),
        (record(1, "unstarted", "shutting down"), record(1, "success"), Code.HANDED_BACK),
        (record(1, "snooze"), record(1, "success"), Code.SNOOZED),
        (record(4, "retryable", "answered 503", 503), record(1, "success"), Code.REDRIVEN),
        (record(1, "permanent", "answered 404", 404), record(1, "success"), Code.REDRIVEN),
        (record(4, "lost"), record(1, "success"), Code.REDRIVEN),
    ],
)
def test_why_another_attempt_was_made(first: AttemptRecord, second: AttemptRecord, code: Code) -> None:
    story = stories_of(run_of(first, second), WEBHOOK)[1]
    assert story.why is not None
    assert story.why.code is code


def test_a_target_that_was_never_reached_was_not_called_twice() -> None:
    run = run_of(record(1, "retryable", "the connection was refused"), record(2, "success"))
    assert repetition(stories_of(run, WEBHOOK), run) is None


def test_the_token_that_counts_is_named() -> None:
    run = run_of(record(1, "retryable", "answered 503", 503), record(2, "success"), record(3, "success"))
    told = repetition(stories_of(run, WEBHOOK), run)
    assert told is not None
    assert told.sentence.startswith("The target was called 3 times; attempt 3 holds the token 3, and its success")


@dataclass
class Echo:
    sent: str
    shown: str


@pytest.mark.parametrize(
    "echo",
    [
        Echo('{"api_key": "k 1", "a": "b"}', '{"api_key": "***", "a": "b"}'),
        Echo("Authorization: Bearer abcdef.123", "Authorization: ***"),
        Echo("got bearer abcdef.123!", "got bearer ***!"),
        Echo("client_secret=s3cr3t&x=1", "client_secret=***&x=1"),
        Echo('{"password": "a\\"b", "x": 1}', '{"password": "***", "x": 1}'),
        Echo('{"access_token": "cut off here', '{"access_token": "***"'),
        Echo("no secrets here, and no bearer of news", "no secrets here, and no bearer of news"),
        Echo("", ""),
    ],
    ids=lambda echo: echo.sent[:20],
)
def test_answers_are_shown_without_credentials(echo: Echo) -> None:
    assert without_secrets(echo.sent) == echo.shown
