"""Stories of nodes whose far timers wait in a buffer that fails in every way; minutes are a second long here."""

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Final
from unittest.mock import patch

from tests.small_claims import small_claims

from tickwheel.domain import minutes
from tickwheel.domain.columns import Rows
from tickwheel.domain.minutes import Bucket
from tickwheel.ports.buffer import Buffer
from tickwheel.services import slices
from tickwheel.services.buffering import far_timers, filling, mover
from tickwheel.services.ownership import groups
from tickwheel.testing.faulty_buffer import FaultyBuffer

from .story import Plot, Story, live_through

SECOND_MS: Final = 1_000
FAULT_EVERY_MS: Final = 150
STRIKES: Final = {
    "flush": 1.0,
    "tear": 2.0,
    "evict": 2.0,
    "corrupt": 0.5,
    "remember": 2.0,
    "go_back": 2.0,
    "away": 1.0,
    "full": 1.0,
    "tears": 1.0,
    "hang": 1.0,
    "heal": 6.0,
}


@contextmanager
def short_minutes() -> Iterator[None]:
    """All lengths by which the buffer is used, so small that a story of seconds lives through many."""
    with ExitStack() as stack:
        for module in (minutes, slices, filling, mover):
            stack.enter_context(patch.object(module, "MINUTE_MS", SECOND_MS))
        for module, name, length_ms in (
            (groups, "NEAR_MS", 300),
            (groups, "JUST_NOW_MS", 100),
            (slices, "NEAR_MS", 300),
            (slices, "SCAN_MS", 30),
            (far_timers, "LINGER_MS", 40),
            (far_timers, "AWAY_MS", 200),
            (filling, "CHECK_MS", 40),
        ):
            stack.enter_context(patch.object(module, name, length_ms))
        yield


class StoryBuffer(FaultyBuffer):
    """Of one process; counts what it gave back."""

    given_count = 0

    async def read(self, bucket: Bucket) -> Rows:
        rows = await super().read(bucket)
        self.given_count += len(rows)
        return rows


class BufferedStory(Story):
    """The same cluster, users and faults, and a Redis that is struck besides."""

    def __init__(self, seed: int, *, dropped: Iterable[str] = (), plot: Plot | None = None) -> None:
        super().__init__(seed, dropped=dropped, plot=plot)
        self._buffer_rng = random.Random(seed + 7)
        self.buffers: list[StoryBuffer] = []

    def buffer_of(self, name: str) -> Buffer | None:
        self.buffers.append(StoryBuffer(self._buffer_rng.getrandbits(32)))
        return self.buffers[-1]

    def _begin(self) -> None:
        super()._begin()
        self.background(self._break_buffers())

    async def _break_buffers(self) -> None:
        while self.clock.monotonic_ms() < self.plot.busy_ms:
            await self.clock.sleep_ms(FAULT_EVERY_MS)
            self._strike()
        for buffer in self.buffers:
            buffer.heal()

    def _strike(self) -> None:
        [kind] = self._buffer_rng.choices(list(STRIKES), list(STRIKES.values()))
        self.faults.met[f"buffer: {kind}"] += 1
        for buffer in self.buffers:
            if kind in ("away", "full", "tears"):
                setattr(buffer, kind, True)
            elif kind in ("tear", "evict"):
                getattr(buffer, kind)(0.3)
            else:
                getattr(buffer, kind)()


def tell_buffered(seed: int) -> BufferedStory:
    """As `story.tell`."""
    with small_claims() if seed % 2 else nullcontext(), short_minutes():
        story = BufferedStory(seed)
        live_through(story)
    return story
