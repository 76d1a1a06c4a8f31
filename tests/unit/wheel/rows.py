"""Rows to arm a wheel with, and the instants of a wheel that is not empty."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.domain.wheel import TimingWheel


def timers(dues_ms: Sequence[int] | NDArray[Any], first: int = 0) -> Rows:
    """`TIMER` rows with the given due times; `scheduled_ms` numbers them from `first` on."""
    rows = empty(TIMER, len(dues_ms))
    rows["due_ms"] = np.array(dues_ms, dtype=np.int64)
    rows["scheduled_ms"] = np.arange(first, first + len(dues_ms))
    return rows


def next_wake_ms(wheel: TimingWheel) -> int:
    """When a wheel that holds timers wants to be called."""
    wake_ms = wheel.next_wake_ms()
    assert wake_ms is not None
    return wake_ms


def next_due_ms(wheel: TimingWheel) -> int:
    """When a wheel that holds timers could return something."""
    due_ms = wheel.next_due_ms()
    assert due_ms is not None
    return due_ms
