"""How the server process ends.

The first SIGTERM or SIGINT asks for a drain; from then on a watchdog thread counts the grace time plus a margin
and ends the process hard, whatever keeps it. A second signal ends it at once.

The handlers are Python's own (`signal.signal`), not the event loop's: a handler function of a user that blocks the
loop, or ignores that it was cancelled, can hold up everything that runs on the loop, but neither the handling of
signals on the main thread nor the watchdog. Ending hard is safe: what is acknowledged is committed, and attempts
in flight are found by the next start.

With several processes a person signals the parent, which stops the others. A service manager may signal all of
them at once, so these take no second signal for a wish to end at once: the parent ends them then.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

MARGIN_S: Final = 0.8
"""After the grace time: commits, open requests, closing files. A kill by the watchdog stays within one second."""
FLUSH_S: Final = 0.1
_TOO_LATE: Final = (
    b"The drain did not end in time (does a handler block the event loop?). Ended hard: what was running is tried "
    b"again at the next start.\n"
)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    """Owns the signals of the process from `install` on."""

    def __init__(
        self,
        grace_seconds: int,
        more_seconds: int = 0,
        *,
        supervised: bool = False,
        before_leaving: Callable[[], None] = lambda: None,
    ) -> None:
        """`supervised`: a second signal means nothing here. `before_leaving` is called before any hard end."""
        self._limit_s = grace_seconds + more_seconds + MARGIN_S
        self._supervised, self._before_leaving = supervised, before_leaving
        self._loop: asyncio.AbstractEventLoop | None = None
        self._requested: asyncio.Event | None = None
        self._count = 0
        self.drained = False
        """Set once everything is committed: a hard end after it is a success."""
        self.orphaned = False
        """Whether the drain began because the parent is gone."""

    def install(self) -> None:
        """Take the signals over; main thread only."""
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)

    async def wait(self) -> None:
        """Return when the drain should begin."""
        self._loop, self._requested = asyncio.get_running_loop(), asyncio.Event()
        if self._count:
            return
        await self._requested.wait()

    def become_orphan(self) -> None:
        """Drain because the parent is gone; from any thread."""
        self.orphaned = True
        self._watch()  # here already: the main thread may never come to handle the signal
        os.kill(os.getpid(), signal.SIGTERM)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            if self._supervised:
                return
            self._before_leaving()
            leave(128 + number)
        self._watch()
        if self._loop is not None and self._requested is not None:
            self._loop.call_soon_threadsafe(self._requested.set)

    def _watch(self) -> None:
        watchdog = threading.Timer(self._limit_s, self._out_of_time)
        watchdog.daemon = True
        watchdog.start()

    def _out_of_time(self) -> None:
        if not self.drained:
            # Not through sys.stderr: the thread that is stuck may hold its lock.
            with suppress(OSError):
                os.write(2, _TOO_LATE)
        self._before_leaving()
        leave(0 if self.drained else 1)


def leave(code: int) -> None:
    """End the process now, without waiting for threads, coroutines or a reader of our output."""
    # A full pipe that nobody reads blocks a flush for ever, and its lock may be held by the thread that is stuck.
    flusher = threading.Thread(target=_flush, daemon=True)
    flusher.start()
    flusher.join(FLUSH_S)
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
