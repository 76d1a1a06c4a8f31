"""Deletes history that is older than the retention, a bounded piece at a time, and rests in between."""

from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Store

REST_MS: Final = 60_000
BREATH_MS: Final = 200
"""Between two pieces while there is more to delete, so that claims and completions go first."""


class Sweeper:
    """The retention loop."""

    def __init__(self, *, store: Store, clock: Clock, retention_ms: int) -> None:
        self._store, self._clock, self._retention_ms = store, clock, retention_ms

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await self._clock.sleep_ms(REST_MS)
            while await self._store.sweep(self._clock.now_ms(), self._retention_ms):
                await self._clock.sleep_ms(BREATH_MS)
