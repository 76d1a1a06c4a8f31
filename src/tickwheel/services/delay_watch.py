"""Looks twice a second at what waits on this node, and notes in the store why: see `domain.delays`.

It reads a few counters per look, whatever waits, and writes one row per crowd that waited: nothing in the way of a
run knows of it. What ends between two looks is not seen. Being alive is noted as well, now and then; from the gap
to the note before, the next start knows for how long nothing ran.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from tickwheel.domain.delays import Delay, DelayKind
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.job import Lane
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.explaining import ExplainingStore
from tickwheel.services.delay_book import DelayBook
from tickwheel.services.gates.host_gate import shown
from tickwheel.services.ready import KIND_COUNT, KIND_WEBHOOK
from tickwheel.services.scheduler import Scheduler
from tickwheel.services.supervision import supervise

LOOK_MS: Final = 500
NOTE_MS: Final = 2_000
"""So often what is new is written."""
ALIVE_MS: Final = 20_000
SHORTEST_MS: Final = 250
"""What has been due for less is on its way, and waits for nothing."""
MOST_PER_LOOK: Final = 200
TRIM_MS: Final = 60_000
TRIM_ROWS: Final = 2_000
"""Of which a node adds at most a third or so in that time (`delay_book.NEW_COUNT`); many nodes add more."""
LOOK_BACK_MS: Final = 400 * 86_400_000
"""How far back the last sign of life is looked for."""
_LOOKED_FOR: Final = (DelayKind.TARGET, DelayKind.LIMIT, DelayKind.TENANT, DelayKind.SLOTS)
EXECUTORS: Final = ("webhook", "handler")
ELSEWHERE: Final = "worker"

Seen = tuple[DelayKind, str, int, str]
"""Kind, subject, since when, detail."""


class DelayWatch:
    """The loop of one node that fires. `shared`: other nodes may have been alive when this one was not."""

    def __init__(
        self,
        *,
        store: ExplainingStore,
        scheduler: Scheduler,
        book: DelayBook,
        clock: Clock,
        events: EventSink,
        node: str,
        retention_ms: int,
        shared: bool = False,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store, self._scheduler, self._book = store, scheduler, book
        self._clock, self._events, self._shared = clock, events, shared
        self._retention_ms, self._is_leader = retention_ms, is_leader
        book.node, book.held = node, scheduler.holdings.shards
        self._began_ms = clock.now_ms()
        self._noted_ms = self._trimmed_ms = self._alive_ms = 0
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch, on the running event loop."""
        loop = supervise("delays", self.run, self._clock, self._events)
        self._loop = asyncio.create_task(loop, name="tickwheel-delays")

    async def stop(self) -> None:
        """Watch no more; what is known is written."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None
            self._note_alive()
            await self._write()

    async def run(self) -> None:
        """Watch for ever."""
        await self._tell_of_silence()
        while True:
            self.look()
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._noted_ms >= NOTE_MS:
                self._noted_ms = now_ms
                await self._note(now_ms)
            await self._clock.sleep_ms(LOOK_MS)

    def look(self) -> None:
        """What waits now, and since when?"""
        now_ms = self._clock.now_ms()
        seen = [one for one in self._waiting() if now_ms - one[2] >= SHORTEST_MS]
        for kind, subject, since_ms, detail in seen:
            self._book.see(kind, subject, since_ms, detail)
        self._book.keep_only(_LOOKED_FOR, [(kind, subject) for kind, subject, _, _ in seen])
        self._book.end_old()
        self._book.look_at_shards()

    async def _tell_of_silence(self) -> None:
        """Nobody was alive from the last sign of it until this node began: what came due then is late for that."""
        if self._alive_ms:
            return  # the loop began again
        wanted = [(DelayKind.ALIVE, None)]
        signs = await self._store.find_delays(wanted, max(0, self._began_ms - LOOK_BACK_MS), self._began_ms)
        last_ms = max((sign.until_ms for sign in signs), default=self._began_ms)
        if self._began_ms - last_ms > (2 * ALIVE_MS if self._shared else 0):
            self._book.note(Delay(DelayKind.START, "", "", last_ms, self._began_ms))
        self._note_alive()
        await self._write()

    def _note_alive(self) -> None:
        self._alive_ms = self._clock.monotonic_ms()
        self._book.note(Delay(DelayKind.ALIVE, "", "", self._began_ms, self._clock.now_ms()))

    async def _note(self, now_ms: int) -> None:
        if now_ms - self._alive_ms >= ALIVE_MS:
            self._note_alive()
        await self._write()
        if self._is_leader() and now_ms - self._trimmed_ms >= TRIM_MS:
            trimmed = await self._store.trim_delays(self._clock.now_ms() - self._retention_ms, TRIM_ROWS)
            if trimmed < TRIM_ROWS:  # else there is more of it
                self._trimmed_ms = now_ms

    async def _write(self) -> None:
        delays = self._book.take()
        try:
            await self._store.note_delays(delays)
        except (StoreUnavailable, OutcomeUnknown):  # the next time
            self._book.give_back(delays)

    def _waiting(self) -> Iterable[Seen]:
        yield from self._at_hosts()
        for name, since_ms in self._scheduler.limits.held(MOST_PER_LOOK):
            yield DelayKind.LIMIT, name, since_ms, ""
        for tenant_id, due_ms, why in self._scheduler.tenants.held(MOST_PER_LOOK):
            yield (
                DelayKind.TENANT,
                tenant_id,
                self._clock.now_ms() - SHORTEST_MS if due_ms is None else due_ms,
                why,
            )
        ready, pools = self._scheduler.ready, self._scheduler.pools
        for kind in range(KIND_COUNT):
            for lane, due_ms in enumerate(ready.oldest_due_ms(kind, rough=True)):
                if due_ms is not None and not pools[kind].slots.free(lane):
                    yield DelayKind.SLOTS, f"{EXECUTORS[kind]}/{Lane(lane).name}", due_ms, ""
        for lane, due_ms in enumerate(self._scheduler.elsewhere.backlog.oldest_due_ms()[:LANE_COUNT]):
            if due_ms is not None:
                yield DelayKind.SLOTS, f"{ELSEWHERE}/{Lane(lane).name}", due_ms, ""

    def _at_hosts(self) -> Iterable[Seen]:
        mono_ms = self._clock.monotonic_ms()
        for number, host in enumerate(self._scheduler.gate.hosts.with_waiting()):
            if number >= MOST_PER_LOOK:
                return
            waiting = host.waiting
            dues = (
                due_ms for due_ms in waiting.ring.oldest_due_ms(waiting.kind, rough=True) if due_ms is not None
            )
            since_ms = min(dues, default=None)
            if since_ms is not None:
                name = shown(host.name) if waiting.kind == KIND_WEBHOOK else host.name
                yield DelayKind.TARGET, name, since_ms, host.why(mono_ms)
