"""`MemoryStore`: everything in dictionaries, gone with the process.

Several stores may stand over the same `Tables`: each is one process with its connection to one database.

The reference that the conformance suite and the model test compare other stores with, and the store of tests and
of `--store memory:`. No verb awaits anything, so each is atomic by itself. Simple before fast: lists are sorted
when they are asked for.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tickwheel.adapters.memory import (
    audit,
    audit_log,
    chains,
    changes,
    inserts,
    leases,
    listings,
    loading,
    retention,
    sessions,
)
from tickwheel.adapters.memory.claims import ClaimTransaction
from tickwheel.adapters.memory.completions import CompletionTransaction
from tickwheel.adapters.memory.explaining import MemoryExplaining
from tickwheel.adapters.memory.notices import MemoryNotices
from tickwheel.adapters.memory.ownership import Ownership
from tickwheel.adapters.memory.registry import MemoryRegistry
from tickwheel.adapters.memory.specs import MemorySpecs
from tickwheel.adapters.memory.tables import Tables
from tickwheel.adapters.memory.views import full_run, job_view, with_progress
from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.job import JobState, encode_spec
from tickwheel.domain.outcome import ProgressNote
from tickwheel.ports.audit import AuditPiece
from tickwheel.ports.audit_entries import dropped_entry
from tickwheel.ports.clock import Clock
from tickwheel.ports.keys import Key, KeyHolder
from tickwheel.ports.registry import Act
from tickwheel.ports.shards import STORED, Fed, FeedSessionLost, HeldPair, ShardState, Snapshot, Taken
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


class MemoryStore(MemoryRegistry, MemorySpecs, MemoryExplaining, MemoryNotices):
    """Implements `ports.store.Store`, `ports.shards.ShardStore` and `Registry`; `clock` is the store's clock."""

    def __init__(self, clock: Clock, tables: Tables | None = None) -> None:
        self._clock = clock
        self._tables = Tables() if tables is None else tables
        self._worker: str | None = None
        self._session = self._tables.new_session()

    async def insert_jobs(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        with self._tables.transaction():
            return inserts.insert_jobs(self._tables, jobs, self._clock.now_ms(), act)

    async def find_keys(self, keys: Sequence[Key]) -> Sequence[KeyHolder | None]:
        """See `ports.keys.KeyedStore`."""
        return inserts.find_keys(self._tables, keys)

    async def change_job(
        self, tenant_id: str, job_id: bytes, decide: JobDecision, act: Act | None = None
    ) -> Changed | None:
        with self._tables.transaction():
            return changes.change_job(self._tables, tenant_id, job_id, decide, self._clock.now_ms(), act)

    async def change_run(
        self, tenant_id: str, job_id: bytes, scheduled_ms: int, decide: RunDecision, act: Act | None = None
    ) -> Changed | None:
        now_ms = self._clock.now_ms()
        with self._tables.transaction():
            return changes.change_run(self._tables, tenant_id, job_id, scheduled_ms, decide, now_ms, act)

    async def put_named(self, tenant_id: str, name: str, decide: NamedDecision, act: Act | None = None) -> Changed:
        with self._tables.transaction():
            return inserts.put_named(self._tables, tenant_id, name, decide, self._clock.now_ms(), act)

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None:
        job = changes.find_job(self._tables, tenant_id, job_id)
        return None if job is None else with_progress(self._tables, job_view(self._tables, job))

    async def list_jobs(self, query: JobQuery) -> JobPage:
        return listings.list_jobs(self._tables, query)

    async def count_jobs(self, tenant_id: str, at_most: int) -> int:
        return listings.count_jobs(self._tables, tenant_id, at_most)

    async def count_running(self, counted: str) -> int:
        return self._tables.used(counted).running

    async def load_timers(
        self, from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None
    ) -> Rows:
        return loading.load_timers(self._tables, from_ms, until_ms, limit, shards)

    async def broken_chains(self, after: bytes, limit: int) -> ChainPage:
        return chains.broken_chains(self._tables, after, limit)

    async def load_work(self, job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        return [self._work(job_id) for job_id in job_ids]

    def _work(self, job_id: bytes) -> WorkDefinition | None:
        job = self._tables.jobs.get(job_id)
        if job is None:
            return None
        return WorkDefinition(
            tenant_id=job.tenant_id,
            name=job.name,
            state=job.state,
            version=job.version,
            spec=encode_spec(job.spec),
            payload=job.payload,
            idempotency_key=job.idempotency_key,
            effective_ms=job.effective_ms,
            taken_ms=self._tables.taken_ahead(job),
        )

    async def acquire(self, worker: str) -> Ints:
        self._worker = worker
        with self._tables.transaction():
            return np.array(self._ownership.acquire_all(worker, self._tables.sessions), dtype=np.int64)

    async def claim(self, batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        with self._tables.transaction():
            claims = ClaimTransaction(
                self._tables, worker=self._worker, now_ms=now_ms, lease_ms=lease_ms, queued=queued
            )
            return claims.claim(batch)

    async def begin(self, hints: Rows, worker: str, lease_ms: int) -> Rows:
        return leases.begin(self._tables, hints, worker, self._clock.now_ms(), lease_ms)

    async def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        with self._tables.transaction():
            return CompletionTransaction(self._tables, now_ms=self._clock.now_ms()).complete(batch, notes)

    async def renew(self, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        return leases.renew(self._tables, batch, notes)

    async def expired(self, now_ms: int, limit: int, shards: Sequence[int] | None = None) -> Sequence[Run]:
        return leases.expired(self._tables, now_ms, limit, shards)

    async def find_runs(self, keys: Sequence[tuple[bytes, int]]) -> Sequence[Run | None]:
        found = [self._tables.ledger.get(key) for key in keys]
        return [None if row is None else row.run for row in found]

    async def get_run(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
        row = self._tables.ledger.get((job_id, scheduled_ms))
        if row is not None:
            mine = row.run.tenant_id == tenant_id
            return full_run(row) if mine else None
        job = changes.find_job(self._tables, tenant_id, job_id)
        return None if job is None else changes.find_run(self._tables, job_view(self._tables, job), scheduled_ms)

    async def list_runs(self, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
        return listings.list_runs(self._tables, tenant_id, job_id, limit, after)

    async def list_dead(self, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage:
        return listings.list_dead(self._tables, tenant_id, limit, after)

    async def drop_dead(self, tenant_id: str, job_id: bytes, scheduled_ms: int, act: Act | None = None) -> bool:
        key = (job_id, scheduled_ms)
        if key not in self._tables.dead or self._tables.ledger[key].run.tenant_id != tenant_id:
            return False
        del self._tables.dead[key]
        if act is not None:
            entry = dropped_entry(act, tenant_id, job_id, scheduled_ms, self._clock.now_ms())
            audit_log.append(self._tables, [entry])
        return True

    async def now_ms(self) -> int:
        return self._clock.now_ms()

    async def enlist(self, incarnation: str) -> None:
        self._worker = incarnation
        self._ownership.enlist(incarnation)

    async def depose(self, incarnation: str, *, proved_dead: bool) -> None:
        self._ownership.depose(incarnation, proved_dead=proved_dead)

    async def deposed(self, incarnations: Sequence[str]) -> Sequence[str]:
        return [name for name in incarnations if not self._ownership.is_enlisted(name)]

    async def list_shards(self) -> Sequence[ShardState]:
        return self._ownership.states()

    async def take(self, incarnation: str, seen: Mapping[int, int]) -> Sequence[Taken]:
        return self._ownership.take(incarnation, seen)

    async def release(self, incarnation: str, held: Mapping[int, int]) -> None:
        self._ownership.release(incarnation, held)

    async def take_snapshot(self) -> Snapshot:
        return Snapshot(self._tables.transactions.snapshot().text, self._session)

    async def feed(self, prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        if prev.session not in (STORED, self._session):
            raise FeedSessionLost
        rows = loading.feed(self._tables, prev.text, shards, until_ms)
        return Fed(rows, await self.take_snapshot())

    async def store_pairs(self, incarnation: str, pairs: Sequence[HeldPair]) -> Sequence[int]:
        if any(held.pair.snapshot.session not in (STORED, self._session) for held in pairs):
            raise FeedSessionLost
        with self._tables.transaction():  # its own id is above any that these snapshots name: B5
            return self._ownership.store_pairs(incarnation, pairs)

    async def enlist_worker(self, incarnation: str, note: WorkerNote) -> None:
        sessions.enlist(self._tables, incarnation, note, self._clock.now_ms())

    async def renew_worker(self, incarnation: str, note: WorkerNote) -> bool:
        return sessions.renew(self._tables, incarnation, note, self._clock.now_ms())

    async def end_worker(self, incarnation: str, *, unseen_since_ms: int | None = None) -> bool:
        return sessions.end(self._tables, incarnation, unseen_since_ms)

    async def workers(self) -> Sequence[WorkerState]:
        return sessions.states(self._tables)

    def lose_session(self) -> None:
        """The connection is gone; the next verb has a new one."""
        self._session = self._tables.new_session()

    @property
    def _ownership(self) -> Ownership:
        return self._tables.ownership

    async def counts(self) -> Counts:
        jobs = sum(job.state is not JobState.DELETED for job in self._tables.jobs.values())
        return Counts(jobs=jobs, waiting=len(self._tables.timers), dead_letters=len(self._tables.dead))

    async def maintain(self, now_ms: int) -> None:
        """Dictionaries have room for everything."""

    async def sweep(self, now_ms: int, retention_ms: int) -> int:
        return retention.sweep(self._tables, now_ms, retention_ms)

    async def audit_jobs(self, after: str, limit: int, now_ms: int) -> AuditPiece:
        return audit.audit_jobs(self._tables, after, limit, now_ms)

    async def audit_runs(self, after: str, limit: int, now_ms: int, *, open_only: bool) -> AuditPiece:
        return audit.audit_runs(self._tables, after, limit, now_ms, open_only)

    async def audit_slots(self) -> int:
        return audit.audit_slots(self._tables)

    async def check(self) -> None:
        """There is nothing that could be away."""

    async def aclose(self) -> None:
        """Nothing to let go of; the data stays as long as the object."""
