"""Time as the store has it: what all nodes of a cluster go by.

Each node's own clock may be wrong; the database's is the one that decides what is due. So a node estimates that
one: `monotonic + offset`, where the offset comes from asking the store for its time now and then.

    asked at 1,000 (monotonic) -> answer 500,000 -> arrived at 1,004: offset = 500,000 - 1,002, wrong by 2 at most

An answer that travelled fast is worth more than a newer one, so of the last samples the quickest counts, unless a
newer one contradicts it by more than both can be wrong: then the store's clock was set. Time follows the store
forwards at once (or jobs would be late) and backwards by running 5 % slower; it never runs backwards itself.

The machine's wall clock plays no part in this, but one that is far off is a sign of a machine in trouble (and its
log lines and certificates go wrong), so the difference is watched: 500 ms is told, 5 s makes the node unfit to own
shards, and keeps a new one from starting. (A pure estimate of the difference between two clocks, no judgement
about which one is right: a cluster must agree on one, and that is the database's.)
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import ClockDiffers, EventSink

ASK_MS: Final = 1_000
WARN_MS: Final = 500
UNFIT_MS: Final = 5_000
FIT_AGAIN_MS: Final = 4_000
"""Below `UNFIT_MS`, or a node at the limit would take shards and give them up by turns."""
FIRST_SAMPLES: Final = 5
SAMPLES_KEPT: Final = 16
SLEW: Final = 0.05
_NOISE_MS: Final = 5
"""Both clocks are read in whole milliseconds, and drift a little while a sample ages."""


class TellsTime(Protocol):
    """The part of a store that is asked (`ports.shards.ShardStore`)."""

    async def now_ms(self) -> int: ...


class Sample(NamedTuple):
    """One answer of the store: its clock minus the monotonic one, right within half the round trip."""

    offset_ms: float
    round_trip_ms: int


class StoreClock:
    """Implements `ports.clock.Clock`; any thread may read it. The machine's time until `synchronise` is called."""

    def __init__(self, *, machine: Clock, wall_ms: Callable[[], int]) -> None:
        self._machine, self._wall_ms = machine, wall_ms
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_KEPT)
        self._offset_ms = self._target_ms = float(wall_ms() - machine.monotonic_ms())
        self._read_ms = machine.monotonic_ms()
        self._last_ms = 0
        self._unfit = False

    def monotonic_ms(self) -> int:
        return self._machine.monotonic_ms()

    async def sleep_ms(self, length_ms: int) -> None:
        await self._machine.sleep_ms(length_ms)

    def now_ms(self) -> int:
        with self._lock:
            monotonic_ms = self._machine.monotonic_ms()
            if self._target_ms >= self._offset_ms:
                self._offset_ms = self._target_ms
            else:
                allowed_ms = max(0, monotonic_ms - self._read_ms) * SLEW
                self._offset_ms = max(self._target_ms, self._offset_ms - allowed_ms)
            self._read_ms = monotonic_ms
            self._last_ms = max(self._last_ms, int(monotonic_ms + self._offset_ms))
            return self._last_ms

    @property
    def difference_ms(self) -> int:
        """This machine's wall clock minus the store's: positive = ahead."""
        return round(self._wall_ms() - (self._machine.monotonic_ms() + self._target_ms))

    def unfit_reason(self) -> str:
        """Why this node must own no shards, or nothing."""
        difference_ms = self.difference_ms
        limit_ms = FIT_AGAIN_MS if self._unfit else UNFIT_MS
        self._unfit = abs(difference_ms) >= limit_ms
        return told(difference_ms) if self._unfit else ""

    async def synchronise(self, store: TellsTime) -> None:
        """Take the store's time over, before anything goes by this clock. Raises what the store raises."""
        for _ in range(FIRST_SAMPLES):
            await self.ask(store)
        with self._lock:
            self._offset_ms, self._last_ms = self._target_ms, 0

    def refuse_when_off(self) -> None:
        """Raise `ConfigError` when the machine's clock is too far off to start with."""
        difference_ms = self.difference_ms
        if abs(difference_ms) >= UNFIT_MS:
            message = f"{told(difference_ms)}; set it right (chrony, systemd-timesyncd) and start again"
            raise ConfigError([FieldProblem("clock", message, "clock_off")])

    async def ask(self, store: TellsTime) -> None:
        """Take one sample."""
        asked_ms = self._machine.monotonic_ms()
        store_ms = await store.now_ms()
        answered_ms = self._machine.monotonic_ms()
        sample = Sample(store_ms - (asked_ms + answered_ms) / 2, answered_ms - asked_ms)
        if any(_contradict(sample, other) for other in self._samples):
            self._samples.clear()
        self._samples.append(sample)
        best = min(reversed(self._samples), key=lambda sample: sample.round_trip_ms)
        with self._lock:
            self._target_ms = best.offset_ms


def told(difference_ms: int) -> str:
    """The difference in words."""
    side = "ahead of" if difference_ms > 0 else "behind"
    return f"this machine's clock is {abs(difference_ms) / 1000:.1f} s {side} the database's"


def _contradict(one: Sample, other: Sample) -> bool:
    uncertainty_ms = (one.round_trip_ms + other.round_trip_ms) / 2
    return abs(one.offset_ms - other.offset_ms) > uncertainty_ms + _NOISE_MS


class StoreClockWatch:
    """The loop that asks the store, and tells when the machine's clock has drifted from it."""

    def __init__(
        self,
        *,
        clock: StoreClock,
        store: TellsTime,
        events: EventSink,
        on_asked: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock, self._store, self._events, self._on_asked = clock, store, events, on_asked
        self._told = False

    async def run(self) -> None:
        """Watch for ever; an answer that does not come leaves the estimate as it is."""
        while True:
            await self._clock.sleep_ms(ASK_MS)
            await self._clock.ask(self._store)
            self.tell()
            self._on_asked()

    def tell(self) -> None:
        """Emit an event when the difference has become large, or small again."""
        difference_ms = self._clock.difference_ms
        differs = abs(difference_ms) >= WARN_MS
        if differs != self._told:
            self._told = differs
            self._events.emit(ClockDiffers(difference_ms=difference_ms, differs=differs))
