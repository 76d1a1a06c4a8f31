"""`SqliteStore`: the store port on one database file in one data folder.

Writes go through the one writer thread (see `writer`), reads through three reading threads, so that none waits for
the others or for a commit: one for people, one for what claims wait for, one for slices, of which a page takes as
long as a hundred claims. The load at start is every timer that is not resolved; taking the folder's lock is what
proves earlier incarnations dead.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from tickwheel.adapters.sqlite import (
    audit,
    changes,
    claim,
    complete,
    dead,
    insert,
    lists,
    load,
    runs,
    sessions,
    views,
)
from tickwheel.adapters.sqlite.change_count import ChangeCount
from tickwheel.adapters.sqlite.connection import DATABASE_NAME, Session, open_writer
from tickwheel.adapters.sqlite.errors import translate
from tickwheel.adapters.sqlite.explaining import SqliteExplaining
from tickwheel.adapters.sqlite.folder import make_folder
from tickwheel.adapters.sqlite.lock import FolderLock
from tickwheel.adapters.sqlite.migrate import migrate
from tickwheel.adapters.sqlite.notices import SqliteNotices
from tickwheel.adapters.sqlite.ownership import Ownership
from tickwheel.adapters.sqlite.readers import Reader
from tickwheel.adapters.sqlite.registry import SqliteRegistry
from tickwheel.adapters.sqlite.room import check_room
from tickwheel.adapters.sqlite.specs import SqliteSpecs
from tickwheel.adapters.sqlite.sweep import Sweeper
from tickwheel.adapters.sqlite.writer import Writer
from tickwheel.domain.columns import CLAIMED, TIMER, Bools, Ints, Rows, empty
from tickwheel.domain.outcome import ProgressNote
from tickwheel.ports.audit import AuditPiece
from tickwheel.ports.audit_entries import Call
from tickwheel.ports.clock import Clock
from tickwheel.ports.keys import Key, KeyHolder
from tickwheel.ports.registry import Act
from tickwheel.ports.store import (
    AttemptNote,
    ChainPage,
    Changed,
    Completed,
    Counts,
    DeadLetterPage,
    Inserted,
    JobDecision,
    JobPage,
    JobQuery,
    JobView,
    NamedDecision,
    NewJob,
    Run,
    RunDecision,
    RunPage,
    WorkDefinition,
)
from tickwheel.ports.workers import WorkerNote, WorkerState

T = TypeVar("T")


async def open_sqlite_store(folder: Path, clock: Clock) -> "SqliteStore":
    """Create the folder and the database if need be, bring the schema up to date and open it.

    Raises `ConfigError` when another process uses the folder or a newer program wrote it, `StoreUnavailable` when
    the file cannot be opened.
    """
    return await asyncio.get_running_loop().run_in_executor(None, _open, folder, clock)


def _open(folder: Path, clock: Clock) -> "SqliteStore":
    make_folder(folder)
    lock = FolderLock(folder)
    try:
        connection = open_writer(folder / DATABASE_NAME)
        migrate(connection, clock.now_ms())
        return SqliteStore(folder, connection, lock, clock)
    except apsw.Error as error:
        lock.release()
        raise translate(error) from error
    except BaseException:
        lock.release()
        raise


class SqliteStore(SqliteRegistry, SqliteSpecs, SqliteExplaining, SqliteNotices):
    """Implements `ports.store.Store` and `Registry`; made by `open_sqlite_store`."""

    def __init__(self, folder: Path, connection: apsw.Connection, lock: FolderLock, clock: Clock) -> None:
        self._clock, self._lock, self._folder = clock, lock, folder
        self._ownership, self._changes = Ownership(), ChangeCount()
        self._sweeper = Sweeper()
        self._owner_reader = Reader(folder / DATABASE_NAME, "sqlite-owner-reader")
        self._slice_reader = Reader(folder / DATABASE_NAME, "sqlite-slice-reader")
        self._reader = Reader(folder / DATABASE_NAME, "sqlite-reader")
        self._writer = Writer(connection, lock.path, self._changes.settle)
        self._closed = False

    async def insert_jobs(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        return await self._writer.submit_bulk(self._insert_jobs, jobs, act) if jobs else []

    def _insert_jobs(
        self, session: Session, jobs: Sequence[NewJob], calls: Sequence[Call] = ()
    ) -> Sequence[Inserted]:
        return insert.insert_jobs(session, jobs, self._clock.now_ms(), calls)

    async def find_keys(self, keys: Sequence[Key]) -> Sequence[KeyHolder | None]:
        """See `ports.keys.KeyedStore`."""
        return await self._reader.read(lambda session: insert.find_keys(session, keys)) if keys else []

    async def change_job(
        self, tenant_id: str, job_id: bytes, decide: JobDecision, act: Act | None = None
    ) -> Changed | None:
        return await self._change(
            lambda session: changes.change_job(session, tenant_id, job_id, decide, self._clock.now_ms(), act)
        )

    async def change_run(
        self, tenant_id: str, job_id: bytes, scheduled_ms: int, decide: RunDecision, act: Act | None = None
    ) -> Changed | None:
        return await self._change(
            lambda session: changes.change_run(
                session, tenant_id, job_id, scheduled_ms, decide, self._clock.now_ms(), act
            )
        )

    async def put_named(self, tenant_id: str, name: str, decide: NamedDecision, act: Act | None = None) -> Changed:
        return await self._change(
            lambda session: changes.put_named(session, tenant_id, name, decide, self._clock.now_ms(), act)
        )

    async def _change(self, change: Callable[[Session], T]) -> T:
        """Run what may change jobs that were read already."""

        def counted(session: Session) -> T:
            self._changes.rise()
            return change(session)

        return await self._writer.submit(counted)

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None:
        return await self._reader.read(partial(views.get_job, tenant_id=tenant_id, job_id=job_id), snapshot=True)

    async def list_jobs(self, query: JobQuery) -> JobPage:
        return await self._reader.read(partial(lists.list_jobs, query=query), snapshot=True)

    async def count_jobs(self, tenant_id: str, at_most: int) -> int:
        return await self._reader.read(lambda session: lists.count_jobs(session, tenant_id, at_most))

    async def count_running(self, counted: str) -> int:
        return await self._reader.read(lambda session: lists.count_running(session, counted))

    async def load_timers(
        self, from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None
    ) -> Rows:
        """`shards` is not looked at: the one process of this store holds them all."""
        if from_ms >= until_ms:
            return empty(TIMER)
        return await self._slice_reader.read(
            lambda session: load.load_timers(session, from_ms, until_ms, limit), snapshot=True
        )

    async def broken_chains(self, after: bytes, limit: int) -> ChainPage:
        return await self._reader.read(lambda session: load.broken_chains(session, after, limit), snapshot=True)

    async def load_work(self, job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        return await self._owner_reader.read(lambda session: load.load_work(session, job_ids, self._changes.value))

    async def acquire(self, worker: str) -> Ints:
        number, epochs = await self._writer.submit(lambda session: self._ownership.acquire(session, worker))
        self._ownership.adopt(number, epochs)
        return epochs.copy()

    async def claim(self, batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        if not len(batch):
            return empty(CLAIMED)
        return await self._writer.submit(
            lambda session: claim.claim(
                session, self._ownership, batch, now_ms, lease_ms, changes=self._changes.value, queued=queued
            ),
            len(batch),
        )

    async def begin(self, hints: Rows, worker: str, lease_ms: int) -> Rows:
        return await self._writer.submit(
            lambda session: sessions.begin(session, hints, worker, self._clock.now_ms(), lease_ms), len(hints)
        )

    async def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        return await self._writer.submit(
            lambda session: complete.complete(session, self._ownership.worker, batch, notes, self._clock.now_ms()),
            len(batch),
        )

    async def renew(self, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        return await self._writer.submit(lambda session: complete.renew(session, batch, notes), len(batch))

    async def expired(self, now_ms: int, limit: int, shards: Sequence[int] | None = None) -> Sequence[Run]:
        """`shards` is not looked at: the one process of this store holds them all."""
        worker = self._ownership.worker
        return await self._owner_reader.read(
            lambda session: runs.expired(session, worker, now_ms, limit), snapshot=True
        )

    async def find_runs(self, keys: Sequence[tuple[bytes, int]]) -> Sequence[Run | None]:
        return await self._owner_reader.read(lambda session: runs.find_runs(session, keys))

    async def get_run(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
        return await self._reader.read(
            lambda session: runs.get_run(session, tenant_id, job_id, scheduled_ms), snapshot=True
        )

    async def list_runs(self, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
        return await self._reader.read(
            lambda session: runs.list_runs(session, tenant_id, job_id, limit, after), snapshot=True
        )

    async def list_dead(self, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage:
        return await self._reader.read(lambda session: dead.list_dead(session, tenant_id, limit, after))

    async def drop_dead(self, tenant_id: str, job_id: bytes, scheduled_ms: int, act: Act | None = None) -> bool:
        return await self._writer.submit(
            lambda session: dead.drop_dead(session, tenant_id, job_id, scheduled_ms, self._clock.now_ms(), act)
        )

    async def enlist_worker(self, incarnation: str, note: WorkerNote) -> None:
        await self._writer.submit(
            lambda session: sessions.enlist(session, incarnation, note, self._clock.now_ms())
        )

    async def renew_worker(self, incarnation: str, note: WorkerNote) -> bool:
        return await self._writer.submit(
            lambda session: sessions.renew(session, incarnation, note, self._clock.now_ms())
        )

    async def end_worker(self, incarnation: str, *, unseen_since_ms: int | None = None) -> bool:
        return await self._writer.submit(lambda session: sessions.end(session, incarnation, unseen_since_ms))

    async def workers(self) -> Sequence[WorkerState]:
        return await self._owner_reader.read(sessions.states)

    async def counts(self) -> Counts:
        return await self._reader.read(dead.read_counts)

    async def maintain(self, now_ms: int) -> None:
        """One file has room for everything."""

    async def sweep(self, now_ms: int, retention_ms: int) -> int:
        return await self._change(lambda session: self._sweeper.sweep(session, now_ms, retention_ms))

    async def audit_jobs(self, after: str, limit: int, now_ms: int) -> AuditPiece:
        return await self._reader.read(lambda session: audit.audit_jobs(session, after, limit, now_ms))

    async def audit_runs(self, after: str, limit: int, now_ms: int, *, open_only: bool) -> AuditPiece:
        return await self._reader.read(lambda session: audit.audit_runs(session, after, limit, now_ms, open_only))

    async def audit_slots(self) -> int:
        return await self._reader.read(audit.audit_slots)

    async def check(self) -> None:
        await self._writer.submit(dead.touch)
        check_room(self._folder)

    async def aclose(self) -> None:
        """Finish what was asked for, close the file and let the folder go. Again: nothing."""
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._owner_reader.close()
        self._slice_reader.close()
        self._reader.close()
        self._writer.close()
        self._lock.release()
