"""A process as it can be hurt: stopped, cut off from the database, killed; and its clock, which may be wrong.

A stopped process (SIGSTOP, a virtual machine that moves) does nothing between one step and the next, for as long
as it is stopped, while the world goes on. Everything that a process waits for comes through here, so it stops
wherever it happens to be.
"""

import asyncio

from tickwheel.ports.clock import Clock


class Process:
    """One start of a program."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.reaches_store = True
        self.reaches_coordinator = True
        self._goes_on: asyncio.Event | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether it stands still."""
        return self._goes_on is not None

    def stop(self) -> None:
        """Let it take no further step."""
        if self._goes_on is None:
            self._goes_on = asyncio.Event()

    def go_on(self) -> None:
        """Let it go on where it stopped."""
        if self._goes_on is not None:
            self._goes_on.set()
            self._goes_on = None

    async def pass_gate(self) -> None:
        """Wait while stopped. Called whenever something from outside arrives."""
        while self._goes_on is not None:
            await self._goes_on.wait()


class ProcessClock:
    """Implements `ports.clock.Clock` for a process: `skew_ms` wrong about the store's time."""

    def __init__(self, clock: Clock, process: Process, skew_ms: int = 0) -> None:
        self._clock, self._process = clock, process
        self.skew_ms = skew_ms
        self._latest_ms = 0

    def now_ms(self) -> int:
        self._latest_ms = max(self._latest_ms, self._clock.now_ms() + self.skew_ms)
        return self._latest_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    async def sleep_ms(self, length_ms: int) -> None:
        await self._clock.sleep_ms(length_ms)
        if self._process.is_stopped:
            await self._process.pass_gate()
