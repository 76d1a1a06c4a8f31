"""Whether the store takes writes, learned from the writes that are made anyway.

A check of its own shows less: a disk that is full has room for the few bytes that the check writes, and none
for a batch of jobs or claims. So the first such write that the store refuses says that it takes none. One that
it takes says that this is over if none was refused for `CALM_MS`, since small ones may fit where large ones
don't. On a node that has nothing to write meanwhile (a load balancer sends it nothing for just this reason), it
is over when nothing was refused for `QUIET_MS` and the check says so, too.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink, StoreRefusing

CALM_MS: Final = 5_000
QUIET_MS: Final = 15_000
LOOK_MS: Final = 1_000


class StoreWrites:
    """Told of each write of jobs, claims and ends. `refusal` is what the store said, empty while it takes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: EventSink | None = None
        self.refusal = ""
        self.since_ms = 0
        self._refused_ms = 0

    def tell(self, events: EventSink) -> None:
        """Emit `StoreRefusing` here when it begins and when it is over."""
        self._events = events

    def refused(self, error: StoreUnavailable) -> None:
        """A write failed."""
        self._refused_ms = self._clock.monotonic_ms()
        if not self.refusal:
            self.refusal, self.since_ms = str(error), self._clock.now_ms()
            self._emit(StoreRefusing(refuses=True, error=self.refusal))

    def taken(self) -> None:
        """A write was committed."""
        if self.refusal and self._clock.monotonic_ms() - self._refused_ms >= CALM_MS:
            after_ms, self.refusal = max(0, self._clock.now_ms() - self.since_ms), ""
            self._emit(StoreRefusing(refuses=False, after_ms=after_ms))

    async def run(self, check: Callable[[], Awaitable[None]]) -> None:
        """Find out for ever whether it is over where nobody writes."""
        while True:
            await self._clock.sleep_ms(LOOK_MS)
            if self.refusal and self._clock.monotonic_ms() - self._refused_ms >= QUIET_MS:
                try:
                    await check()
                except StoreUnavailable as error:
                    self.refused(error)
                else:
                    self.taken()

    def _emit(self, event: StoreRefusing) -> None:
        if self._events is not None:
            self._events.emit(event)
