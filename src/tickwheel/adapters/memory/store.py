"""`MemoryStore`: everything in dictionaries, gone with the process.

The reference that the conformance suite and the model test compare other stores with, and the store of tests and
of `--store memory:`. No verb awaits anything, so each is atomic by itself. Simple before fast: lists are sorted
when they are asked for.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from tickwheel.adapters.memory import chains, changes, completions, inserts, listings, retention
from tickwheel.adapters.memory.claims import ClaimTransaction
from tickwheel.adapters.memory.completions import CompletionTransaction
from tickwheel.adapters.memory.tables import Tables
from tickwheel.adapters.memory.views import attempts_of, job_view
from tickwheel.domain.columns import TIMER, Bools, Ints, Rows, empty
from tickwheel.domain.ids import SHARD_COUNT, shard_of
from tickwheel.domain.job import JobState, encode_spec
from tickwheel.ports.clock import Clock
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


class MemoryStore:
    """Implements `ports.store.Store`; `clock` is the store's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tables = Tables()
        self._epochs = [0] * SHARD_COUNT
        self._worker: str | None = None

    async def insert_jobs(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        return inserts.insert_jobs(self._tables, jobs, self._clock.now_ms())

    async def change_job(self, tenant_id: str, job_id: bytes, decide: JobDecision) -> Changed | None:
        return changes.change_job(self._tables, tenant_id, job_id, decide, self._clock.now_ms())

    async def change_run(
        self, tenant_id: str, job_id: bytes, scheduled_ms: int, decide: RunDecision
    ) -> Changed | None:
        now_ms = self._clock.now_ms()
        return changes.change_run(self._tables, tenant_id, job_id, scheduled_ms, decide, now_ms)

    async def put_named(self, tenant_id: str, name: str, decide: NamedDecision) -> Changed:
        return inserts.put_named(self._tables, tenant_id, name, decide, self._clock.now_ms())

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None:
        job = changes.find_job(self._tables, tenant_id, job_id)
        return None if job is None else job_view(self._tables, job)

    async def list_jobs(self, query: JobQuery) -> JobPage:
        return listings.list_jobs(self._tables, query)

    async def load_timers(
        self, from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None
    ) -> Rows:
        wanted = range(SHARD_COUNT) if shards is None else set(shards)
        keys = sorted(
            key
            for key in self._tables.timers
            if from_ms <= key.due_ms < until_ms and shard_of(key.job_id) in wanted
        )
        if len(keys) > limit:
            last_ms = keys[limit - 1].due_ms
            keys = [key for key in keys if key.due_ms <= last_ms]
        rows = empty(TIMER, len(keys))
        for number, key in enumerate(keys):
            rows[number] = (*key, self._tables.timers[key].flags)
        return rows

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
        self._epochs = [epoch + 1 for epoch in self._epochs]
        return np.array(self._epochs, dtype=np.int64)

    async def claim(self, batch: Rows, now_ms: int, lease_ms: int) -> Rows:
        transaction = ClaimTransaction(
            self._tables, epochs=self._epochs, worker=self._worker, now_ms=now_ms, lease_ms=lease_ms
        )
        return transaction.claim(batch)

    async def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        now_ms = self._clock.now_ms()
        return CompletionTransaction(self._tables, worker=self._worker, now_ms=now_ms).complete(batch, notes)

    async def renew(self, batch: Rows) -> Bools:
        return completions.renew(self._tables, batch)

    async def expired(self, now_ms: int, limit: int) -> Sequence[Run]:
        runs = [self._tables.ledger[key].run for key in self._tables.in_flight]
        gone = [run for run in runs if (run.lease_ms or 0) <= now_ms or run.worker != self._worker]
        return sorted(gone, key=lambda run: (run.lease_ms or 0, run.job_id, run.scheduled_ms))[:limit]

    async def get_run(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
        row = self._tables.ledger.get((job_id, scheduled_ms))
        if row is not None:
            mine = row.run.tenant_id == tenant_id
            return replace(row.run, attempts=attempts_of(row)) if mine else None
        job = changes.find_job(self._tables, tenant_id, job_id)
        return None if job is None else changes.find_run(self._tables, job_view(self._tables, job), scheduled_ms)

    async def list_runs(self, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
        return listings.list_runs(self._tables, tenant_id, job_id, limit, after)

    async def list_dead(self, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage:
        return listings.list_dead(self._tables, tenant_id, limit, after)

    async def drop_dead(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> bool:
        key = (job_id, scheduled_ms)
        if key not in self._tables.dead or self._tables.ledger[key].run.tenant_id != tenant_id:
            return False
        del self._tables.dead[key]
        return True

    async def counts(self) -> Counts:
        jobs = sum(job.state is not JobState.DELETED for job in self._tables.jobs.values())
        return Counts(jobs=jobs, waiting=len(self._tables.timers), dead_letters=len(self._tables.dead))

    async def maintain(self, now_ms: int) -> None:
        """Dictionaries have room for everything."""

    async def sweep(self, now_ms: int, retention_ms: int) -> int:
        return retention.sweep(self._tables, now_ms, retention_ms)

    async def check(self) -> None:
        """There is nothing that could be away."""

    async def aclose(self) -> None:
        """Nothing to let go of; the data stays as long as the object."""
