"""Randomness that a test can repeat."""

import numpy as np


class SeededRandomness:
    """Implements `ports.clock.Randomness`: the same seed draws the same values."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def fraction(self) -> float:
        return float(self._generator.random())

    def random_bytes(self, count: int) -> bytes:
        return self._generator.bytes(count)
