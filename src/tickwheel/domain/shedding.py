"""When new jobs are refused for a while, so that what was accepted keeps being stored, fired and ended in time.

Each signal has a level at which refusing begins; it ends when all are below half of theirs (hysteresis, else a
server at its limit would answer 201 and 429 in turn). A backlog of due runs is a reason only when it grows, and
for `BEHIND_HOLD_MS` at a time: one that is left from an outage and gets less is no reason to refuse anything
for long.
"""

from enum import StrEnum
from typing import Final, NamedTuple

COMMIT_LIMIT_MS: Final = 2_000
WAITING_LIMIT_JOBS: Final = 50_000
UNCOMMITTED_LIMIT: Final = 10_000
LAG_LIMIT_MS: Final = 500
BEHIND_LIMIT_MS: Final = 3_000
BEHIND_HOLD_MS: Final = 10_000
HYSTERESIS: Final = 2
COMPARED_MS: Final = 500
"""A backlog is compared with the one of so long before."""
_RETRY_AFTER_S: Final = ((10_000, 1), (30_000, 2))
LONGEST_RETRY_AFTER_S: Final = 5


class Why(StrEnum):
    """What is too much."""

    WAITING = "waiting"
    COMMITS = "commits"
    ENDS = "ends"
    LOOP = "loop"
    BEHIND = "behind"


WORDS: Final = {
    Why.WAITING: "too many jobs wait to be stored",
    Why.COMMITS: "the store takes too long to commit",
    Why.ENDS: "too many ends of attempts wait to be stored",
    Why.LOOP: "the server is too busy to answer in time",
    Why.BEHIND: "due runs are started too late",
}


class Load(NamedTuple):
    """What the signals say now."""

    waiting_jobs: int  # sent to the store, no answer yet
    commit_ms: int  # how long commits take, or one has taken so far
    uncommitted: int  # ends of attempts
    lag_ms: int  # how late the event loop is
    behind_ms: int  # how long many due runs have waited though there are slots for them
    backlog: int  # how many those are


class Shedder:
    """`why` says what for new jobs are refused, or None."""

    def __init__(self) -> None:
        self.why: Why | None = None
        self._since_ms = 0
        self._backlog = self._compared_ms = 0
        self._grows = False

    def judge(self, load: Load, now_ms: int) -> Why | None:
        """Take a look at the signals."""
        if now_ms - self._compared_ms >= COMPARED_MS:
            self._grows = load.backlog >= self._backlog > 0
            self._backlog, self._compared_ms = load.backlog, now_ms
        if self.why is None:
            self._since_ms = now_ms
            self.why = self._over(load, 1, self._grows)
        else:
            held = self.why is Why.BEHIND and now_ms - self._since_ms < BEHIND_HOLD_MS
            self.why = self._over(load, HYSTERESIS, self._grows or held)
        return self.why

    def retry_after_s(self, now_ms: int) -> int:
        """Longer the longer it lasts."""
        lasted_ms = now_ms - self._since_ms
        return next(
            (seconds for until_ms, seconds in _RETRY_AFTER_S if lasted_ms < until_ms), LONGEST_RETRY_AFTER_S
        )

    def _over(self, load: Load, divisor: int, behind_counts: bool) -> Why | None:
        if load.waiting_jobs * divisor > WAITING_LIMIT_JOBS:
            return Why.WAITING
        if load.waiting_jobs and load.commit_ms * divisor > COMMIT_LIMIT_MS:
            return Why.COMMITS  # while none waits one is let in, to see whether it is over
        if load.uncommitted * divisor > UNCOMMITTED_LIMIT:
            return Why.ENDS
        if load.lag_ms * divisor > LAG_LIMIT_MS:
            return Why.LOOP
        if behind_counts and load.behind_ms * divisor > BEHIND_LIMIT_MS:
            return Why.BEHIND
        return None
