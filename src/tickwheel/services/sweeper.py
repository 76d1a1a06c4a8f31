"""Makes room ahead and deletes history behind the retention, a bounded piece at a time, with rests in between.

In a cluster one node does it for all: the one that leads when it comes to it.
"""

from collections.abc import Callable
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Store

REST_MS: Final = 60_000
FIRST_MS: Final = 2_000
BREATH_MS: Final = 200
"""Between two pieces while there is more to delete, so that claims and completions go first."""


class Sweeper:
    """The retention loop."""

    def __init__(self, *, store: Store, clock: Clock, retention_ms: int, is_leader: Callable[[], bool]) -> None:
        self._store, self._clock, self._retention_ms = store, clock, retention_ms
        self._is_leader = is_leader

    async def run(self) -> None:
        """Sweep for ever; room ahead is made soon after the start, for a new store has none yet."""
        await self._clock.sleep_ms(FIRST_MS)
        while True:
            if self._is_leader():
                await self._store.maintain(self._clock.now_ms())
            await self._clock.sleep_ms(REST_MS)
            while self._is_leader() and await self._store.sweep(self._clock.now_ms(), self._retention_ms):
                await self._clock.sleep_ms(BREATH_MS)
