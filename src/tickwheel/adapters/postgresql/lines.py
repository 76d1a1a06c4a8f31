"""Threads that work off operations, each over a connection of its own.

An operation is a function of a `Session`. The event loop hands it over and waits; a thread runs it while it waits
for the server without the interpreter's lock. Operations that were submitted as bulk while the threads were busy
are merged, so that callers who wait at the same moment share one commit.

**Nothing waits for ever.** A caller waits at most `call_seconds`. If its operation has not begun by then, it never
does (`StoreUnavailable`); if it has, the connection is cut under it, and where it was writing, its outcome is
unknown. So a server that hangs, or a network that swallows everything, costs each caller that time and no more.

**Connections.** A thread connects when it has something to do, notices a connection that died while it was idle,
and pauses between attempts that failed, up to half a second; meanwhile operations fail after their wait in the
queue. What met a deadlock or a serialization failure is run again a few times: nothing of it was written.
"""

import asyncio
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Final, TypeAlias, TypeVar

import psycopg

from tickwheel.adapters.postgresql.errors import RETRIED, is_lost, translate
from tickwheel.adapters.postgresql.session import Session, SessionKind, connect
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable

CALL_SECONDS: Final = 5.0
FIRST_PAUSE_SECONDS: Final = 0.02
LAST_PAUSE_SECONDS: Final = 0.5
ATTEMPTS: Final = 5
GROUP_ROWS: Final = 4_000
"""A merged operation takes no further one once it has this many rows."""

T = TypeVar("T")
Work = Callable[[Session], Any]
Part: TypeAlias = tuple[Any, int]
"""What one call noted of its items in a bulk operation, and how many they are."""
BulkWork = Callable[..., Sequence[Any]]
"""Takes a session and items; if any call noted something, the parts as well."""


class _Operation:
    """One call. `begun` and `given_up` are decided under its lock: only one of them comes first."""

    __slots__ = (
        "begun",
        "bulk",
        "future",
        "given_up",
        "items",
        "lock",
        "loop",
        "note",
        "session",
        "work",
        "writes",
    )

    def __init__(
        self, work: Work | None, bulk: BulkWork | None, items: Sequence[Any], writes: bool, note: Any = None
    ) -> None:
        self.work, self.bulk, self.items, self.writes, self.note = work, bulk, items, writes, note
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.lock = Lock()
        self.begun = self.given_up = False
        self.session: Session | None = None

    def begin(self) -> bool:
        """Whether the thread may run it."""
        with self.lock:
            self.begun = not self.given_up
            return self.begun

    def give_up(self) -> None:
        """Called by the loop when the caller has waited long enough."""
        with self.lock:
            self.given_up = True
            session = self.session if self.begun else None
        if self.future.done():
            return
        if self.begun and self.writes:
            self.future.set_exception(OutcomeUnknown("the database did not answer in time"))
        else:
            self.future.set_exception(StoreUnavailable("the database did not answer in time"))
        if session is not None:
            session.cut()


_Answer = tuple[_Operation, Any, BaseException | None]


class Lines:
    """`count` threads with a connection each, over one queue."""

    def __init__(self, url: str, kind: SessionKind, count: int = 1, *, call_seconds: float = CALL_SECONDS) -> None:
        self._url, self._kind, self._call_seconds = url, kind, call_seconds
        self._queue: SimpleQueue[_Operation | None] = SimpleQueue()
        self._closing = Event()
        self._sessions: set[Session] = set()
        self._threads = [
            Thread(target=self._serve, name=f"postgresql-{kind.name}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    async def submit(self, work: Callable[[Session], T], *, writes: bool = False) -> T:
        """Run `work` in a thread; it may run more than once, so it is a function of the database alone."""
        result: T = await self._wait(_Operation(work, None, (), writes))
        return result

    async def submit_bulk(self, work: BulkWork, items: Sequence[Any], note: Any = None) -> Sequence[Any]:
        """Run a writing function of many items that gives one result each; calls that wait together are merged.

        If one has a note, the function is also told which items came together, under which note.
        """
        result: Sequence[Any] = await self._wait(_Operation(None, work, items, True, note))
        return result

    async def _wait(self, operation: _Operation) -> Any:
        if self._closing.is_set():
            raise StoreUnavailable("the store is closed")
        limit = operation.loop.call_later(self._call_seconds, operation.give_up)
        self._queue.put(operation)
        try:
            return await operation.future
        finally:
            limit.cancel()

    def cut(self) -> None:
        """Break all connections; the next operations make new ones."""
        for session in list(self._sessions):
            session.cut()

    def end(self) -> None:
        """Take nothing more; what is queued is still done."""
        if not self._closing.is_set():
            self._closing.set()
            for _ in self._threads:
                self._queue.put(None)

    def close(self) -> None:
        """Finish what is queued and close the connections. Blocks, a bounded time."""
        self.end()
        for thread in self._threads:
            thread.join(CALL_SECONDS)
        self.cut()
        for thread in self._threads:
            thread.join(CALL_SECONDS)

    def _serve(self) -> None:
        session: Session | None = None
        pause_seconds = FIRST_PAUSE_SECONDS
        while (group := self._take()) is not None:
            try:
                session = self._usable(session)
                pause_seconds = FIRST_PAUSE_SECONDS
            except psycopg.Error as error:
                session = None
                _answer([(operation, None, translate(error)) for operation in group])
                self._closing.wait(pause_seconds)
                pause_seconds = min(2 * pause_seconds, LAST_PAUSE_SECONDS)
                continue
            self._run(session, group)
        if session is not None:
            self._drop(session)

    def _take(self) -> list[_Operation] | None:
        """The next operation, or bulk operations of one function that wait together; None at the end."""
        first = self._queue.get()
        if first is None:
            return None
        group = [first]
        size = len(first.items)
        while first.bulk is not None and size < GROUP_ROWS:
            try:
                following = self._queue.get_nowait()
            except Empty:
                break
            if following is None or following.bulk != first.bulk:
                self._queue.put(following)
                break
            group.append(following)
            size += len(following.items)
        return group

    def _usable(self, session: Session | None) -> Session:
        if session is not None:
            if not session.is_broken:
                return session
            self._drop(session)
        session = connect(self._url, self._kind)
        self._sessions.add(session)
        return session

    def _drop(self, session: Session) -> None:
        self._sessions.discard(session)
        session.close()

    def _run(self, session: Session, group: list[_Operation]) -> None:
        group = [operation for operation in group if operation.begin()]
        if not group:
            return
        for operation in group:
            operation.session = session
        try:
            results = _attempt(session, group)
        except BaseException as error:  # whatever the work raises belongs to its callers
            if len(group) > 1 and not isinstance(error, StoreUnavailable):
                for operation in group:  # one bad item must not fail its neighbours
                    self._run_single(session, operation)
                return
            _answer([(operation, None, error) for operation in group])
            return
        _answer([(operation, result, None) for operation, result in zip(group, results, strict=True)])

    def _run_single(self, session: Session, operation: _Operation) -> None:
        try:
            [result] = _attempt(session, [operation])
        except BaseException as error:  # as above
            _answer([(operation, None, error)])
        else:
            _answer([(operation, result, None)])


def _attempt(session: Session, group: list[_Operation]) -> list[Any]:
    """Run it, again if the server asks for that; raises the port's errors."""
    for left in reversed(range(ATTEMPTS)):
        session.committing = False
        try:
            return _call(session, group)
        except psycopg.Error as error:
            if error.sqlstate in RETRIED and left:
                continue
            if is_lost(error):
                session.cut()
            raise translate(error, committing=session.committing) from error
    raise AssertionError("unreachable")


def _call(session: Session, group: list[_Operation]) -> list[Any]:
    first = group[0]
    if first.bulk is None:
        assert first.work is not None
        return [first.work(session)]
    items = [item for operation in group for item in operation.items]
    noted = any(operation.note is not None for operation in group)
    told = ([(operation.note, len(operation.items)) for operation in group],) if noted else ()
    results = first.bulk(session, items, *told)
    parts, start = [], 0
    for operation in group:
        parts.append(results[start : start + len(operation.items)])
        start += len(operation.items)
    return parts


def _answer(answers: Sequence[_Answer]) -> None:
    """Resolve the futures, with one call into each event loop: waking a loop costs more than an answer."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].loop, []).append(answer)
    for loop, part in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, part)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            continue


def _resolve(answers: Sequence[_Answer]) -> None:
    for operation, result, error in answers:
        if operation.future.done():
            continue
        if error is None:
            operation.future.set_result(result)
        else:
            operation.future.set_exception(error)
