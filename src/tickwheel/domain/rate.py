"""At most so many per second: the generic cell rate algorithm (GCRA), in whole nanoseconds.

A limit of `amount` per `period_ms` lets one go each interval of period / amount; up to `burst` may go at once when
nothing went for a while. `_ahead_ns` is the theoretical arrival time: how far what went already reaches. In any
stretch of t ms no more than burst + amount * t / period_ms go, and whoever keeps asking gets just that.

Example, 100/s, burst 10: after a quiet moment 10 go at once, then one each 10 ms.
"""

import re
from typing import Final, NamedTuple

_NS: Final = 1_000_000
_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000}
_RATE: Final = re.compile(r"([1-9][0-9]{0,8})/([smh])")
BURST_MS: Final = 100
"""A burst is what may go in so long, one at least."""
MOST_PER_SECOND: Final = 1_000_000


class RateLimit(NamedTuple):
    """`amount` per `period_ms`, `burst` at once."""

    amount: int
    period_ms: int
    burst: int


def parse_rate(text: str) -> RateLimit:
    """`100/s`, `30/m` or `5/h`. Raises ValueError with the remedy."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no rate such as 100/s, 30/m or 5/h")
    count, period_ms = int(match[1]), _UNITS[match[2]]
    if count * 1_000 > MOST_PER_SECOND * period_ms:
        raise ValueError(f"{text!r} is over {MOST_PER_SECOND} per second, which limits nothing; leave it out")
    return RateLimit(count, period_ms, max(1, count * BURST_MS // period_ms))


class Gcra:
    """The account of one limit. Times are monotonic ms."""

    __slots__ = ("_ahead_ns", "_interval_ns", "_limit", "_slack_ns")

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._ahead_ns = -(1 << 62)
        self.take_share(1.0, 0)

    def take_share(self, share: float, now_ms: int) -> None:
        """Of a limit that several nodes hold together, this one has so much (0 < share <= 1) from now on."""
        exact_ns = self._limit.period_ms * _NS / (self._limit.amount * share)
        self._interval_ns = -int(-exact_ns // 1)
        burst = max(1, int(self._limit.burst * share))
        self._slack_ns = self._interval_ns * (burst - 1)
        # What went under a smaller share must not hold back a larger one.
        self._ahead_ns = min(self._ahead_ns, now_ms * _NS + self._slack_ns + self._interval_ns)

    def available(self, now_ms: int) -> int:
        """How many may go now."""
        now_ns = now_ms * _NS
        left_ns = now_ns + self._slack_ns - max(self._ahead_ns, now_ns)
        return 0 if left_ns < 0 else left_ns // self._interval_ns + 1

    def take(self, count: int, now_ms: int) -> None:
        """So many go; the caller has asked `available` before."""
        self._ahead_ns = max(self._ahead_ns, now_ms * _NS) + count * self._interval_ns

    def next_ms(self, now_ms: int) -> int:
        """When the next one may go."""
        next_ns = self._ahead_ns - self._slack_ns
        return max(now_ms, -(-next_ns // _NS))
