"""How an attempt ended, and what follows from it.

An executor says what happened (`Outcome`); `decide` is the only place that turns it into the run's next state
(`Decision`), which one fenced write then applies. Nothing here reads a clock or draws: the instant and the
random fraction come in, so a decision can be replayed.
"""

import math
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from tickwheel.domain.run import RunState

NOTE_LIMIT_BYTES: Final = 2048
"""The most that is kept of an error text or an answer excerpt."""
RESULT_LIMIT_BYTES: Final = 65_536
"""The most that is kept of what a handler returned, encoded; a longer result is dropped whole."""
PROGRESS_NOTE_LIMIT_CHARS: Final = 256
BACKOFF_FLOOR_MS: Final = 100
RETRY_AFTER_CAP_MS: Final = 3_600_000
LOST_LIMIT_COUNT: Final = 3
"""Workers lost in a row at which a run is quarantined, whatever attempts are left."""
LOST_SPREAD_MS: Final = 1_000
"""A run whose worker was lost is tried again at a random moment within this."""
GONE_STATUS: Final = 410
"""The endpoint says that it will never be back."""

_RETRYABLE_4XX: Final = frozenset({408, 421, 423, 425, 429})
_PERMANENT_5XX: Final = frozenset({501, 505})
_RETRY_AFTER_DIGITS: Final = 10  # longer numbers are over the cap anyway; int() of megabytes of digits is not


class OutcomeClass(IntEnum):
    """What kind of end an attempt had; stored."""

    SUCCESS = 0
    RETRYABLE = 1
    PERMANENT = 2
    LOST = 3  # the worker is gone; whether the work happened is unknown
    CANCELLED = 4
    UNSTARTED = 5  # handed back: uses no attempt up
    TIMEOUT = 6  # treated as RETRYABLE
    SNOOZE = 7  # the work asked to be called again later: uses no attempt up


class Outcome(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How one attempt ended.

    `error` and `excerpt` (the start of the answer) hold at most `NOTE_LIMIT_BYTES` each; `error` never holds
    a header value, a query string or a payload. `retry_after_ms` is a length from now. `result` is what a
    handler returned, as JSON; `result_dropped` says why what it returned was not kept.
    """

    outcome_class: OutcomeClass
    http_status: int = 0  # 0: there was no complete status line
    error: str | None = None
    excerpt: bytes | None = None
    retry_after_ms: int | None = None
    result: bytes | None = None
    result_dropped: str | None = None
    unsent: bool = False  # for a reason on this side nothing was sent: it says nothing about the target

    @property
    def endpoint_gone(self) -> bool:
        """Whether the target said that it will never be back."""
        return self.http_status == GONE_STATUS


class ProgressNote(msgspec.Struct, frozen=True, gc=False):
    """What an attempt in flight says of itself: how far it is, from 0 to 1, and a line of text."""

    progress: float | None = None
    note: str | None = None


OK: Final = Outcome(outcome_class=OutcomeClass.SUCCESS)
"""A clean success with nothing to note (other successes exist: compare `outcome_class`, not identity)."""


class WhenExhausted(StrEnum):
    """Where a run without an attempt left goes; either way it ends as FAILED and stays in the history."""

    DEAD_LETTER = "dead_letter"
    DROP = "drop"


class RetryPolicy(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How often and when a failed attempt is repeated; `max_retries=3` means four attempts in all."""

    max_retries: int = 3
    initial_interval_ms: int = 10_000
    multiplier: float = 2.0
    max_interval_ms: int = 300_000
    when_exhausted: WhenExhausted = WhenExhausted.DEAD_LETTER

    @property
    def max_attempts(self) -> int:
        """The first attempt and all retries."""
        return self.max_retries + 1


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What the completion of an attempt writes.

    `retry_at_ms` is set exactly when `state` is SCHEDULED. `lost_count` is the number of workers lost in a
    row that the row has to hold from now on. `uses_attempt` is False where the attempt is handed back. `buries`:
    a run that ends as FAILED goes to the dead-letter queue.
    """

    state: RunState
    retry_at_ms: int | None
    reason: str
    lost_count: int = 0
    uses_attempt: bool = True
    buries: bool = True


def backoff_ms(policy: RetryPolicy, attempt: int, fraction: float) -> int:
    """The wait before the `attempt`-th retry: full jitter, `fraction` in [0, 1) of the ceiling.

    The ceiling is `initial * multiplier^(attempt - 1)`, at most `max_interval_ms`; the result is never below
    `BACKOFF_FLOOR_MS`. Attempts count from 1: after the first attempt comes the first retry.
    """
    return max(BACKOFF_FLOOR_MS, int(_ceiling_ms(policy, attempt) * fraction))


def _ceiling_ms(policy: RetryPolicy, attempt: int) -> float:
    initial_ms, cap_ms = policy.initial_interval_ms, policy.max_interval_ms
    if initial_ms <= 0 or cap_ms <= 0:
        return 0
    exponent = max(0, attempt - 1)
    # Compared as logarithms: the power itself overflows a float after a few hundred attempts.
    if policy.multiplier > 1 and exponent * math.log(policy.multiplier) >= math.log(cap_ms / initial_ms):
        return cap_ms
    return min(cap_ms, initial_ms * policy.multiplier**exponent)


def decide(
    outcome: Outcome,
    attempt: int,
    lost_count: int,
    policy: RetryPolicy,
    fraction: float,
    now_ms: int,
) -> Decision:
    """What follows from the end of attempt number `attempt` (from 1).

    `lost_count` is what the row holds: the workers lost in a row *before* this attempt. A cancelled run needs
    no guard here: the write that applies the decision is refused by the row's state.
    """
    buries = policy.when_exhausted is WhenExhausted.DEAD_LETTER
    match outcome.outcome_class:
        case OutcomeClass.SUCCESS:
            return _SUCCEEDED
        case OutcomeClass.CANCELLED:
            return _CANCELLED
        case OutcomeClass.UNSTARTED:
            return Decision(RunState.SCHEDULED, now_ms, "unstarted", lost_count, uses_attempt=False)
        case OutcomeClass.SNOOZE:
            wait_ms = max(BACKOFF_FLOOR_MS, outcome.retry_after_ms or 0)
            return Decision(RunState.SCHEDULED, now_ms + wait_ms, "snoozed", uses_attempt=False)
        case OutcomeClass.PERMANENT:
            return Decision(RunState.FAILED, None, "permanent failure", buries=buries)
        case OutcomeClass.LOST:
            lost_count += 1
            if lost_count >= LOST_LIMIT_COUNT:
                reason = f"worker lost {lost_count} times in a row"
                return Decision(RunState.FAILED, None, reason, lost_count, buries=buries)
        case OutcomeClass.RETRYABLE | OutcomeClass.TIMEOUT:
            lost_count = 0
    if attempt > policy.max_retries:
        return Decision(RunState.FAILED, None, f"no attempt left after {attempt}", lost_count, buries=buries)
    if outcome.outcome_class is OutcomeClass.LOST:
        # The target did not fail, so its backoff says nothing; the spread keeps a crash from being answered
        # by everything at the same instant.
        wait_ms = int(LOST_SPREAD_MS * fraction)
    else:
        wait_ms = max(backoff_ms(policy, attempt, fraction), outcome.retry_after_ms or 0)
    return Decision(RunState.SCHEDULED, now_ms + wait_ms, f"retry {attempt}", lost_count)


_SUCCEEDED: Final = Decision(RunState.SUCCEEDED, None, "succeeded")
_CANCELLED: Final = Decision(RunState.CANCELLED, None, "cancelled")


def classify_http(status: int) -> OutcomeClass:
    """The class of a final HTTP status.

    2xx is success. 408, 421, 423, 425, 429 and 5xx except 501 and 505 may pass. Redirects (never followed),
    the other 4xx, 501 and 505 will not. A number that HTTP does not know counts as a broken server (5xx).
    """
    if 200 <= status <= 299:
        return OutcomeClass.SUCCESS
    if 300 <= status <= 499 and status not in _RETRYABLE_4XX:
        return OutcomeClass.PERMANENT
    return OutcomeClass.PERMANENT if status in _PERMANENT_5XX else OutcomeClass.RETRYABLE


def parse_retry_after(value: str, now_ms: int) -> int | None:
    """The length within [0, 1 h] that a Retry-After value (seconds or an HTTP date) asks for, else None."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        seconds = int(text.lstrip("0")[: _RETRY_AFTER_DIGITS + 1] or "0")
        return min(seconds * 1000, RETRY_AFTER_CAP_MS)
    if not text[:3].isalpha():  # every form of an HTTP date starts with the day's name
        return None
    try:
        moment = parsedate_to_datetime(text[:64])
        due_ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return min(max(0, due_ms - now_ms), RETRY_AFTER_CAP_MS)


def clip_text(text: str, limit_bytes: int = NOTE_LIMIT_BYTES) -> str:
    """The start of `text` that fits into `limit_bytes` of UTF-8; lone surrogates become question marks."""
    data = text.encode("utf-8", "replace")
    return data[:limit_bytes].decode("utf-8", "ignore")
