"""Due timers that could not be dealt with just now and are tried again after a pause."""

from collections.abc import Callable
from typing import Final

import numpy as np

from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.ports.clock import Clock
from tickwheel.services.alarm import Alarm
from tickwheel.services.ready import ReadyRing

PAUSE_MS: Final = 5_000
CHECK_MS: Final = 500


class Parked:
    """Holds TIMER rows outside the ready ring, so that what fails never blocks what works."""

    def __init__(self, *, ready: ReadyRing, clock: Clock) -> None:
        self._ready, self._clock = ready, clock
        self._rows: list[tuple[int, Rows]] = []
        self._alarm = Alarm(clock)

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._rows)

    def rows(self) -> Rows:
        """All that is held, as TIMER rows."""
        return np.concatenate([rows for _, rows in self._rows]) if self._rows else empty(TIMER)

    def park(self, timers: Rows, pause_ms: int = PAUSE_MS) -> None:
        """Keep these for a while."""
        if len(timers):
            self._rows.append((self._clock.monotonic_ms() + pause_ms, timers))
            if pause_ms < CHECK_MS:
                self._alarm.ring()

    async def run(self, on_due: Callable[[], None]) -> None:
        """Let them go when their time is over, for ever."""
        while True:
            now_ms = self._clock.monotonic_ms()
            next_ms = min((until_ms for until_ms, _ in self._rows), default=now_ms + CHECK_MS)
            await self._alarm.sleep_ms(min(max(1, next_ms - now_ms), CHECK_MS))
            if self.release_due():
                on_due()

    def release_due(self) -> bool:
        """Move what has waited long enough back to the ready ring; True if anything was moved."""
        now_ms = self._clock.monotonic_ms()
        due = [rows for until_ms, rows in self._rows if until_ms <= now_ms]
        self._rows = [(until_ms, rows) for until_ms, rows in self._rows if until_ms > now_ms]
        if due:
            self._ready.push(np.concatenate(due))
        return bool(due)
