"""What a client does, step by step, without doing it.

A flow is a generator: it yields requests to send and pauses to make, is sent the outcomes, and returns the
result. The blocking client and the asyncio client drive the same flows, so both repeat, wait and give up alike. No
clock is read: a transport says how long a request took, pauses have their own length.

**When a request is sent again.** If it certainly changed nothing (no connection, or the server said so): always.
If it may have: only when sending it twice does no harm, which an idempotency key makes true for new jobs. Three
times at most, with growing pauses drawn at random, or as long as `Retry-After` says.
"""

import secrets
from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from tickwheel.domain.errors import NotFound, OutcomeUnknown, TickwheelError
from tickwheel.interfaces.client.calls import Call
from tickwheel.interfaces.client.errors import UnexpectedAnswer, error_of

T = TypeVar("T")

RETRY_COUNT: Final = 3
FIRST_PAUSE_MS: Final = 100
LONGEST_PAUSE_MS: Final = 2_000
LONGEST_RETRY_AFTER_MS: Final = 10_000
"""A server that wants to be left alone for longer is the caller's to wait for."""


class Send(NamedTuple):
    """Send this request."""

    call: Call[Any]


class Pause(NamedTuple):
    """Wait this long."""

    length_ms: int


class Reply(NamedTuple):
    """An answer that arrived whole."""

    status: int
    content_type: str
    retry_after: str
    replayed: bool
    body: bytes
    took_ms: int
    url: str


class NoReply(NamedTuple):
    """No whole answer. `sent`: the request may have reached the server."""

    error: TickwheelError
    sent: bool
    took_ms: int


Step: TypeAlias = Send | Pause
Outcome: TypeAlias = Reply | NoReply | None
Flow: TypeAlias = Generator[Step, Outcome, T]


def exchange(call: Call[T]) -> Flow[T]:
    """Send a request, again where that may help and does no harm; its answer, read."""
    uncertain = False
    for attempt in range(RETRY_COUNT + 1):
        outcome = yield Send(call)
        if isinstance(outcome, Reply) and 200 <= outcome.status < 300:
            return _read(call, outcome)
        error, pause_ms, certain = _failure(outcome, attempt)
        if isinstance(error, NotFound) and uncertain and call.gone_is_done:
            return call.read(b"")
        if attempt == RETRY_COUNT or pause_ms is None or not (certain or call.repeatable):
            raise error
        uncertain = uncertain or not certain
        yield Pause(pause_ms)
    raise AssertionError("the last attempt returns or raises")


def _read(call: Call[T], reply: Reply) -> T:
    try:
        answer = call.read(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnexpectedAnswer(f"{reply.url} answered what Tickwheel's API does not: {error}") from error
    return call.if_replayed(answer) if reply.replayed and call.if_replayed else answer


def _failure(outcome: Outcome, attempt: int) -> tuple[TickwheelError, int | None, bool]:
    """(what to raise, how long to pause before another attempt or None, whether nothing was changed for sure)."""
    if isinstance(outcome, NoReply):
        return outcome.error, _backoff_ms(attempt), not outcome.sent
    assert isinstance(outcome, Reply)
    error = error_of(outcome.status, outcome.content_type, outcome.body, outcome.url)
    pause_ms = _retry_after_ms(outcome.retry_after, attempt) if error.retryable else None
    return error, pause_ms, not isinstance(error, OutcomeUnknown)


def _retry_after_ms(text: str, attempt: int) -> int | None:
    backoff_ms = _backoff_ms(attempt)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        return backoff_ms
    asked_ms = int(text) * 1000
    return None if asked_ms > LONGEST_RETRY_AFTER_MS else asked_ms + backoff_ms


def _backoff_ms(attempt: int) -> int:
    return secrets.randbelow(min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << attempt)) + 1
