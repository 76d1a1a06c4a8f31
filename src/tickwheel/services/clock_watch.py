"""Tells when the machine's clock was set back: until time is slewed to it, jobs fire by the older reckoning."""

from collections.abc import Callable
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.events import ClockStepped, EventSink

CHECK_MS: Final = 1_000
WARN_MS: Final = 500


class ClockWatch:
    """Emits one event per step; `behind_ms` says how far the wall clock is behind the scheduler's."""

    def __init__(self, *, clock: Clock, events: EventSink, behind_ms: Callable[[], int]) -> None:
        self._clock, self._events, self._behind_ms = clock, events, behind_ms
        self._stepped = False

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            behind_ms = self._behind_ms()
            if behind_ms > WARN_MS and not self._stepped:
                self._events.emit(ClockStepped(behind_ms=behind_ms))
            self._stepped = behind_ms > WARN_MS
            await self._clock.sleep_ms(CHECK_MS)
