"""The whole installation in one look; computed once a second at most, however many look on."""

import asyncio
from typing import Final

import msgspec

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.vitals import Standing, Vitals, seconds_text, standing, waiting_text
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import Counts, Store
from tickwheel.services.live.pulse import NodeView, Pulse
from tickwheel.services.ownership.membership import Standing as MemberStanding
from tickwheel.services.store_writes import StoreWrites

TICK_MS: Final = 1_000
_FRESH_MS: Final = 900
PATIENCE_MS: Final = 2_000
"""A store that has not counted within it is told not to answer: those that look on hear something in any case."""
NOBODY_FIRES: Final = "Late: no node that fires is alive, as far as this one knows."


class Overview(msgspec.Struct, frozen=True):
    """What is told. `counts` None: the store did not answer, and `says` tells why."""

    now_ms: int
    standing: Standing | None  # None: the store does not answer, or takes no writes
    says: str
    vitals: Vitals
    nodes: list[NodeView]
    counts: Counts | None

    @property
    def silent_nodes(self) -> list[str]:
        """Names of those that give no sign of life."""
        return [node.name for node in self.nodes if node.standing == MemberStanding.SILENT.value]


class Lookout:
    """Gives the overview of now, and wakes who waits for the next one. `close` lets everybody go."""

    def __init__(self, pulse: Pulse, store: Store, clock: Clock, writes: StoreWrites | None = None) -> None:
        self.pulse, self._writes = pulse, writes or StoreWrites(clock)
        self._store, self._clock = store, clock
        self._latest: Overview | None = None
        self._at_ms = 0
        self._turn = asyncio.Lock()
        self._counting: asyncio.Task[Counts] | None = None
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
        if self._counting is not None:
            self._counting.cancel()

    async def _make(self) -> Overview:
        word: Standing | None = None
        counts, trouble = await self._count()
        now_ms, vitals, nodes = self._clock.now_ms(), self.pulse.all(), self.pulse.nodes()
        if self._writes.refusal:
            since = seconds_text(max(0, now_ms - self._writes.since_ms))
            says = f"The store has taken no writes for {since}: {self._writes.refusal}.{_left(vitals, now_ms)}"
        elif counts is None:
            says = f"The store does not answer: {trouble}.{_left(vitals, now_ms)}"
        elif not any(node.fires for node in nodes):  # so nobody has told of what waits
            word, says = Standing.LATE, NOBODY_FIRES
        else:
            word, says = standing(vitals, now_ms)
        return Overview(now_ms, word, says, vitals, nodes, counts)

    async def _count(self) -> tuple[Counts | None, str]:
        """What the store counts, or why there is nothing. One that hangs is asked once, however often this is."""
        if self._counting is None:
            self._counting = asyncio.ensure_future(self._store.counts())
        patience = asyncio.ensure_future(self._clock.sleep_ms(PATIENCE_MS))
        try:
            await asyncio.wait({self._counting, patience}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            patience.cancel()
        if not self._counting.done():
            return None, f"it has said nothing for {seconds_text(PATIENCE_MS)}"
        counted, self._counting = self._counting, None
        if counted.cancelled():
            return None, "this node is stopping"
        try:
            return counted.result(), ""
        except TickwheelError as error:
            return None, str(error)


def _left(vitals: Vitals, now_ms: int) -> str:
    waiting = waiting_text(vitals, now_ms)
    return f" Until it does, {waiting}." if waiting else ""
