"""Due timers that could not be dealt with just now and are tried again after a pause."""

from typing import Final

import numpy as np

from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.ports.clock import Clock
from tickwheel.services.ready import ReadyRing

PAUSE_MS: Final = 5_000
CHECK_MS: Final = 500


class Parked:
    """Holds TIMER rows outside the ready ring, so that what fails never blocks what works."""

    def __init__(self, *, ready: ReadyRing, clock: Clock) -> None:
        self._ready, self._clock = ready, clock
        self._rows: list[tuple[int, Rows]] = []

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._rows)

    def rows(self) -> Rows:
        """All that is held, as TIMER rows."""
        return np.concatenate([rows for _, rows in self._rows]) if self._rows else empty(TIMER)

    def park(self, timers: Rows) -> None:
        """Keep these for `PAUSE_MS`."""
        if len(timers):
            self._rows.append((self._clock.monotonic_ms() + PAUSE_MS, timers))

    def release_due(self) -> bool:
        """Move what has waited long enough back to the ready ring; True if anything was moved."""
        now_ms = self._clock.monotonic_ms()
        due = [rows for until_ms, rows in self._rows if until_ms <= now_ms]
        self._rows = [(until_ms, rows) for until_ms, rows in self._rows if until_ms > now_ms]
        if due:
            self._ready.push(np.concatenate(due))
        return bool(due)
