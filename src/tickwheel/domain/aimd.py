"""How many requests at a time a target can take: additive increase, multiplicative decrease.

The limit begins at its ceiling, the operator's own, and is cut when the target pushes back: it answers 429 or 503,
times out, can't be connected to, or gets slow. It rises again while all of it is used and the target keeps up.

Ends are gathered into *rounds* of one round trip (`ROUND_MS` at least), and a round is judged once. After a cut
only attempts count that began later: those before it say nothing about the new limit. So a target at which 64
requests hang, and time out one after the other, is cut once, not 64 times.

*Slow* means: the 90th percentile of a round is over twice the lowest one of late (a minute at most), and
`SLOW_FLOOR_MS` above it. Percentiles of rounds are compared, not single requests, because a host may serve quick
and slow endpoints side by side; and only while the limit is used, else the load is not the cause.

Example, ceiling 64: all 64 requests time out: 32. Each later round without trouble that used all places adds
64 / 32 = 2. A round with more than one push-back in twenty ends halves it again.

After `collapse` (nothing got through at all) it begins at 1 and doubles per round, up to half of what it was.
"""

from collections.abc import Sequence
from typing import Final

ROUND_MS: Final = 100
LONGEST_ROUND_MS: Final = 5_000
TOLERATED_SHARE: Final = 20
"""One push-back in so many ends is a target's everyday trouble."""
PUSHED_FACTOR: Final = 0.5
SLOW_FACTOR: Final = 0.7
SLOW_RATIO: Final = 2
SLOW_FLOOR_MS: Final = 100
STEPS: Final = 32
"""A limit rises from nothing to its ceiling in so many rounds."""
BASE_WINDOW_MS: Final = 30_000
"""The lowest percentile is remembered for one to two of these."""
LEAST_SAMPLES: Final = 8
MOST_SAMPLES: Final = 4_096
UNKNOWN_MS: Final = 1 << 40


class Aimd:
    """The limit of one target. Times are monotonic ms."""

    __slots__ = (
        "_base_ms",
        "_base_since_ms",
        "_ceiling",
        "_earlier_base_ms",
        "_full",
        "_good",
        "_pushed",
        "_round_trip_ms",
        "_since_ms",
        "_threshold",
        "_took",
        "cut_ms",
        "limit",
    )

    def __init__(self, ceiling: int) -> None:
        self._ceiling = self.limit = self._threshold = ceiling
        self.cut_ms = -1  # attempts that began up to then say nothing about the limit
        self._base_ms = self._earlier_base_ms = UNKNOWN_MS
        self._base_since_ms = 0
        self._round_trip_ms = 0
        self._took: list[int] = []
        self._good = self._pushed = self._since_ms = 0
        self._full = False

    @property
    def at_ceiling(self) -> bool:
        """Whether nothing is held back."""
        return self.limit == self._ceiling

    def tally(self, good_count: int, now_ms: int) -> None:
        """So many ended well while the target is given more than its ceiling: there is nothing to judge."""
        if self._pushed or not self.at_ceiling:
            self._good += good_count
            self._judge_in_time(now_ms)
        elif now_ms - self._since_ms >= ROUND_MS:
            self._begin_round(now_ms)
            self._good = good_count
        else:
            self._good += good_count

    def observe(self, took_ms: Sequence[int], pushed_count: int, *, full: bool, now_ms: int) -> None:
        """Attempts that began after `cut_ms` ended: how long the good ones took, and how many met a push-back.

        `full`: the limit was used up.
        """
        self._good += len(took_ms)
        self._pushed += pushed_count
        self._full = self._full or full
        if len(self._took) < MOST_SAMPLES:
            self._took += took_ms
        self._judge_in_time(now_ms)

    def collapse(self, now_ms: int) -> None:
        """Nothing got through: begin again with one at a time."""
        if self.limit > 1:
            self._threshold = max(1, self.limit // 2)
        self.limit, self.cut_ms = 1, now_ms
        self._begin_round(now_ms)

    def _judge_in_time(self, now_ms: int) -> None:
        if now_ms - self._since_ms < max(ROUND_MS, min(self._round_trip_ms, LONGEST_ROUND_MS)):
            return
        p90_ms = self._p90_ms()
        if self._pushed * TOLERATED_SHARE > self._pushed + self._good:
            self._cut(PUSHED_FACTOR, now_ms)
        elif self._full and p90_ms is not None and self._is_slow(p90_ms):
            self._cut(SLOW_FACTOR, now_ms)
        elif self._full:
            self._rise()
        if p90_ms is not None:
            self._note_base(p90_ms, now_ms)
            self._round_trip_ms = p90_ms
        self._begin_round(now_ms)

    def _p90_ms(self) -> int | None:
        if len(self._took) < LEAST_SAMPLES:
            return None
        return sorted(self._took)[len(self._took) * 9 // 10]

    def _is_slow(self, p90_ms: int) -> bool:
        base_ms = min(self._base_ms, self._earlier_base_ms)
        return base_ms != UNKNOWN_MS and p90_ms > max(SLOW_RATIO * base_ms, base_ms + SLOW_FLOOR_MS)

    def _note_base(self, p90_ms: int, now_ms: int) -> None:
        if now_ms - self._base_since_ms >= BASE_WINDOW_MS:
            self._earlier_base_ms, self._base_ms, self._base_since_ms = self._base_ms, UNKNOWN_MS, now_ms
        self._base_ms = min(self._base_ms, p90_ms)

    def _cut(self, factor: float, now_ms: int) -> None:
        self.limit = self._threshold = max(1, int(self.limit * factor))
        self.cut_ms = now_ms

    def _rise(self) -> None:
        if self.limit < self._threshold:
            self.limit = min(self._threshold, self.limit * 2)
        else:
            self.limit = min(self._ceiling, self.limit + max(1, self._ceiling // STEPS))

    def _begin_round(self, now_ms: int) -> None:
        self._since_ms = now_ms
        self._good = self._pushed = 0
        self._full = False
        self._took = []
