"""Polls: a worker elsewhere says what it can do and holds, and is given runs to execute.

A poll begins runs in the ledger under the worker's name (`Taking`), and its answer carries them. What has begun
and does not reach the worker is handed back at once, using no attempt up:

- the connection broke before the answer was written (`gone`);
- a later poll of the same worker came meanwhile: the earlier one is answered, without runs, and nobody reads that;
- the answer was lost on its way: the next poll names what the worker holds, and what it should hold besides never
  reached it. (If it comes to another node, the lease of those runs ends instead.)

A poll that waits keeps the session, and looks now and then whether what the worker holds is still its own.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from tickwheel.domain.columns import FLAG_LANE_MASK
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.job import Lane
from tickwheel.domain.lanes import LANE_COUNT, LaneSlots
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import Topic
from tickwheel.ports.store import Run, Store
from tickwheel.ports.workers import RENEW_MS, WorkerNote
from tickwheel.services.remote.held import HeldRun, HeldRuns, RunKey
from tickwheel.services.remote.reports import Reports
from tickwheel.services.remote.routes import worker_routes
from tickwheel.services.remote.sessions import EAGER_MS, Session, Sessions
from tickwheel.services.remote.taking import Begun, Taking

LOOK_MS: Final = 1_000
"""How often a poll that waits looks whether the worker's runs are still its own."""
PART: Final = 64
"""Runs that are begun at a time."""
ANSWER_BYTES: Final = 4 << 20
"""With so much payload an answer is full; the last part may go beyond it."""
UNDELIVERED: Final = "not delivered: the worker's connection was gone before it got the run"


class Slots(msgspec.Struct, frozen=True):
    """What a worker can take: `free` runs in all. `busy` by lane, of `total`, has its reserved slots kept."""

    total: int
    free: int
    busy: tuple[int, ...] | None = None


class Poll(msgspec.Struct, frozen=True):
    """One question. `holding` None: the worker does not say what it holds."""

    worker: str  # its session; empty: it has none yet
    note: WorkerNote
    slots: Slots
    wait_ms: int
    holding: tuple[RunKey, ...] | None = None


class Polled(msgspec.Struct, frozen=True):
    """The answer. `cancelled` and `lost` are runs that the worker holds and has to let go of."""

    worker: str
    runs: Sequence[Begun]
    cancelled: Sequence[RunKey] = ()
    lost: Sequence[RunKey] = ()


class Polling:
    """The polls of one node."""

    def __init__(
        self,
        *,
        store: Store,
        taking: Taking,
        sessions: Sessions,
        held: HeldRuns,
        reports: Reports,
        clock: Clock,
    ) -> None:
        self._store, self._taking, self._sessions = store, taking, sessions
        self._held, self._reports, self._clock = held, reports, clock
        self._closing = False

    def close(self) -> None:
        """Answer all polls at once from now on, without runs."""
        self._closing = True
        for session in self._sessions.known():
            if session.poll is not None:
                session.poll.set()

    async def poll(self, ask: Poll, gone: asyncio.Event, is_welcome: Callable[[], bool] = lambda: True) -> Polled:
        """Runs for a worker, at the latest after `wait_ms`; `gone` is set when its connection is.

        Whoever is not welcome any more, after waiting, gets none.
        Raises `StoreUnavailable`, after handing back what had begun.
        """
        if self._closing:
            raise StoreUnavailable("this node is stopping; poll again, another node answers")
        until_ms = self._clock.monotonic_ms() + ask.wait_ms
        session = await self._sessions.open(ask.worker, ask.note)
        over = self._supersede(session)
        one = _Waiting(ask, session, gone, over, until_ms, is_welcome)
        if ask.holding is not None:
            missing = self._held.undelivered(session.incarnation, set(ask.holding))
            self._reports.hand_back(missing, UNDELIVERED)
        try:
            return await self._answer(one)
        finally:
            if session.poll is over:
                session.poll = None
            if gone.is_set():
                self._sessions.broken(session)

    def _supersede(self, session: Session) -> asyncio.Event:
        if session.poll is not None:
            session.poll.set()
        session.poll = over = asyncio.Event()
        return over

    async def _answer(self, one: "_Waiting") -> Polled:
        begun: list[Begun] = []
        while True:
            if not one.is_over:
                await self._look(one)
            if not one.is_over:
                begun += await self._take(one)
            if one.is_over:
                self._hand_back(begun)
                return Polled(one.session.incarnation, ())
            left_ms = one.until_ms - self._clock.monotonic_ms()
            if begun or one.has_news or left_ms <= 0:
                break
            await self._wait(one, left_ms)
            if not await self._sessions.renew(one.session, one.renew_after_ms(self._clock.monotonic_ms())):
                break  # the next poll gets another session
        now_ms, name = self._clock.now_ms(), one.session.incarnation
        for run in begun:
            self._held.add(name, (run.job_id, run.scheduled_ms), HeldRun.of_begun(run, now_ms))
        return Polled(name, begun, one.cancelled, one.lost)

    async def _take(self, one: "_Waiting") -> list[Begun]:
        """What there is for the free slots; nothing while the queue can't be reached."""
        begun: list[Begun] = []
        size_bytes = 0
        try:
            for topics, limit in one.wanted():
                while limit > 0 and size_bytes < ANSWER_BYTES and not one.is_over:
                    part = min(limit, PART)
                    taken = await self._taking.take(one.session.incarnation, topics, part, one.tenant_id)
                    self._reports.fail_broken(taken.broken)
                    begun += taken.begun
                    one.took(taken.begun)
                    limit -= len(taken.begun)
                    size_bytes += sum(len(run.definition.payload) for run in taken.begun)
                    if not taken.seen:
                        break
        except (ConnectionError, StoreUnavailable) as error:
            if not begun and isinstance(error, StoreUnavailable):
                raise
        except BaseException:
            self._hand_back(begun)
            raise
        return begun

    def _hand_back(self, begun: Sequence[Begun]) -> None:
        now_ms = self._clock.now_ms()
        pairs = [((run.job_id, run.scheduled_ms), HeldRun.of_begun(run, now_ms)) for run in begun]
        self._reports.hand_back(pairs, UNDELIVERED)

    async def _wait(self, one: "_Waiting", left_ms: int) -> None:
        """Until there may be something to take or to tell, or the poll is over."""
        limit_ms = min(left_ms, LOOK_MS if one.ask.holding else RENEW_MS, one.next_renewal_ms())
        topics = [topic for topics, _ in one.wanted() for topic in topics]
        waiting = (
            self._taking.wait(topics, limit_ms) if topics else self._clock.sleep_ms(limit_ms),
            one.over.wait(),
            one.gone.wait(),
        )
        tasks = [asyncio.ensure_future(each) for each in waiting]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(ends[0], ConnectionError):
            await self._clock.sleep_ms(min(left_ms, LOOK_MS))
        elif isinstance(ends[0], Exception):
            raise ends[0]

    async def _look(self, one: "_Waiting") -> None:
        """Which of the runs that the worker holds are its own no more."""
        holding, mono_ms = one.ask.holding, self._clock.monotonic_ms()
        if not holding or mono_ms < one.look_at_ms:
            return
        one.look_at_ms = mono_ms + LOOK_MS
        runs = await self._store.find_runs(holding)
        if one.tenant_id is not None:  # of the runs of others nothing is told: as if there were none
            runs = [run if run is not None and run.tenant_id == one.tenant_id else None for run in runs]
        worker = one.session.incarnation
        stopped = [(key, run) for key, run in zip(holding, runs, strict=True) if _is_stopped(run, worker)]
        one.tell(
            [key for key, run in stopped if run is not None and run.state is RunState.CANCELLED],
            [key for key, run in stopped if run is None or run.state is not RunState.CANCELLED],
        )
        self._held.drop(worker, [key for key, _ in stopped])


class _Waiting:
    """A poll under way."""

    def __init__(
        self,
        ask: Poll,
        session: Session,
        gone: asyncio.Event,
        over: asyncio.Event,
        until_ms: int,
        is_welcome: Callable[[], bool],
    ) -> None:
        self.ask, self.session, self.gone, self.over, self.until_ms = ask, session, gone, over, until_ms
        self._is_welcome = is_welcome
        self.look_at_ms = 0
        self.cancelled: Sequence[RunKey] = ()
        self.lost: Sequence[RunKey] = ()
        self.has_news = False
        self._was_written = False
        self._left = ask.slots.free
        self._lanes = _lane_slots(ask.slots)
        self._ahead = max(0, self._left - (ask.slots.total - sum(self._lanes.used))) if self._lanes else 0
        self.tenant_id, note = ask.note.tenant_id, ask.note
        routes = worker_routes(note.handlers, webhooks=note.webhooks, tenant_id=note.tenant_id)
        self._topics = {lane: [Topic(lane, route) for route in routes] for lane in Lane}

    @property
    def is_over(self) -> bool:
        """Whether nobody reads what this poll is answered, or may read it."""
        return self.gone.is_set() or self.over.is_set() or not self._is_welcome()

    def wanted(self) -> Iterator[tuple[Sequence[Topic], int]]:
        """Topics to take from, highest lane first, each time with the most that may be taken of them by then."""
        if self._lanes is None:
            topics = [topic for lane in Lane for topic in self._topics[lane]]
            if self._left > 0 and topics:
                yield topics, self._left
            return
        for lane in Lane:
            limit = min(self._left, self._lanes.free(lane) + self._ahead)
            if limit > 0 and self._topics[lane]:
                yield self._topics[lane], limit

    def took(self, begun: Sequence[Begun]) -> None:
        """These slots are taken."""
        self._left -= len(begun)
        if self._lanes is None:
            return
        for run in begun:
            lane = run.flags & FLAG_LANE_MASK
            if self._lanes.free(lane):
                self._lanes.take(lane, 1)
            else:
                self._ahead -= 1

    def next_renewal_ms(self) -> int:
        """A poll that begins is written down soon, for the other nodes."""
        return RENEW_MS if self._was_written else EAGER_MS

    def renew_after_ms(self, mono_ms: int) -> int:
        """How old the last renewal has to be for another one."""
        self._was_written, first = True, not self._was_written
        return EAGER_MS if first else RENEW_MS

    def tell(self, cancelled: Sequence[RunKey], lost: Sequence[RunKey]) -> None:
        """Runs to stop; what was told before is told again, but not hurried for."""
        self.cancelled, self.lost = cancelled, lost
        told = self.session.told & set(self.ask.holding or ())
        stopped = {*cancelled, *lost}
        self.has_news = bool(stopped - told)
        self.session.told = told | stopped


def _lane_slots(slots: Slots) -> LaneSlots | None:
    if slots.busy is None:
        return None
    lanes = LaneSlots(slots.total)
    lanes.used = list(slots.busy) + [0] * (LANE_COUNT - len(slots.busy))
    return lanes


def _is_stopped(run: Run | None, worker: str) -> bool:
    """Whether a run that the worker means to hold is its own no more; one that just ended well is no news."""
    if run is None:
        return True
    if run.state in IN_FLIGHT:
        return run.worker != worker
    return run.state is not RunState.SUCCEEDED or run.worker != worker
