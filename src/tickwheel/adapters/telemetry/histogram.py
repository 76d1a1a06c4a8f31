"""Counts per bucket, one row per label value, fed by columns."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np
from prometheus_client.core import HistogramMetricFamily

from tickwheel.adapters.telemetry.catalogue import PREFIX, Family
from tickwheel.domain.columns import Ints

LATENESS_BOUNDS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000)
CALL_BOUNDS_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000)
ROWS_BOUNDS: Final = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384)


class Histogram:
    """`bounds` in whole units; `per_unit` of them make the unit that is shown (1,000 ms a second)."""

    def __init__(self, family: Family, values: Sequence[str], bounds: Sequence[int], per_unit: int) -> None:
        self._family, self._values, self._bounds, self._per_unit = family, tuple(values), tuple(bounds), per_unit
        self._bound_column = np.array(bounds, dtype=np.int64)  # a search in the tuple would make it each time
        self._counts = np.zeros((len(values), len(bounds) + 1), dtype=np.int64)
        self._sums = np.zeros(len(values), dtype=np.int64)
        self._ones = [[0] * (len(bounds) + 1) for _ in values]  # what came one by one
        self._sums_of_ones = [0] * len(values)

    def add(self, rows: Ints, numbers: Ints) -> None:
        """Number `numbers[i]` belongs to label value `rows[i]`."""
        width = self._counts.shape[1]
        places = rows * width + self._bound_column.searchsorted(numbers)
        self._counts += np.bincount(places, minlength=self._counts.size).reshape(self._counts.shape)
        self._sums += np.bincount(rows, numbers, minlength=len(self._sums)).astype(np.int64)

    def add_one(self, row: int, number: int) -> None:
        """The same for one number, in a twentieth of the time."""
        self._ones[row][bisect_left(self._bounds, number)] += 1
        self._sums_of_ones[row] += number

    def family(self) -> HistogramMetricFamily:
        """For the exposition."""
        shown = HistogramMetricFamily(
            f"{PREFIX}{self._family.name}", self._family.help, labels=self._family.labels
        )
        bounds = [str(bound / self._per_unit) for bound in self._bounds] + ["+Inf"]
        sums = (self._sums + self._sums_of_ones).tolist()
        for row, value in enumerate(self._values):
            cumulated = np.cumsum(self._counts[row] + self._ones[row]).tolist()
            buckets = list(zip(bounds, cumulated, strict=True))
            shown.add_metric([value], buckets, sums[row] / self._per_unit)
        return shown
