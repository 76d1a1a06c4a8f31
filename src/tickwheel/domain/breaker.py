"""A circuit breaker: when a target answers nothing, it is left alone and asked now and then.

CLOSED: everything may go. After `FAILURES_TO_OPEN` failures in a row it is OPEN: nothing goes until a pause is
over, one second at first, twice as long after each probe that fails, a minute at most, always with jitter. Then it
is HALF_OPEN: one attempt may go, the probe. If the target answers, it is CLOSED again.

A failure is that there was no answer (no connection, a timeout, a broken one) or a 5xx. An answer such as 404 or
429 shows that the target lives. A target that asks to be left alone (Retry-After) is OPEN until then, an hour at
most, and then probed likewise.

Only attempts that began after the last opening count. Example: 64 requests hang, the first ten time out and open
the breaker; the other 54 time out too, and change nothing any more.
"""

from enum import IntEnum
from typing import Final

FAILURES_TO_OPEN: Final = 10
STREAK_MS: Final = 60_000
"""Failures that are further apart are no row."""
FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 60_000
LONGEST_RETRY_AFTER_MS: Final = 3_600_000
_DOUBLINGS: Final = 6  # 1 s to over 60 s


class BreakerState(IntEnum):
    """What may go to the target."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


class Cause(IntEnum):
    """Why a breaker is open."""

    FAILURES = 0
    RETRY_AFTER = 1


class Breaker:
    """Of one target. Times are monotonic ms; `fraction` in [0, 1) is the jitter."""

    __slots__ = ("_failed_ms", "_streak", "_tries", "cause", "opened_ms", "since_ms", "state", "until_ms")

    def __init__(self) -> None:
        self.state = BreakerState.CLOSED
        self.cause = Cause.FAILURES
        self.until_ms = 0  # while OPEN
        self.since_ms = -1  # attempts that began up to then do not count
        self.opened_ms = 0  # of the first opening in a row
        self._streak = self._tries = 0
        self._failed_ms = 0

    @property
    def closed(self) -> bool:
        return self.state is BreakerState.CLOSED

    def is_calm(self, now_ms: int) -> bool:
        """Whether there is nothing to remember."""
        return self.closed and (not self._streak or now_ms - self._failed_ms > STREAK_MS)

    def look(self, now_ms: int) -> BreakerState:
        """The state now: a pause that is over makes it half open."""
        if self.state is BreakerState.OPEN and now_ms >= self.until_ms:
            self.state = BreakerState.HALF_OPEN
        return self.state

    def answered(self, now_ms: int) -> bool:
        """The target lives; True if that closed the breaker. An answer while OPEN is of an earlier attempt."""
        self._streak = 0
        if self.state is not BreakerState.HALF_OPEN:
            return False
        self.state, self._tries = BreakerState.CLOSED, 0
        return True

    def failed(self, count: int, now_ms: int, fraction: float) -> bool:
        """So many more failures in a row; True if the breaker has opened, or opened again."""
        if self.state is BreakerState.OPEN:
            return False
        if now_ms - self._failed_ms > STREAK_MS:
            self._streak = 0
        self._streak += count
        self._failed_ms = now_ms
        if self.state is BreakerState.CLOSED and self._streak < FAILURES_TO_OPEN:
            return False
        pause_ms = min(FIRST_PAUSE_MS << min(self._tries, _DOUBLINGS), LONGEST_PAUSE_MS)
        self._open(Cause.FAILURES, now_ms, max(FIRST_PAUSE_MS, int(pause_ms * (0.75 + fraction / 4))))
        self._tries += 1
        return True

    def asked_to_wait(self, length_ms: int, now_ms: int) -> None:
        """The target wants to be left alone for so long; a pause never gets shorter by that."""
        length_ms = min(length_ms, LONGEST_RETRY_AFTER_MS)
        if self.state is BreakerState.OPEN:
            self.until_ms = max(self.until_ms, now_ms + length_ms)
        else:
            self._open(Cause.RETRY_AFTER, now_ms, length_ms)

    def _open(self, cause: Cause, now_ms: int, pause_ms: int) -> None:
        if self.state is BreakerState.CLOSED:
            self.opened_ms = now_ms
        self.state, self.cause = BreakerState.OPEN, cause
        self.until_ms, self.since_ms = now_ms + pause_ms, now_ms
