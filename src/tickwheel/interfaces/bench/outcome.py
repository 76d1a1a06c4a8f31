"""What a benchmark measured, and percentiles."""

from typing import Any, TypeAlias

import numpy as np

from tickwheel.domain.columns import Ints

Figures: TypeAlias = dict[str, int | float | str]


class BenchFailed(Exception):
    """The result is not what was asked for: the figures would mean nothing."""


def lateness_figures(lateness_ms: Ints) -> Figures:
    """p50, p99 and the maximum of start - due, and how many started early (which must be none)."""
    if not len(lateness_ms):
        raise BenchFailed("nothing was measured")
    early = int((lateness_ms < 0).sum())
    if early:
        raise BenchFailed(f"{early} runs started early")
    p50, p99 = np.percentile(lateness_ms, (50, 99))
    return {
        "late_p50_ms": round(float(p50), 1),
        "late_p99_ms": round(float(p99), 1),
        "late_max_ms": int(lateness_ms.max()),
    }


def rounded(value: Any) -> float:
    """A rate without false digits."""
    return round(float(value), 1)
