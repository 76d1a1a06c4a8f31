"""Where workers that come over HTTP are served: their sessions, polls and reports, put together.

    poll -> Polling -> Taking -> queue, store (begin)        heartbeat -> Reports -> store (renew)
              |  ^                                           complete, fail -> Reports -> Ends -> store (complete)
              v  |
           HeldRuns, Sessions

Any node can serve any worker, and each call of a worker another one: what is kept here only makes things quicker.

A caller may be bound to a tenant (`tenant_id`). Workers and runs of others do not exist for it: their ids are
answered as unknown ones are, and nothing is done to them.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tickwheel.domain.columns import Rows
from tickwheel.domain.errors import EgressRefused
from tickwheel.domain.job import Target
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.events import EventSink
from tickwheel.ports.queue import Queue
from tickwheel.ports.store import Store
from tickwheel.ports.workers import SESSION_MS, WorkerState
from tickwheel.services.alarm import wait_at_most
from tickwheel.services.remote.ends import Ends
from tickwheel.services.remote.held import HeldRuns, RunKey
from tickwheel.services.remote.polling import Poll, Polled, Polling
from tickwheel.services.remote.reports import Beaten, Refusal, Reports, RunBeat, RunEnd
from tickwheel.services.remote.sessions import PREFIX, Sessions, is_session_of
from tickwheel.services.remote.taking import Begun, Taking
from tickwheel.services.supervision import supervise

TIDY_MS: Final = 10_000
FLUSH_MS: Final = 2_000
_STRANGER: Final = ""
"""The worker that nobody is."""


class WorkerDesk:
    """One node's. `start` it on the running loop; `close` before the store goes."""

    def __init__(
        self,
        *,
        store: Store,
        queue: Queue,
        clock: Clock,
        randomness: Randomness,
        events: EventSink,
        arm: Callable[[Rows], None],
        lease_length_ms: int,
        on_dead: Callable[[], None] = lambda: None,
        on_committed: Callable[[Rows], None] = lambda ends: None,
    ) -> None:
        self._clock, self._events = clock, events
        self.lease_length_ms, self.session_length_ms = lease_length_ms, SESSION_MS
        self._held = HeldRuns()
        self._ends = Ends(ledger=store, clock=clock, events=events, arm=arm, on_committed=on_committed)
        self._sessions = Sessions(
            store=store, clock=clock, randomness=randomness, on_over=self._held.forget, on_dead=on_dead
        )
        self._reports = Reports(
            store=store,
            ends=self._ends,
            held=self._held,
            clock=clock,
            randomness=randomness,
            lease_length_ms=lease_length_ms,
            on_lengths=self._sessions.note_lengths,
        )
        self._polling = Polling(
            store=store,
            taking=Taking(queue=queue, store=store, clock=clock, lease_length_ms=lease_length_ms),
            sessions=self._sessions,
            held=self._held,
            reports=self._reports,
            clock=clock,
        )
        self._refuse_target: Callable[[str, Target], None] = lambda tenant_id, target: None
        self._loops: list[asyncio.Task[None]] = []

    def refuse_by(self, refuse_target: Callable[[str, Target], None]) -> None:
        """Give no run to a worker whose target this refuses (tenant, target); it raises `EgressRefused`."""
        self._refuse_target = refuse_target

    def start(self) -> None:
        """Begin to commit ends."""
        for name, loop in (("remote ends", self._ends.run), ("remote sessions", self._tidy)):
            running = supervise(name, loop, self._clock, self._events)
            self._loops.append(asyncio.create_task(running, name=f"tickwheel-{name}"))

    def stop_polls(self) -> None:
        """The node is stopping: its workers go on at another one, but may still report here."""
        self._polling.close()

    async def close(self) -> None:
        """Commit what was reported, then stop. Again: nothing."""
        self.stop_polls()
        await self._sessions.aclose()
        if self._loops:
            await wait_at_most(self._ends.flushed(), FLUSH_MS, self._clock)
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops.clear()

    async def poll(self, ask: Poll, gone: asyncio.Event, is_welcome: Callable[[], bool] = lambda: True) -> Polled:
        """See `Polling.poll`. The note says which tenant the caller is bound to."""
        polled = await self._polling.poll(ask, gone, is_welcome)
        refused: dict[int, str] = {}
        for position, run in enumerate(polled.runs):
            try:
                self._refuse_target(run.definition.tenant_id, run.spec.target)
            except EgressRefused as refusal:
                refused[position] = str(refusal)
        if not refused:
            return polled
        self._reports.fail_refused(polled.worker, [(polled.runs[at], why) for at, why in refused.items()])
        fit = [run for position, run in enumerate(polled.runs) if position not in refused]
        return msgspec.structs.replace(polled, runs=fit)

    async def beat(
        self, worker: str, beats: Sequence[RunBeat], tenant_id: str | None = None
    ) -> tuple[bool, Sequence[Beaten]]:
        """Whether the worker's session goes on, and what became of each lease. Raises `StoreUnavailable`."""
        worker = worker if is_session_of(worker, tenant_id) else _STRANGER
        lives = await self._sessions.seen(worker)
        return lives, await self._reports.beat(worker, beats, tenant_id) if beats else ()

    async def end(
        self, worker: str, ends: Sequence[RunEnd], tenant_id: str | None = None
    ) -> Sequence[Refusal | None]:
        """Commit these ends; per end why it was refused. Raises `StoreUnavailable`."""
        worker = worker if is_session_of(worker, tenant_id) else _STRANGER
        await self._sessions.seen(worker)
        return await self._reports.end(worker, ends, tenant_id)

    def fail_unsent(self, worker: str, failed: Sequence[tuple[Begun, str]]) -> None:
        """These began for the worker and are not given to it, for the reason that is told: to be tried again."""
        self._reports.fail_unsent(worker, failed)

    async def leave(self, worker: str, holding: Sequence[RunKey], tenant_id: str | None = None) -> bool:
        """The worker goes. What it was given and does not hold goes back first; what it holds is lost.

        Whether it is gone, which a worker that never was is too.
        """
        if not is_session_of(worker, tenant_id):
            return worker.startswith(PREFIX)
        self._reports.hand_back(self._held.undelivered(worker, set(holding)), "handed back: the worker left")
        await self._ends.flushed()
        return await self._sessions.leave(worker)

    async def workers(self, tenant_id: str | None = None) -> Sequence[WorkerState]:
        """The live workers of the store, or a tenant's own, of any transport. Raises `StoreUnavailable`."""
        states = await self._sessions.list()
        return states if tenant_id is None else [one for one in states if one.note.tenant_id == tenant_id]

    async def _tidy(self) -> None:
        while True:
            await self._clock.sleep_ms(TIDY_MS)
            self._held.forget_old(self._clock.now_ms())
            self._sessions.forget_silent(2 * SESSION_MS)
