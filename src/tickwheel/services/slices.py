"""Loads waiting timers from the store into the wheel, nearest first.

The owner holds every timer due before `hi`. Timers that are committed later reach it through `arm`: those due
before `hi` go into the wheel, the others wait in the store for their slice. `hi` is raised *before* a slice is
read, so a timer that is committed while the read is under way comes with the slice, or through `arm`, or both;
a timer armed twice is claimed twice, and the second claim finds it resolved. (The other order loses it: committed
after the slice's snapshot, dropped by `arm` as beyond `hi`, never seen again.)

Memory is bounded: while `armed_limit` timers are armed or waiting for slots, `hi` stays where it is.
"""

from collections.abc import Callable
from typing import Final

from tickwheel.domain.columns import Rows
from tickwheel.domain.wheel import TimingWheel
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink, TimersLoaded
from tickwheel.ports.store import TimerStore

NEAR_MS: Final = 10_000
"""The first slice: what is overdue and what comes next, so that a start fires on time at once."""
PAGE_TIMERS: Final = 50_000
CHECK_MS: Final = 1_000
GROWTH: Final = 4
"""Each slice after the first reaches this many times further, up to the window."""


class Slices:
    """Keeps the wheel filled for the coming `window_ms`; calls `on_armed` after rows were armed."""

    def __init__(
        self,
        *,
        store: TimerStore,
        wheel: TimingWheel,
        backlog: Callable[[], int],
        clock: Clock,
        events: EventSink,
        on_armed: Callable[[], None],
        window_ms: int,
        armed_limit: int,
    ) -> None:
        self._store, self._wheel, self._backlog = store, wheel, backlog
        self._clock, self._events, self._on_armed = clock, events, on_armed
        self._window_ms, self._armed_limit = window_ms, armed_limit
        self._margin_ms = window_ms // 12
        self._hi_ms = 0
        self._read_to_ms = 0
        self._step_ms = NEAR_MS

    @property
    def hi_ms(self) -> int:
        """The end of what the wheel is responsible for."""
        return self._hi_ms

    def arm(self, timers: Rows) -> None:
        """Committed timers: near ones into the wheel, the rest stay in the store until their slice."""
        near = timers[timers["due_ms"] < self._hi_ms]
        if len(near):
            self._wheel.arm(near)
            self._on_armed()

    async def run(self) -> None:
        """Load slices for ever."""
        while True:
            if self._has_room() and self._hi_ms - self._clock.now_ms() < self._window_ms - self._margin_ms:
                await self.load_next()
            elif self._read_to_ms < self._hi_ms and self._has_room():
                await self._read_slice()
            else:
                await self._clock.sleep_ms(CHECK_MS)

    async def load_next(self) -> None:
        """Raise `hi` by one step and read what lies below it. A failed read is repeated from where it stopped."""
        now_ms = self._clock.now_ms()
        self._hi_ms = max(self._hi_ms, now_ms + min(self._step_ms, self._window_ms))
        self._step_ms = min(self._step_ms * GROWTH, self._window_ms)
        await self._read_slice()

    async def _read_slice(self) -> None:
        began_ms, count = self._clock.monotonic_ms(), 0
        while self._read_to_ms < self._hi_ms and self._has_room():
            page = await self._store.load_timers(self._read_to_ms, self._hi_ms, PAGE_TIMERS)
            if len(page):
                self._wheel.arm(page)
                self._on_armed()
                count += len(page)
                self._read_to_ms = int(page["due_ms"][-1]) + 1
            else:
                self._read_to_ms = self._hi_ms
        took_ms = self._clock.monotonic_ms() - began_ms
        self._events.emit(TimersLoaded(count=count, until_ms=self._read_to_ms, took_ms=took_ms))

    def _has_room(self) -> bool:
        return len(self._wheel) + self._backlog() < self._armed_limit
