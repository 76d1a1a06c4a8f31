"""Watches the workers' sessions: what they serve, and who of them is over.

Each owner reads the sessions every second, so capacity that comes or goes is known within that. A session that
was not renewed for `SESSION_MS` is ended, and so is one whose process is proved to be gone by its link: killed
processes are found within half a second. Everybody may do it; the store does it once, and never to a session that
was renewed meanwhile.

Silence is the *absence of change* in what this owner reads, on its own monotonic clock, and begins anew when it
could not read for a while: after the store was away for everybody, nobody has renewed, and everybody lives.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink, WorkerLost
from tickwheel.ports.peers import Peers
from tickwheel.ports.workers import SESSION_MS, WorkerState, WorkerStore
from tickwheel.services.ownership.node_note import process_of
from tickwheel.services.remote.routes import Routes

READ_MS: Final = 1_000
LONGEST_GAP_MS: Final = 3_000
"""Readings further apart leave time in which nothing is known."""
PROOF_MS: Final = 100
"""How often the links are asked."""


class WorkerWatch:
    """One owner's. `peers` None: workers have no links to it (an embedded store)."""

    def __init__(
        self,
        *,
        store: WorkerStore,
        routes: Routes,
        peers: Peers | None,
        clock: Clock,
        events: EventSink,
        on_routes: Callable[[Sequence[str], Sequence[str]], None],
        on_dead: Callable[[], None],
    ) -> None:
        self._store, self._routes, self._peers = store, routes, peers
        self._clock, self._events = clock, events
        self._on_routes, self._on_dead = on_routes, on_dead
        self._states: Sequence[WorkerState] = ()
        self._read_mono_ms: int | None = None
        self._changed: dict[str, tuple[int, int]] = {}  # by session: as seen last, and since when (monotonic)

    @property
    def states(self) -> Sequence[WorkerState]:
        """The live sessions, as read last."""
        return self._states

    @property
    def has_read(self) -> bool:
        """Whether they were read at all."""
        return self._read_mono_ms is not None

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            await self.look()
            await self._clock.sleep_ms(PROOF_MS if self._peers is not None and self._states else READ_MS)

    async def aclose(self) -> None:
        """Drop the links."""
        if self._peers is not None:
            await self._peers.aclose()

    async def look(self) -> None:
        """Once: read what is to be read, end what is over."""
        if self._read_mono_ms is None or self._clock.monotonic_ms() - self._read_mono_ms >= READ_MS:
            await self._read()
        now_mono_ms = self._clock.monotonic_ms()
        for state in list(self._states):
            gone = self._peers is not None and bool(state.note.address) and self._peers.is_gone(_process(state))
            silent_ms = now_mono_ms - self._changed[state.incarnation][1]
            if gone or silent_ms >= SESSION_MS:
                await self._end(state, proved=gone, silent_ms=silent_ms)

    async def _read(self) -> None:
        states = await self._store.workers()
        now_mono_ms = self._clock.monotonic_ms()
        gap_ms = now_mono_ms - (self._read_mono_ms or now_mono_ms)
        known = self._changed if gap_ms <= LONGEST_GAP_MS else {}
        self._states, self._read_mono_ms = states, now_mono_ms
        self._changed = {
            state.incarnation: earlier
            if (earlier := known.get(state.incarnation)) is not None and earlier[0] == state.seen_ms
            else (state.seen_ms, now_mono_ms)
            for state in states
        }
        if self._peers is not None:
            linked = {_process(state): state.note.address for state in self._states if state.note.address}
            self._peers.watch(linked)
        fresh, gone = self._routes.learn(self._states), self._routes.forget_old()
        self._on_routes(fresh, gone)

    async def _end(self, state: WorkerState, *, proved: bool, silent_ms: int) -> None:
        self._states = [other for other in self._states if other is not state]
        # A renewal that came since our reading is seen by the store, and saves a session that only seemed silent.
        unseen_since_ms = None if proved else state.seen_ms
        if await self._store.end_worker(state.incarnation, unseen_since_ms=unseen_since_ms):
            self._events.emit(WorkerLost(worker=state.incarnation, proved=proved, silent_ms=silent_ms))
            self._routes.learn(self._states)
            self._on_dead()


def _process(state: WorkerState) -> str:
    """What says its name at the worker's address: the process, whatever its latest session is called."""
    return process_of(state.incarnation)[0]
