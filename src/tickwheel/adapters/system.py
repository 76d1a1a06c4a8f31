"""The one place that reads the machine's clock, sleeps and draws randomness."""

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable

SLEW_PER_MS = 0.05
"""How fast the estimate follows the wall clock after a step back: at most 5 % slower than real time."""


class SystemClock:
    """Wall time as monotonic + offset.

    A step of the machine's clock forwards is followed at once (a job may not fire early, but it would be late
    otherwise). A step back is slewed: time runs 5 % slower until the two agree, so it never runs backwards and
    no loop sleeps for the size of the step. Any thread may ask.

    The wall clock is always read *before* the monotonic one that it is compared with: a thread that is not run
    for 50 ms in between then finds time up to 50 ms late, and slews. In the other order it would find it 50 ms
    ahead, follow at once, and fire early.
    """

    def __init__(
        self,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall_ns, self._monotonic_ns = wall_ns, monotonic_ns
        self._offset_ms = (wall_ns() - monotonic_ns()) / 1e6
        self._checked_ms = self.monotonic_ms()
        self._lock = threading.Lock()

    def monotonic_ms(self) -> int:
        return self._monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        """The same in microseconds, for measuring what is short."""
        return self._monotonic_ns() // 1000

    def now_ms(self) -> int:
        with self._lock:
            mono_ns = self._monotonic_ns()
            if mono_ns // 1_000_000 != self._checked_ms:
                mono_ns = self._follow_wall_clock()
            return int(mono_ns / 1e6 + self._offset_ms)

    def _follow_wall_clock(self) -> int:
        """Correct the offset; gives the monotonic instant that it holds for."""
        wall_ns = self._wall_ns()
        mono_ns = self._monotonic_ns()
        mono_ms = mono_ns // 1_000_000
        wall_offset_ms = (wall_ns - mono_ns) / 1e6
        if wall_offset_ms >= self._offset_ms:
            self._offset_ms = wall_offset_ms
        else:
            allowed_ms = (mono_ms - self._checked_ms) * SLEW_PER_MS
            self._offset_ms = max(wall_offset_ms, self._offset_ms - allowed_ms)
        self._checked_ms = mono_ms
        return mono_ns

    def cpu_ms(self) -> int:
        """CPU time that this process has used, all threads together."""
        return time.process_time_ns() // 1_000_000

    def wall_ms(self) -> int:
        """The machine's clock as it is, steps and all."""
        return self._wall_ns() // 1_000_000

    def behind_ms(self) -> int:
        """How far the estimate is ahead of the machine's wall clock (a step back not slewed away yet)."""
        return max(0, self.now_ms() - self._wall_ns() // 1_000_000)

    async def sleep_ms(self, length_ms: int) -> None:
        await asyncio.sleep(max(0, length_ms) / 1000)


class SystemRandomness:
    """Jitter from the Mersenne twister, ids from the operating system."""

    def __init__(self) -> None:
        self._random = random.Random()

    def fraction(self) -> float:
        return self._random.random()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)
