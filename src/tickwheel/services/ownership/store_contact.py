"""How long ago the store last answered this process: what a beat vouches for (G4)."""

from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.shards import ShardStore

PROBE_MS: Final = 250
"""Whenever nobody has heard from the store for this long, it is asked the time."""


class StoreContact:
    """The age of the last round trip. Loops that talk to the store all the time tell it, to spare the probe."""

    def __init__(self, *, store: ShardStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._sent_ms: int | None = None

    def touch(self, sent_ms: int) -> None:
        """A round trip that began then (monotonic) has worked."""
        self._sent_ms = sent_ms if self._sent_ms is None else max(self._sent_ms, sent_ms)

    def age_ms(self) -> int | None:
        """Since the last round trip that worked began; None before the first."""
        return None if self._sent_ms is None else self._clock.monotonic_ms() - self._sent_ms

    async def run(self) -> None:
        """Probe for ever."""
        while True:
            age_ms = self.age_ms()
            if age_ms is None or age_ms >= PROBE_MS:
                sent_ms = self._clock.monotonic_ms()
                await self._store.now_ms()
                self.touch(sent_ms)
            await self._clock.sleep_ms(max(1, PROBE_MS - (self.age_ms() or 0)))
