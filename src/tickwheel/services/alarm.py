"""Waiting on the Clock port: a sleep that can be cut short, and a wait with a limit."""

import asyncio
from collections.abc import Awaitable

from tickwheel.ports.clock import Clock


class Alarm:
    """One sleeper, any number of ringers. A ring while nobody sleeps ends the next sleep at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = False
        self._sleeper: asyncio.Task[object] | None = None

    def ring(self) -> None:
        """Wake the sleeper. Cheap when it is already ringing; loop thread only."""
        if not self._rung:
            self._rung = True
            if self._sleeper is not None:
                self._sleeper.cancel()

    async def sleep_ms(self, length_ms: int) -> bool:
        """Sleep until the time is over or the alarm rings; True if it rang.

        A ring cancels the sleeper itself and takes that back here, as `asyncio.timeout` does: no task per sleep.
        """
        if length_ms > 0 and not self._has_rung():
            self._sleeper = sleeper = asyncio.current_task()
            try:
                await self._clock.sleep_ms(length_ms)
            except asyncio.CancelledError:
                if sleeper is None or not self._has_rung() or sleeper.uncancel() > 0:
                    raise  # somebody else's cancel
            finally:
                self._sleeper = None
        rang, self._rung = self._rung, False
        return rang

    def _has_rung(self) -> bool:
        return self._rung


async def wait_at_most(waited: Awaitable[object], length_ms: int, clock: Clock) -> None:
    """Wait for `waited`, or until the time is over; it is cancelled then."""
    waiting = asyncio.ensure_future(waited)
    limit = asyncio.ensure_future(clock.sleep_ms(length_ms))
    try:
        await asyncio.wait((waiting, limit), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        limit.cancel()
        await asyncio.gather(waiting, limit, return_exceptions=True)
