"""The whole installation in one look; computed once a second at most, however many look on."""

import asyncio
from typing import Final

import msgspec

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.vitals import Standing, Vitals, standing
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Counts, Store
from tickwheel.services.live.pulse import NodeView, Pulse
from tickwheel.services.ownership.membership import Standing as MemberStanding

TICK_MS: Final = 1_000
_FRESH_MS: Final = 900


class Overview(msgspec.Struct, frozen=True):
    """What is told. `counts` None: the store did not answer, and `says` tells why."""

    now_ms: int
    standing: Standing | None  # None: the store does not answer
    says: str
    vitals: Vitals
    nodes: list[NodeView]
    counts: Counts | None
    starts_by_second: list[int]
    failures_by_second: list[int]

    @property
    def silent_nodes(self) -> list[str]:
        """Names of those that give no sign of life."""
        return [node.name for node in self.nodes if node.standing == MemberStanding.SILENT.value]


class Lookout:
    """Gives the overview of now, and wakes who waits for the next one. `close` lets everybody go."""

    def __init__(self, pulse: Pulse, store: Store, clock: Clock) -> None:
        self.pulse = pulse
        self._store, self._clock = store, clock
        self._latest: Overview | None = None
        self._at_ms = 0
        self._turn = asyncio.Lock()
        self.closed = asyncio.Event()

    async def look(self) -> Overview:
        """The latest one if it is fresh enough."""
        async with self._turn:
            now_ms = self._clock.monotonic_ms()
            if self._latest is None or now_ms - self._at_ms >= _FRESH_MS:
                self._latest, self._at_ms = await self._make(), now_ms
            return self._latest

    async def next_tick(self) -> None:
        """Return in a second, or when this is closed."""
        closing = asyncio.ensure_future(self.closed.wait())
        ticking = asyncio.ensure_future(self._clock.sleep_ms(TICK_MS))
        try:
            await asyncio.wait({closing, ticking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            ticking.cancel()

    def close(self) -> None:
        """No more ticks: whoever looks on is to go."""
        self.closed.set()

    async def _make(self) -> Overview:
        now_ms, vitals = self._clock.now_ms(), self.pulse.all()
        try:
            counts: Counts | None = await self._store.counts()
        except TickwheelError as error:
            counts, word, says = None, None, f"The store does not answer: {error}"
        else:
            word, says = standing(vitals, now_ms)
        starts, failures = self.pulse.recent.by_second()
        return Overview(now_ms, word, says, vitals, self.pulse.nodes(), counts, starts, failures)
