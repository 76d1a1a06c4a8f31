"""Keeps a loop going: an unexpected error is told, never swallowed, and the loop starts again after a pause."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink, LoopFailed

FIRST_PAUSE_MS: Final = 50
LONGEST_PAUSE_MS: Final = 2_000
CALM_MS: Final = 10_000
"""A loop that ran this long without an error starts again with the short pause."""


async def supervise(name: str, loop: Callable[[], Awaitable[None]], clock: Clock, events: EventSink) -> None:
    """Run `loop` until it returns; on an error report it and run it again."""
    pause_ms = FIRST_PAUSE_MS
    while True:
        began_ms = clock.monotonic_ms()
        try:
            await loop()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the boundary of a loop: whatever it was, firing must go on
            if clock.monotonic_ms() - began_ms > CALM_MS:
                pause_ms = FIRST_PAUSE_MS
            events.emit(LoopFailed(loop=name, error=f"{type(error).__name__}: {error}", retry_in_ms=pause_ms))
            await clock.sleep_ms(pause_ms)
            pause_ms = min(LONGEST_PAUSE_MS, pause_ms * 2)
        else:
            return
