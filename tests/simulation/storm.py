"""What befalls calls, drawn from a seed: most get through at once, others hang, fail, or lose their answer."""

import random
from collections import Counter

from tickwheel.testing.model import Fate

_BAD_FATES = (Fate.REFUSED, Fate.ANSWER_LOST, Fate.ABORTED)


class Storm:
    """Implements `testing.model.Weather`, for every process of a cluster; `met` counts what happened."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.bad_rate = 0.0
        self.slow_rate = 0.0
        self.met: Counter[str] = Counter()

    def fate(self, verb: str) -> Fate:
        if not self.bad_rate or self._rng.random() >= self.bad_rate:
            return Fate.FINE
        fate = self._rng.choice(_BAD_FATES)
        self.met[f"call {fate.value}"] += 1
        return fate

    def way_ms(self, verb: str) -> int:
        if not self.slow_rate or self._rng.random() >= self.slow_rate:
            return 0
        return self._rng.choice((1, 2, 5, 20, 80, 300))

    def open_ms(self, verb: str) -> int:
        if not self.slow_rate or self._rng.random() >= self.slow_rate:
            return 0
        length_ms = self._rng.choice((2, 5, 20, 100, 400, 900, 1_500, 4_000))
        if length_ms >= 400:
            self.met["commit held open for long"] += 1
        return length_ms

    def calm_down(self) -> None:
        """From now on everything gets through at once."""
        self.bad_rate = self.slow_rate = 0.0
