"""One link to another process: connect, be greeted, and see the connection end.

When a process is killed, its operating system closes the connection within a millisecond and refuses the next one:
that is the evidence. A process that is stopped keeps its port: the kernel still accepts, but no greeting comes.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from tickwheel.adapters.peers.address import Address
from tickwheel.adapters.peers.lines import LONGEST_LINE_BYTES, NUDGE, parse_greeting
from tickwheel.ports.clock import Clock

T = TypeVar("T")
PATIENCE_MS: Final = 500
"""For the connection, and again for the greeting."""
RETRY_MS: Final = 200
NUDGES_PER_SECOND: Final = 50


class Link:
    """Keeps connecting to `process`, which should be at `address`."""

    def __init__(self, *, process: str, address: Address, clock: Clock, on_nudge: Callable[[], None]) -> None:
        self.process, self.address = process, address
        self.is_gone = False
        self._clock, self._on_nudge = clock, on_nudge
        self._writer: asyncio.StreamWriter | None = None
        self._heard = (0, 0)  # a second, and the nudges in it

    async def run(self) -> None:
        """Link for ever."""
        while True:
            was_linked = await self._visit()
            await self._clock.sleep_ms(0 if was_linked else RETRY_MS)

    async def _visit(self) -> bool:
        """One connection from its beginning to its end; whether it was the right process."""
        try:
            reader = await _within(PATIENCE_MS, self._connect())
            greeted = parse_greeting(await _within(PATIENCE_MS, _read_line(reader)))
            self.is_gone = greeted is not None and greeted != self.process
            if greeted != self.process:
                return False
            while line := await _read_line(reader):
                if line == NUDGE and self._is_welcome():
                    self._on_nudge()
        except ConnectionRefusedError:
            self.is_gone = True
            return False
        except (OSError, ValueError):  # out of reach, or it said more than a line may hold
            self.is_gone = False
            return False
        finally:
            if self._writer is not None:
                self._writer.transport.abort()
                self._writer = None
        return True

    async def _connect(self) -> asyncio.StreamReader:
        """Keeps the writer at once: whoever waits for this may be cancelled just when it is done."""
        reader, self._writer = await asyncio.open_connection(*self.address, limit=LONGEST_LINE_BYTES)
        if self._writer.get_extra_info("sockname") == self._writer.get_extra_info("peername"):
            raise ConnectionRefusedError("the system gave us the very port that we tried: nobody listens there")
        return reader

    def _is_welcome(self) -> bool:
        """Whether one more nudge is heard: each may cost a look at the store, so a flood of them is not."""
        second = self._clock.monotonic_ms() // 1_000
        self._heard = (second, self._heard[1] + 1 if self._heard[0] == second else 1)
        return self._heard[1] <= NUDGES_PER_SECOND


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    return await reader.readline()


async def _within(length_ms: int, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives, or `TimeoutError`. (Real time: the other process doesn't run on a virtual clock.)"""
    working = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait((working,), timeout=length_ms / 1000)
        if not done:
            raise TimeoutError("the peer did not answer in time")
        return working.result()
    finally:
        working.cancel()  # nothing, if it is done; but its error has to be looked at even when we are cancelled
        await asyncio.gather(working, return_exceptions=True)
