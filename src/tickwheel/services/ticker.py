"""Moves timers that have become due from the wheel to the ready ring, on time and never early."""

from collections.abc import Callable
from typing import Final

from tickwheel.domain.wheel import TimingWheel
from tickwheel.ports.clock import Clock
from tickwheel.services.alarm import Alarm
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ready import ReadyRing

LONGEST_SLEEP_MS: Final = 1_000
"""A sleep is never longer, so a step of the machine's clock is noticed within a second."""
BATCH_TIMERS: Final = 20_000


class Ticker:
    """Sleeps until the wheel has something to do; `wake` when something nearer was armed."""

    def __init__(
        self,
        *,
        wheel: TimingWheel,
        ready: ReadyRing,
        holdings: Holdings,
        clock: Clock,
        on_due: Callable[[], None],
    ) -> None:
        self._wheel, self._ready, self._holdings = wheel, ready, holdings
        self._clock, self._on_due = clock, on_due
        self._alarm = Alarm(clock)
        self._sleeping_until_ms = 0

    def wake(self) -> None:
        """Something was armed: look again if it is nearer than the planned wake-up."""
        next_ms = self._wheel.next_due_ms()
        if next_ms is not None and next_ms < self._sleeping_until_ms:
            self._alarm.ring()

    async def run(self) -> None:
        """Tick for ever."""
        while True:
            now_ms = self._clock.now_ms()
            due = self._wheel.advance(now_ms, BATCH_TIMERS)
            if len(due):
                held = self._holdings.holds(due["job_id"])  # what is in the wheel of lost shards is dropped here
                self._ready.push(due if held.all() else due[held])
                self._on_due()
            if len(due) == BATCH_TIMERS:
                await self._clock.sleep_ms(0)
                continue
            next_ms = self._wheel.next_wake_ms()
            sleep_ms = LONGEST_SLEEP_MS if next_ms is None else next_ms - self._clock.now_ms()
            sleep_ms = min(max(sleep_ms, 1), LONGEST_SLEEP_MS)
            self._sleeping_until_ms = now_ms + sleep_ms
            await self._alarm.sleep_ms(sleep_ms)
