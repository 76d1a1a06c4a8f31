"""How many attempts a worker runs at a time, found by watching how long they take.

What a handler calls (a database, a disk, this machine's cores) does a certain number of things at once without
getting slower: its *knee*. Beyond it more attempts at a time only wait for one another. So the limit follows the
gradient of the run time, as congestion control on networks does (TCP Vegas; Netflix's concurrency limits):

    gradient = TOLERANCE * base / now        (at most 1, at least 1/2; medians of run times)
    limit    = limit * gradient + sqrt(limit)

`base` is the run time without waiting. While attempts take about as long as that, the gradient is 1 and the limit
grows by its root; where they take three times as long, it halves. Example: 20 things at once take 10 ms each, base
is 10. At a limit of 80 they take 40 ms: gradient 1/2, next limit 49; then 37; and it comes to rest near 36, where
`limit * (1 - gradient)` is as much as the root. That is within a factor of two of the knee, and above it: a little
waiting costs nothing, an idle resource does.

A base that is remembered for ever goes wrong when the work changes, and one that follows the present drifts up
with a queue of its own making. So every `PROBE_EVERY` windows the limit is halved for two windows, below the knee
if it was within a factor of two of it, and what is measured in the second one *is* the base from then on.

At the start the limit doubles with each window, until attempts are seen to wait for the first time.

Only windows count in which the limit was reached: an idle worker learns nothing about it.
"""

from math import sqrt
from statistics import median
from typing import Final

TOLERANCE: Final = 1.5
SMALLEST_GRADIENT: Final = 0.5
WINDOW_MS: Final = 1_000
WINDOW_SAMPLES: Final = 10
"""A window lasts until it has both."""
SAMPLES_KEPT: Final = 512
PROBE_EVERY: Final = 30
SHORTEST_MS: Final = 5.0
"""Shorter attempts are taken for so long: among them a difference says more about the loop than about the work."""


class LatencyGradient:
    """A limit between `low` and `high`; note each attempt that succeeded, and `adjust` now and then."""

    def __init__(self, low: int, high: int) -> None:
        if not 1 <= low <= high:
            raise ValueError("the least concurrency is 1, and not above the most")
        self.low, self.high = low, high
        self._limit = float(low)
        self._resumed = self._limit  # what it was before the probe
        self._base_ms: float | None = None
        self._samples: list[int] = []
        self._was_full = False
        self._began_ms: int | None = None
        self._windows = 0
        self._probing = False
        self._starting = True  # nothing was slow yet

    @property
    def limit(self) -> int:
        """Attempts at a time, now."""
        return int(self._limit)

    def note(self, run_ms: int) -> None:
        """An attempt took so long, from its start to its success."""
        if len(self._samples) < SAMPLES_KEPT:
            self._samples.append(run_ms)

    def adjust(self, mono_ms: int, is_full: bool) -> int:
        """Call it several times a second; gives the limit from here on. `is_full`: no attempt may start now."""
        if self._began_ms is None:
            self._begin(mono_ms)
        self._was_full = self._was_full or is_full
        if mono_ms - (self._began_ms or 0) < WINDOW_MS or len(self._samples) < WINDOW_SAMPLES:
            return self.limit
        self._close(max(SHORTEST_MS, median(self._samples)))
        self._begin(mono_ms)
        return self.limit

    def _begin(self, mono_ms: int) -> None:
        self._began_ms, self._samples, self._was_full = mono_ms, [], False

    def _close(self, now_ms: float) -> None:
        self._windows += 1
        if self._probing:
            if self._windows < 2:
                return  # the first window of a probe still holds what began before it
            self._base_ms, self._limit, self._probing, self._windows = now_ms, self._resumed, False, 0
            return
        self._base_ms = now_ms if self._base_ms is None else min(self._base_ms, now_ms)
        if not self._was_full:
            return
        gradient = max(SMALLEST_GRADIENT, min(1.0, TOLERANCE * self._base_ms / now_ms))
        self._starting = self._starting and gradient == 1.0
        more = self._limit if self._starting else sqrt(self._limit)
        self._limit = self._within(self._limit * gradient + more)
        if self._windows >= PROBE_EVERY:
            self._probing, self._windows = True, 0
            self._resumed, self._limit = self._limit, self._within(self._limit / 2)

    def _within(self, limit: float) -> float:
        return min(float(self.high), max(float(self.low), limit))
