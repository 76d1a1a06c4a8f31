"""The single writer: a thread that commits whatever is queued as one group.

Callers queue operations and wait; the thread takes all that are there, runs them in one transaction, commits
once, and only then answers them, all in one call to their event loop. So the cost of a commit (a sync of the
disk) is shared by everyone who waits at that moment, and nobody waits for a timer.

One bad operation must not fail its neighbours. The usual group runs without savepoints; when an operation
fails after it wrote something, the whole group is rolled back and run again with a savepoint around each
operation (operations are functions of the database and their arguments, so running them twice is harmless).
An error that ends the transaction itself (the disk is full) fails what had been done in it: that was not
written.

Operations queued together have no order among themselves, so bulk inserts are merged and go first.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import apsw

from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.delivery import Answer, deliver
from tickwheel.adapters.sqlite.errors import translate
from tickwheel.adapters.sqlite.presence import Presence
from tickwheel.domain.errors import StoreUnavailable

GROUP_ROWS: Final = 4_000
"""A group takes no further operation once it has this many rows, so that nobody waits long for its commit."""

T = TypeVar("T")
Write = Callable[[Session], Any]
Part: TypeAlias = tuple[Any, int]
"""What one call noted of its items in a bulk write, and how many they are."""
BulkWrite = Callable[..., Sequence[Any]]
"""Takes a session and items; if any call noted something, the parts as well."""


class _Unit(Protocol):
    """What a group runs: it succeeds or fails as a whole."""

    def run(self, session: Session) -> list[Answer]: ...

    def fail(self, error: BaseException) -> list[Answer]: ...


@dataclass(slots=True)
class _Operation:
    write: Write
    future: "asyncio.Future[Any]"
    row_count: int

    def run(self, session: Session) -> list[Answer]:
        return [Answer(self.future, self.write(session), None)]

    def fail(self, error: BaseException) -> list[Answer]:
        return [Answer(self.future, None, error)]


@dataclass(slots=True)
class _BulkOperation:
    write: BulkWrite
    items: Sequence[Any]
    future: "asyncio.Future[Any]"
    note: Any

    @property
    def row_count(self) -> int:
        return len(self.items)

    def run(self, session: Session) -> list[Answer]:
        return [Answer(self.future, _write(session, self.items, [self]), None)]

    def fail(self, error: BaseException) -> list[Answer]:
        return [Answer(self.future, None, error)]


@dataclass(slots=True)
class _Merged:
    """Bulk operations of one function, run as one."""

    parts: list[_BulkOperation]

    def run(self, session: Session) -> list[Answer]:
        items = [item for part in self.parts for item in part.items]
        results, answers, start = _write(session, items, self.parts), [], 0
        for part in self.parts:
            end = start + len(part.items)
            answers.append(Answer(part.future, results[start:end], None))
            start = end
        return answers

    def fail(self, error: BaseException) -> list[Answer]:
        return [answer for part in self.parts for answer in part.fail(error)]


def _write(session: Session, items: Sequence[Any], parts: Sequence[_BulkOperation]) -> Sequence[Any]:
    if all(part.note is None for part in parts):
        return parts[0].write(session, items)
    return parts[0].write(session, items, [(part.note, part.row_count) for part in parts])


class Writer:
    """Owns the writing connection; `submit` from any event loop, `aclose` once."""

    def __init__(self, connection: apsw.Connection, lock: Path, settle: Callable[[], None]) -> None:
        """`lock` is the file whose lock keeps other processes out; `settle` is called after each group."""
        self._session = Session(connection)
        self._presence, self._settle = Presence(connection, lock), settle
        self._queue: SimpleQueue[_Operation | _BulkOperation | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._serve, name="sqlite-writer", daemon=True)
        self._thread.start()

    async def submit(self, write: Callable[[Session], T], row_count: int = 1) -> T:
        """Run `write` in a group; its result once that is on disk. `write` may run twice."""
        self._refuse_when_closed()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Operation(write, future, row_count))
        return await future

    async def submit_bulk(self, write: BulkWrite, items: Sequence[Any], note: Any = None) -> Sequence[Any]:
        """Like `submit`, for a function of many items that gives one result each; calls are merged.

        If one has a note, the function is also told which items came together, under which note.
        """
        self._refuse_when_closed()
        future: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        self._queue.put(_BulkOperation(write, items, future, note))
        return await future

    def close(self) -> None:
        """Finish what is queued, end the thread and close the connection. Blocks."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _serve(self) -> None:
        while self._serve_group():
            pass
        self._session.connection.close()

    def _serve_group(self) -> bool:
        group, more = self._take()
        if group:
            answers = self._commit_group(group)
            self._settle()
            deliver(answers)
        return more

    def _take(self) -> tuple[list[_Operation | _BulkOperation], bool]:
        """Wait for an operation, then take all that are queued; False with it when asked to end."""
        group: list[_Operation | _BulkOperation] = []
        row_count, first = 0, self._queue.get()
        while first is not None:
            group.append(first)
            row_count += first.row_count
            if row_count >= GROUP_ROWS:
                return group, True
            try:
                first = self._queue.get_nowait()
            except Empty:
                return group, True
        return group, False

    def _commit_group(self, group: list[_Operation | _BulkOperation]) -> list[Answer]:
        try:
            self._presence.check()
            self._session.run("BEGIN IMMEDIATE")
        except (StoreUnavailable, apsw.Error) as error:
            return _fail_all(group, error)
        answers = self._attempt(_merge(group))
        return answers if answers is not None else self._commit_carefully(group)

    def _attempt(self, units: Sequence[_Unit]) -> list[Answer] | None:
        """Run all without savepoints and commit; None, rolled back, if it has to be done again with them."""
        connection, answers = self._session.connection, []
        for unit in units:
            written = connection.total_changes()
            try:
                answers.extend(unit.run(self._session))
            except Exception as error:  # belongs to this operation alone, if it wrote nothing
                if isinstance(unit, _Merged) or connection.total_changes() != written:
                    self._roll_back()
                    return None
                answers.extend(unit.fail(_as_port_error(error)))
        return self._finish(answers)

    def _commit_carefully(self, group: Sequence[_Unit]) -> list[Answer]:
        """Run all in one transaction, each in a savepoint of its own, and commit."""
        connection = self._session.connection
        settled: list[Answer] = []  # failed, whatever becomes of the transaction
        answers: list[Answer] = []
        for number, unit in enumerate(group):
            if not connection.in_transaction:
                try:
                    self._session.run("BEGIN IMMEDIATE")
                except apsw.Error as error:
                    return settled + _fail_all(group[number:], error)
            try:
                self._session.run("SAVEPOINT operation")
                answers.extend(unit.run(self._session))
                self._session.run("RELEASE operation")
            except Exception as error:  # belongs to this operation alone, unless the transaction is gone
                settled.extend(unit.fail(_as_port_error(error)))
                if not self._undo_operation():
                    settled.extend(Answer(a.future, None, _as_port_error(error)) for a in answers)
                    answers = []
        return settled + (self._finish(answers) if connection.in_transaction else answers)

    def _undo_operation(self) -> bool:
        """Back to before the operation; False when the transaction itself is gone."""
        if not self._session.connection.in_transaction:
            return False
        try:
            self._session.run("ROLLBACK TO operation")
            self._session.run("RELEASE operation")
        except apsw.Error:
            self._roll_back()
            return False
        return True

    def _finish(self, answers: list[Answer]) -> list[Answer]:
        try:
            self._session.run("COMMIT")
        except apsw.Error as error:
            failure = translate(error, committing=True)
            self._roll_back()
            return [Answer(a.future, None, a.error or failure) for a in answers]
        return answers

    def _roll_back(self) -> None:
        try:
            if self._session.connection.in_transaction:
                self._session.run("ROLLBACK")
        except apsw.Error:  # the transaction is gone either way; BEGIN reports what still is wrong
            return


def _merge(group: list[_Operation | _BulkOperation]) -> list[_Unit]:
    bulks: dict[BulkWrite, list[_BulkOperation]] = {}
    others: list[_Unit] = []
    for operation in group:
        if isinstance(operation, _BulkOperation):
            bulks.setdefault(operation.write, []).append(operation)
        else:
            others.append(operation)
    merged = (parts[0] if len(parts) == 1 else _Merged(parts) for parts in bulks.values())
    return [*merged, *others]


def _fail_all(group: Iterable[_Unit], error: Exception) -> list[Answer]:
    failure = _as_port_error(error)
    return [answer for unit in group for answer in unit.fail(failure)]


def _as_port_error(error: Exception) -> Exception:
    return translate(error) if isinstance(error, apsw.Error) else error
