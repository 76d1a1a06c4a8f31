"""A firing side's use of a buffer, put together: what is put there, what fills it, what moves out of it.

    commits, feed --(beyond hi)--> FarTimers --> minute buckets --> Mover --(hi has risen)--> wheel
    store --> Filling ---------------^                                ^-- else the store, by Slices

Without a buffer there is none of it, and the wheel holds the whole window.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tickwheel.ports.buffer import Buffer
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.store import TimerStore
from tickwheel.services.alarm import wait_at_most
from tickwheel.services.buffering.far_timers import FarTimers
from tickwheel.services.buffering.filling import Filling
from tickwheel.services.buffering.mover import Mover
from tickwheel.services.ownership.groups import Groups
from tickwheel.services.ownership.recent import RecentlyArmed

GOODBYE_MS: Final = 2_000
"""How long a stop waits for the buffer to forget what this process put there; it expires anyway."""


class Buffering:
    """`sharded`: others own shards too. The buffer holds what is due up to `horizon_ms` ahead."""

    def __init__(
        self,
        buffer: Buffer | None,
        *,
        sharded: bool,
        clock: Clock,
        events: EventSink,
        window_ms: int,
        near_ms: int,
        horizon_ms: int,
    ) -> None:
        self._buffer, self._sharded, self._clock, self._horizon_ms = buffer, sharded, clock, horizon_ms
        self.far: FarTimers | None = None
        self.wheel_ms = self.feed_ms = window_ms
        """How far ahead the wheel holds timers, and how far the feed has to look."""
        if buffer is not None:
            recent = RecentlyArmed(clock) if sharded else None
            self.far = FarTimers(buffer=buffer, recent=recent, clock=clock, events=events)
            self.wheel_ms, self.feed_ms = near_ms, max(near_ms, horizon_ms)

    @property
    def count(self) -> int:
        """Timers in the buffer, as far as is known."""
        return 0 if self.far is None else self.far.count

    def mover(self, groups: Groups) -> Mover | None:
        """What takes near minutes out."""
        return None if self.far is None else Mover(far=self.far, groups=groups)

    def loops(
        self, store: TimerStore, groups: Groups, floor_ms: Callable[[], int]
    ) -> Sequence[tuple[str, Callable[[], Awaitable[None]]]]:
        """What runs for ever. Below `floor_ms` all timers are resolved."""
        if self.far is None:
            return ()
        filling = Filling(
            store=store,
            sharded=self._sharded,
            groups=groups,
            far=self.far,
            floor_ms=floor_ms,
            clock=self._clock,
            horizon_ms=self._horizon_ms,
        )
        return (("buffer", self.far.run), ("buffer filling", filling.run))

    async def aclose(self) -> None:
        """Remove what this process put there, and let go of the buffer."""
        if self.far is not None and self._buffer is not None:
            await wait_at_most(self.far.aclose(), GOODBYE_MS, self._clock)
            await self._buffer.aclose()
