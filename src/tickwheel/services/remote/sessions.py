"""The sessions of workers that come over HTTP, kept on their behalf by the node that they call.

A worker is seen with each of its calls, and all the time while one of its polls is pending; that is written to the
store now and then (`RENEW_MS`), so any node may be called. Its session ends in three ways:

- it leaves;
- it is silent for `SESSION_MS`: whoever looks after the sessions of the store ends it;
- a poll of it was cut off (its process died) and nothing was seen of it for `SUSPICION_MS`, on any node. For
  that to be true for other nodes, a poll that begins is written down within `EAGER_MS`, however recent the last
  renewal. A worker that is cut off and lives polls again at once, and nothing happens.

Only a *pending poll* that breaks says anything: tools such as curl close their connection after each answer.

A name whose session is over is answered with a new session under a new name: what it held is somebody else's.

A session belongs to a tenant, or to none, and its name says to which (by a digest). So a caller of another tenant
that brings it is answered as if it were no name at all, and without a look at what there is.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.queue import TAG_CHARS, tenant_tag
from tickwheel.ports.workers import RENEW_MS, WorkerNote, WorkerState, WorkerStore
from tickwheel.services.ownership.node_note import process_name

PREFIX: Final = "http-"
"""Of all names given here: nobody renews the session of a worker of another kind."""
_OF_TENANT: Final = ".tenant-"
EAGER_MS: Final = 250
SUSPICION_MS: Final = 600
RANDOM_BYTES: Final = 16
"""Whoever has a worker's name can speak as that worker to those who let it in: nobody guesses so many."""
LIST_AGAIN_MS: Final = 1_000
NEW_WEIGHT: Final = 0.1
"""Of the latest attempt in the mean length."""


class Session:
    """One worker, as this node knows it."""

    __slots__ = ("incarnation", "note", "poll", "renewed_mono_ms", "run_ms", "seen_mono_ms", "told")

    def __init__(self, incarnation: str, note: WorkerNote, mono_ms: int) -> None:
        self.incarnation, self.note = incarnation, note
        self.renewed_mono_ms = self.seen_mono_ms = mono_ms
        self.poll: asyncio.Event | None = None  # set when the pending poll is to be answered at once
        self.told: set[tuple[bytes, int]] = set()  # runs that it was told to stop
        self.run_ms = float(note.run_ms)

    def full_note(self) -> WorkerNote:
        """What it said, and how long its attempts take."""
        return replace(self.note, run_ms=round(self.run_ms)) if self.run_ms else self.note


class Sessions:
    """Those of one node. `on_over` gets the name of a session that has ended."""

    def __init__(
        self,
        *,
        store: WorkerStore,
        clock: Clock,
        randomness: Randomness,
        on_over: Callable[[str], None],
        on_dead: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._clock, self._randomness = store, clock, randomness
        self._on_over, self._on_dead = on_over, on_dead
        self._sessions: dict[str, Session] = {}
        self._suspecting: dict[str, asyncio.Task[None]] = {}
        self._listed: dict[str, WorkerNote] = {}
        self._listed_mono_ms = -LIST_AGAIN_MS

    def known(self) -> Sequence[Session]:
        """All that this node knows of."""
        return list(self._sessions.values())

    def find(self, incarnation: str) -> Session | None:
        """The session, if this node knows it."""
        return self._sessions.get(incarnation)

    async def open(self, incarnation: str, note: WorkerNote) -> Session:
        """The session of that name, or a new one. Raises `StoreUnavailable`."""
        session = await self._known(incarnation, note) if is_session_of(incarnation, note.tenant_id) else None
        if session is not None:
            return session
        mono_ms = self._clock.monotonic_ms()
        random = self._randomness.random_bytes(RANDOM_BYTES)
        name = session_name(note.name or "worker", random, note.tenant_id)
        await self._store.enlist_worker(name, note)
        session = self._sessions[name] = Session(name, note, mono_ms)
        return session

    async def _known(self, incarnation: str, note: WorkerNote) -> Session | None:
        session, mono_ms = self._sessions.get(incarnation), self._clock.monotonic_ms()
        if session is None:
            if not await self._store.renew_worker(incarnation, note):
                self._over(incarnation)
                return None
            session = self._sessions.setdefault(incarnation, Session(incarnation, note, mono_ms))
        session.note, session.seen_mono_ms = note, mono_ms
        return session if await self.renew(session, EAGER_MS) else None

    async def renew(self, session: Session, after_ms: int = RENEW_MS) -> bool:
        """Write down that it lives, if that was not done for so long. False: the session is over."""
        mono_ms = self._clock.monotonic_ms()
        session.seen_mono_ms = mono_ms
        before_ms = session.renewed_mono_ms
        if mono_ms - before_ms < after_ms:
            return True
        session.renewed_mono_ms = mono_ms  # now, so that calls at the same time do not all do it
        try:
            lives = await self._store.renew_worker(session.incarnation, session.full_note())
        except BaseException:
            session.renewed_mono_ms = before_ms
            raise
        if not lives:
            self._over(session.incarnation)
        return lives

    async def seen(self, incarnation: str) -> bool:
        """Another call of a worker, which may poll another node; whether its session goes on."""
        session = self._sessions.get(incarnation)
        if session is None and incarnation.startswith(PREFIX):
            session = await self._look_up(incarnation)
        return session is not None and await self.renew(session)

    async def _look_up(self, incarnation: str) -> Session | None:
        """What the worker told another node. Many strangers that call at once are looked up together."""
        mono_ms = self._clock.monotonic_ms()
        if mono_ms - self._listed_mono_ms > LIST_AGAIN_MS:
            self._listed_mono_ms = mono_ms
            self._listed = {state.incarnation: state.note for state in await self._store.workers()}
        note = self._listed.get(incarnation)
        if note is None:
            return None
        return self._sessions.setdefault(incarnation, Session(incarnation, note, mono_ms - RENEW_MS))

    def note_lengths(self, incarnation: str, lengths_ms: Sequence[int]) -> None:
        """So long did attempts take that ended now."""
        session = self._sessions.get(incarnation)
        if session is None:
            return
        for length_ms in lengths_ms:
            weight = NEW_WEIGHT if session.run_ms else 1.0
            session.run_ms += (max(1, length_ms) - session.run_ms) * weight

    async def leave(self, incarnation: str) -> bool:
        """End it, because its worker says so. Whether it is over."""
        over = await self._store.end_worker(incarnation)
        self._over(incarnation)
        return over

    async def list(self) -> Sequence[WorkerState]:
        """All live ones of the store, whatever their transport."""
        return await self._store.workers()

    def broken(self, session: Session) -> None:
        """The connection of its pending poll is gone."""
        name = session.incarnation
        if name not in self._suspecting and self._sessions.get(name) is session:
            self._suspecting[name] = asyncio.create_task(self._suspect(session), name="tickwheel-suspect")

    async def _suspect(self, session: Session) -> None:
        broke_ms, broke_mono_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        try:
            await self._clock.sleep_ms(SUSPICION_MS)
            if session.seen_mono_ms > broke_mono_ms or session.poll is not None:
                return
            if await self._store.end_worker(session.incarnation, unseen_since_ms=broke_ms):
                self._over(session.incarnation)
                self._on_dead()
        except StoreUnavailable:
            pass  # its silence ends it
        finally:
            del self._suspecting[session.incarnation]

    def forget_silent(self, older_than_ms: int) -> None:
        """Drop what this node has not seen for so long; the store goes on knowing it."""
        before_ms = self._clock.monotonic_ms() - older_than_ms
        for session in self.known():
            if session.seen_mono_ms < before_ms and session.poll is None:
                del self._sessions[session.incarnation]

    async def aclose(self) -> None:
        """Suspect nobody any more."""
        suspecting = list(self._suspecting.values())
        for task in suspecting:
            task.cancel()
        await asyncio.gather(*suspecting, return_exceptions=True)

    def _over(self, incarnation: str) -> None:
        self._sessions.pop(incarnation, None)
        self._on_over(incarnation)


def session_name(worker: str, random: bytes, tenant_id: str | None) -> str:
    """A name for a session of that tenant, or of none; `worker` is for people."""
    name = PREFIX + process_name(worker, random)
    return name if tenant_id is None else f"{name}{_OF_TENANT}{tenant_tag(tenant_id)}"


def is_session_of(incarnation: str, tenant_id: str | None) -> bool:
    """Whether that would be the name of a session of the tenant, or for None of one of no tenant."""
    if not incarnation.startswith(PREFIX):
        return False
    tag = incarnation[-TAG_CHARS - len(_OF_TENANT) :]
    if tenant_id is None:
        return not tag.startswith(_OF_TENANT)
    return tag == _OF_TENANT + tenant_tag(tenant_id)
