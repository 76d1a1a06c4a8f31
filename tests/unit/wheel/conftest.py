from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tickwheel.domain.columns import TIMER, Rows, empty

MakeTimers = Callable[..., Rows]


@pytest.fixture
def timers() -> MakeTimers:
    """Builds `TIMER` rows with the given due times; `scheduled_ms` numbers them from `first` on."""

    def make(dues_ms: Sequence[int], first: int = 0) -> Rows:
        rows = empty(TIMER, len(dues_ms))
        rows["due_ms"] = np.array(dues_ms, dtype=np.int64)
        rows["scheduled_ms"] = np.arange(first, first + len(dues_ms))
        return rows

    return make
