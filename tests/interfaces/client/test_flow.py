"""When a request is sent again: every case as a pure sequence of steps."""

from typing import Any

import pytest

from tickwheel import (
    BadCursor,
    Conflict,
    IdempotencyConflict,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    RequestRefused,
    RequestTimedOut,
    ServerUnreachable,
    StoreUnavailable,
    TickwheelError,
    Unauthorized,
    UnexpectedAnswer,
    VersionMismatch,
)
from tickwheel.interfaces.client.calls import Call
from tickwheel.interfaces.client.flow import (
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    RETRY_COUNT,
    NoReply,
    Outcome,
    Pause,
    Reply,
    Send,
    exchange,
)

ONCE = Call(method="POST", path="/x", read=bytes, repeatable=False)
AGAIN = Call(method="POST", path="/x", read=bytes)
DELETE = Call(method="DELETE", path="/x", read=bytes, gone_is_done=True)


def reply(status: int, code: str = "", *, retry_after: str = "", body: bytes | None = None) -> Reply:
    kind = "application/problem+json" if code else "application/json"
    text = f'{{"code":"{code}","detail":"why"}}'.encode() if body is None else body
    return Reply(status, kind, retry_after, False, text if code or body else b"ok", 5, "http://x")


REFUSED = NoReply(ServerUnreachable("refused"), sent=False, took_ms=1)
CUT = NoReply(ServerUnreachable("cut"), sent=True, took_ms=1)
SLOW = NoReply(RequestTimedOut("slow"), sent=True, took_ms=1)
BUSY = reply(429, "overloaded")
UNKNOWN = reply(503, "outcome_unknown")
FINE = reply(200)


def run(call: Call[bytes], *outcomes: Outcome) -> tuple[Any, int, list[int]]:
    """(result or error, requests sent, pauses in ms); the last outcome is given again and again."""
    flow = exchange(call)
    sent = 0
    pauses: list[int] = []
    given: Outcome = None
    while True:
        try:
            step = flow.send(given)
        except StopIteration as done:
            return done.value, sent, pauses
        except TickwheelError as error:
            return error, sent, pauses
        if isinstance(step, Send):
            given = outcomes[min(sent, len(outcomes) - 1)]
            sent += 1
        else:
            assert isinstance(step, Pause)
            pauses.append(step.length_ms)
            given = None


@pytest.mark.parametrize("call", [ONCE, AGAIN])
@pytest.mark.parametrize("failure", [REFUSED, BUSY, reply(503, "store_unavailable")])
def test_what_certainly_changed_nothing_is_sent_again(call: Call[bytes], failure: Outcome) -> None:
    result, sent, _ = run(call, failure, failure, FINE)
    assert (result, sent) == (b"ok", 3)


@pytest.mark.parametrize("failure", [CUT, SLOW, UNKNOWN])
def test_what_may_have_worked_is_sent_again_only_where_that_does_no_harm(failure: Outcome) -> None:
    assert run(AGAIN, failure, FINE)[:2] == (b"ok", 2)
    error, sent, _ = run(ONCE, failure, FINE)
    assert isinstance(error, TickwheelError)
    assert sent == 1


def test_it_gives_up_after_a_few() -> None:
    error, sent, pauses = run(AGAIN, REFUSED)
    assert isinstance(error, ServerUnreachable)
    assert sent == RETRY_COUNT + 1
    assert len(pauses) == RETRY_COUNT


def test_pauses_are_drawn_below_a_growing_ceiling() -> None:
    drawn = [run(AGAIN, REFUSED)[2] for _ in range(50)]
    for number in range(RETRY_COUNT):
        ceiling = min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << number)
        column = [pauses[number] for pauses in drawn]
        assert all(1 <= pause <= ceiling for pause in column)
        assert len(set(column)) > 1


def test_retry_after_is_waited_for() -> None:
    _, _, pauses = run(AGAIN, reply(429, "overloaded", retry_after="2"), FINE)
    assert 2000 < pauses[0] <= 2000 + FIRST_PAUSE_MS


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5", "٣"])
def test_retry_after_that_is_no_number_is_passed_over(text: str) -> None:
    _, _, pauses = run(AGAIN, reply(429, "overloaded", retry_after=text), FINE)
    assert pauses[0] <= FIRST_PAUSE_MS


def test_long_retry_after_is_the_callers_to_wait() -> None:
    error, sent, _ = run(AGAIN, reply(503, "store_unavailable", retry_after="3600"), FINE)
    assert isinstance(error, StoreUnavailable)
    assert sent == 1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", NotFound),
        (409, "conflict", Conflict),
        (412, "version_mismatch", VersionMismatch),
        (422, "idempotency_key_reused", IdempotencyConflict),
        (422, "invalid_request", InvalidRequest),
        (400, "bad_cursor", BadCursor),
        (401, "unauthorized", Unauthorized),
        (415, "unsupported_media_type", RequestRefused),
        (500, "internal", RequestRefused),
    ],
)
def test_what_repeating_can_not_mend_is_raised_at_once(status: int, code: str, kind: type[TickwheelError]) -> None:
    error, sent, _ = run(AGAIN, reply(status, code), FINE)
    assert type(error) is kind
    assert error.code == code
    assert str(error).endswith("why")
    assert sent == 1


def test_fields_that_are_wrong_are_named() -> None:
    body = (
        b'{"code":"invalid_request","detail":"d","errors":[{"field":"target.endpoint","message":"m","code":"c"}]}'
    )
    error, _, _ = run(AGAIN, reply(422, "invalid_request", body=body))
    assert [(p.field, p.message, p.code) for p in error.problems] == [("target.endpoint", "m", "c")]


def test_gone_at_the_second_delete_means_that_the_first_one_worked() -> None:
    assert run(DELETE, CUT, reply(404, "not_found"))[0] == b""
    assert isinstance(run(DELETE, reply(404, "not_found"))[0], NotFound)
    assert isinstance(run(DELETE, REFUSED, reply(404, "not_found"))[0], NotFound)
    assert isinstance(run(AGAIN, CUT, reply(404, "not_found"))[0], NotFound)


@pytest.mark.parametrize(
    "strange",
    [
        reply(502, body=b"<html>Bad Gateway</html>"),
        reply(302, body=b"elsewhere"),
        Reply(500, "application/problem+json", "", False, b"{", 1, "http://x"),
        Reply(500, "application/problem+json", "", False, b"\xff", 1, "http://x"),
    ],
)
def test_answers_of_others_are_told_apart(strange: Reply) -> None:
    error, sent, _ = run(AGAIN, strange)
    assert isinstance(error, UnexpectedAnswer)
    assert sent == 1
    assert "http://x" in str(error)


def test_retryable_and_uncertain_are_different_things() -> None:
    error, _, _ = run(ONCE, UNKNOWN)
    assert isinstance(error, OutcomeUnknown)
    error, sent, _ = run(ONCE, BUSY)
    assert isinstance(error, Overloaded)
    assert sent == RETRY_COUNT + 1
