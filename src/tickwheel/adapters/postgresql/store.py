"""`PostgresqlStore`: the store ports on a PostgreSQL database.

Connections of a process, each with a thread of its own (see `lines`):

| connection | for | needs a session of its own |
|---|---|---|
| claims | claims, and all else that locks the node's row (taking shards, pairs): one at a time (D2) | yes |
| completions | completions, heartbeats | yes |
| feed | polls; its session is part of each snapshot (B5) | yes |
| loads | slices: one page takes as long as hundreds of claims | yes |
| lookups | definitions and runs that a claim waits for, what expired | yes |
| ownership | who owns what, who is deposed, the time: never behind a long load, for beats depend on it | yes |
| gathering | single new jobs: what comes during a commit shares the next one | yes |
| writers | batches of new jobs, jobs with idempotency keys, changes | yes |
| readers | everything that people read | no: a pooler in transaction mode will do |
| upkeep | room ahead, retention, export: opened for each turn | yes |
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import psycopg

from tickwheel.adapters.postgresql import (
    changes,
    claim,
    complete,
    dead,
    feed,
    insert,
    leases,
    lists,
    load,
    runs,
    sessions,
    shard_rows,
    views,
)
from tickwheel.adapters.postgresql.audit import PostgresqlAudit
from tickwheel.adapters.postgresql.errors import translate
from tickwheel.adapters.postgresql.explaining import PostgresqlExplaining
from tickwheel.adapters.postgresql.history import History, open_history
from tickwheel.adapters.postgresql.ledger_retention import Straggler
from tickwheel.adapters.postgresql.lines import Lines
from tickwheel.adapters.postgresql.migrate import pending_migrations
from tickwheel.adapters.postgresql.notices import PostgresqlNotices
from tickwheel.adapters.postgresql.registry import PostgresqlRegistry
from tickwheel.adapters.postgresql.session import (
    CLAIMS,
    COMPLETIONS,
    FEED,
    LOADS,
    OWNERSHIP,
    POOLED_READER,
    READER,
    SESSIONS,
    WRITER,
    Session,
    connect,
)
from tickwheel.adapters.postgresql.specs import PostgresqlSpecs
from tickwheel.adapters.postgresql.upkeep import Upkeep
from tickwheel.domain.columns import CLAIMED, TIMER, Bools, Ints, Rows, empty
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.outcome import ProgressNote
from tickwheel.ports.audit_entries import Call
from tickwheel.ports.clock import Clock
from tickwheel.ports.keys import Key, KeyHolder
from tickwheel.ports.registry import Act
from tickwheel.ports.shards import Fed, HeldPair, ShardState, Snapshot, Taken
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

WRITERS = 3
GATHERED_BELOW = 128
"""A smaller insert of plain jobs is gathered: one thread commits everything that came while its last commit was
under way, for what single jobs cost is mostly the number of commits. A larger one has threads that don't make
single jobs wait behind it."""
READERS = 2
ALL_SHARDS = range(SHARD_COUNT)


async def open_postgresql_store(
    url: str,
    clock: Clock,
    *,
    reader_url: str | None = None,
    pinned_clock: Clock | None = None,
    history: Path | None = None,
) -> "PostgresqlStore":
    """Open a database whose schema is up to date; `reader_url` may lead through a pooler in transaction mode.

    `clock` is this process's. With a `history` folder, the ledger is written there before it is dropped.
    `pinned_clock` takes the place of the server's clock in every statement (tests).
    Raises `ConfigError` when the schema is not what this program needs, `StoreUnavailable` when the server can't
    be reached.
    """

    def look() -> None:
        pending = pending_migrations(url)
        if any(migration.phase == "pre" for migration in pending):
            message = "the schema is not up to date; run `tickwheel migrate`"
            raise ConfigError([FieldProblem("store", message, "older_schema")])
        try:
            connect(url, WRITER).close()
        except psycopg.Error as error:
            raise translate(error) from error

    await asyncio.get_running_loop().run_in_executor(None, look)
    written = None if history is None else open_history(history)
    return PostgresqlStore(url, clock, reader_url=reader_url, pinned_clock=pinned_clock, history=written)


class PostgresqlStore(
    PostgresqlAudit, PostgresqlRegistry, PostgresqlSpecs, PostgresqlExplaining, PostgresqlNotices
):
    """Implements `ports.store.Store` and `ports.shards.ShardStore`; made by `open_postgresql_store`."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        reader_url: str | None = None,
        pinned_clock: Clock | None = None,
        history: History | None = None,
    ) -> None:
        self._clock, self._pinned = clock, pinned_clock
        self._incarnation = ""
        self._closed = False
        self._claims = Lines(url, CLAIMS)
        self._completions = Lines(url, COMPLETIONS)
        self._feed = Lines(url, FEED)
        self._loads = Lines(url, LOADS)
        self._lookups = Lines(url, LOADS)
        self._ownership = Lines(url, OWNERSHIP)
        self._sessions = Lines(url, SESSIONS)
        self._gathering = Lines(url, WRITER)
        self._writers = Lines(url, WRITER, WRITERS)
        self._readers = Lines(reader_url or url, READER if reader_url is None else POOLED_READER, READERS)
        self._upkeep = Upkeep(url, self._pin_ms, history)

    def _pin_ms(self) -> int | None:
        return None if self._pinned is None else self._pinned.now_ms()

    def _now_ms(self) -> int:
        return (self._pinned or self._clock).now_ms()

    async def insert_jobs(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        """Jobs under idempotency keys are not merged with others: they may have to wait for somebody's key."""
        keyed = any(new.job.idempotency_key is not None for new in jobs)
        if keyed:
            return await self._writers.submit_bulk(self._insert_keyed, jobs, act)
        lines = self._gathering if len(jobs) < GATHERED_BELOW else self._writers
        return await lines.submit_bulk(self._insert_plain, jobs, act) if jobs else []

    def _insert_plain(
        self, session: Session, jobs: Sequence[NewJob], calls: Sequence[Call] = ()
    ) -> Sequence[Inserted]:
        return insert.insert_jobs(session, jobs, self._pin_ms(), calls)

    def _insert_keyed(
        self, session: Session, jobs: Sequence[NewJob], calls: Sequence[Call] = ()
    ) -> Sequence[Inserted]:
        return insert.insert_jobs(session, jobs, self._pin_ms(), calls)

    async def find_keys(self, keys: Sequence[Key]) -> Sequence[KeyHolder | None]:
        """See `ports.keys.KeyedStore`."""
        return await self._lookups.submit(lambda session: insert.find_keys(session, keys)) if keys else []

    async def change_job(
        self, tenant_id: str, job_id: bytes, decide: JobDecision, act: Act | None = None
    ) -> Changed | None:
        return await self._writers.submit(
            lambda session: changes.change_job(session, tenant_id, job_id, decide, self._pin_ms(), act),
            writes=True,
        )

    async def change_run(
        self, tenant_id: str, job_id: bytes, scheduled_ms: int, decide: RunDecision, act: Act | None = None
    ) -> Changed | None:
        return await self._writers.submit(
            lambda session: changes.change_run(
                session, tenant_id, job_id, scheduled_ms, decide, self._pin_ms(), act
            ),
            writes=True,
        )

    async def put_named(self, tenant_id: str, name: str, decide: NamedDecision, act: Act | None = None) -> Changed:
        return await self._writers.submit(
            lambda session: changes.put_named(session, tenant_id, name, decide, self._pin_ms(), act), writes=True
        )

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None:
        return await self._readers.submit(partial(views.get_job, tenant_id=tenant_id, job_id=job_id))

    async def list_jobs(self, query: JobQuery) -> JobPage:
        now_ms = self._pin_ms() or self._clock.now_ms()
        return await self._readers.submit(lambda session: lists.list_jobs(session, query, now_ms))

    async def count_jobs(self, tenant_id: str, at_most: int) -> int:
        return await self._readers.submit(lambda session: lists.count_jobs(session, tenant_id, at_most))

    async def count_running(self, counted: str) -> int:
        return await self._readers.submit(lambda session: lists.count_running(session, counted))

    async def load_timers(
        self, from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None
    ) -> Rows:
        wanted = ALL_SHARDS if shards is None else shards
        if from_ms >= until_ms or not wanted:
            return empty(TIMER)
        return await self._loads.submit(
            lambda session: load.load_timers(session, from_ms, until_ms, limit, wanted, self._pin_ms())
        )

    async def broken_chains(self, after: bytes, limit: int) -> ChainPage:
        return await self._readers.submit(lambda session: runs.broken_chains(session, after, limit))

    async def load_work(self, job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        if not job_ids:
            return []
        return await self._lookups.submit(lambda session: load.load_work(session, job_ids, self._now_ms()))

    async def acquire(self, worker: str) -> Ints:
        epochs = await self._claims.submit(lambda session: shard_rows.acquire(session, worker), writes=True)
        self._incarnation = worker
        return epochs

    async def claim(self, batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        """`now_ms` is not looked at: the server's clock decides what is due (D6)."""
        if not len(batch):
            return empty(CLAIMED)
        claimant = claim.claimant_of(self._incarnation, self._pin_ms(), lease_ms, self._now_ms(), queued=queued)
        return await self._claims.submit(lambda session: claim.claim(session, claimant, batch), writes=True)

    async def begin(self, hints: Rows, worker: str, lease_ms: int) -> Rows:
        return await self._completions.submit(
            lambda session: sessions.begin(session, hints, worker, lease_ms, self._pin_ms()), writes=True
        )

    async def enlist_worker(self, incarnation: str, note: WorkerNote) -> None:
        await self._sessions.submit(
            lambda session: sessions.enlist(session, incarnation, note, self._pin_ms()), writes=True
        )

    async def renew_worker(self, incarnation: str, note: WorkerNote) -> bool:
        return await self._sessions.submit(
            lambda session: sessions.renew(session, incarnation, note, self._pin_ms()), writes=True
        )

    async def end_worker(self, incarnation: str, *, unseen_since_ms: int | None = None) -> bool:
        return await self._sessions.submit(
            lambda session: sessions.end(session, incarnation, unseen_since_ms), writes=True
        )

    async def workers(self) -> Sequence[WorkerState]:
        return await self._sessions.submit(sessions.states)

    async def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        return await self._completions.submit(
            lambda session: complete.complete(session, batch, notes, self._pin_ms(), self._now_ms()), writes=True
        )

    async def renew(self, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        return await self._completions.submit(lambda session: complete.renew(session, batch, notes), writes=True)

    async def expired(self, now_ms: int, limit: int, shards: Sequence[int] | None = None) -> Sequence[Run]:
        """Of attempts that were renewed; the others are met by the claims of their timers."""
        return await self._lookups.submit(lambda session: leases.expired(session, now_ms, limit, shards))

    async def find_runs(self, keys: Sequence[tuple[bytes, int]]) -> Sequence[Run | None]:
        return await self._lookups.submit(lambda session: runs.find_runs(session, keys)) if keys else []

    async def get_run(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
        return await self._readers.submit(lambda session: runs.get_run(session, tenant_id, job_id, scheduled_ms))

    async def list_runs(self, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
        return await self._readers.submit(lambda session: runs.list_runs(session, tenant_id, job_id, limit, after))

    async def list_dead(self, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage:
        return await self._readers.submit(lambda session: dead.list_dead(session, tenant_id, limit, after))

    async def drop_dead(self, tenant_id: str, job_id: bytes, scheduled_ms: int, act: Act | None = None) -> bool:
        return await self._writers.submit(
            lambda session: dead.drop_dead(session, tenant_id, job_id, scheduled_ms, self._pin_ms(), act),
            writes=True,
        )

    async def counts(self) -> Counts:
        return await self._readers.submit(dead.read_counts)

    async def maintain(self, now_ms: int) -> None:
        """Leaves for the next two months by the server's clock; others are made when a row asks for them."""
        await self._upkeep.maintain()

    async def sweep(self, now_ms: int, retention_ms: int) -> int:
        """Drops whole leaves, so what is deleted is up to a day older than the retention. May take minutes."""
        return await self._upkeep.sweep(retention_ms)

    def stragglers(self) -> Sequence[Straggler]:
        """Leaves that the last sweep of this process had to leave though their time is over, and why."""
        return self._upkeep.stragglers()

    async def check(self) -> None:
        await self._writers.submit(dead.prove_writable, writes=True)

    # ports.shards.ShardStore

    async def now_ms(self) -> int:
        return await self._ownership.submit(lambda session: shard_rows.now_ms(session, self._pin_ms()))

    async def enlist(self, incarnation: str) -> None:
        await self._claims.submit(lambda session: shard_rows.enlist(session, incarnation), writes=True)
        self._incarnation = incarnation

    async def depose(self, incarnation: str, *, proved_dead: bool) -> None:
        await self._ownership.submit(
            lambda session: shard_rows.depose(session, incarnation, proved_dead), writes=True
        )

    async def deposed(self, incarnations: Sequence[str]) -> Sequence[str]:
        return await self._ownership.submit(lambda session: shard_rows.deposed(session, incarnations))

    async def list_shards(self) -> Sequence[ShardState]:
        return await self._ownership.submit(shard_rows.list_shards)

    async def take(self, incarnation: str, seen: Mapping[int, int]) -> Sequence[Taken]:
        if not seen:
            return []
        return await self._claims.submit(lambda session: shard_rows.take(session, incarnation, seen), writes=True)

    async def release(self, incarnation: str, held: Mapping[int, int]) -> None:
        if held:
            await self._claims.submit(lambda session: shard_rows.release(session, incarnation, held), writes=True)

    async def take_snapshot(self) -> Snapshot:
        return await self._feed.submit(feed.take_snapshot)

    async def feed(self, prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        return await self._feed.submit(lambda session: feed.feed(session, prev, shards, until_ms))

    async def store_pairs(self, incarnation: str, pairs: Sequence[HeldPair]) -> Sequence[int]:
        if not pairs:
            return []
        return await self._feed.submit(  # the very session that read the snapshots: it has outlived no crash (B5)
            lambda session: shard_rows.store_pairs(session, incarnation, pairs), writes=True
        )

    async def aclose(self) -> None:
        """Finish what was asked for and close the connections. Again: nothing."""
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def cut_sessions(self) -> None:
        """Break all connections, as a network does; the next verbs make new ones. For tests of faults."""
        for each in self._lines:
            each.cut()

    @property
    def _lines(self) -> tuple[Lines, ...]:
        return tuple(each for each in vars(self).values() if isinstance(each, Lines))

    def _close(self) -> None:
        for each in self._lines:
            each.end()
        for each in self._lines:
            each.close()
        self._upkeep.close()
