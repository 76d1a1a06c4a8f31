"""A store that fails on purpose, for tests of whoever uses one.

Before a verb the wrapper may raise `StoreUnavailable`: nothing was written. After a verb it may raise
`OutcomeUnknown`: everything was written, and only the answer is lost. That second lie is the one that breaks
careless callers: "it failed" where it did happen. Which call fails is drawn from a seed, so a failing test
repeats.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.outcome import ProgressNote
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
    Store,
    WorkDefinition,
)
from tickwheel.ports.workers import WorkerNote, WorkerState
from tickwheel.testing.seeded_randomness import SeededRandomness

T = TypeVar("T")


class FaultPlan(msgspec.Struct, frozen=True):
    """How often which verbs fail. Rates are fractions of the calls; `verbs` None means all of them."""

    seed: int
    refuse_rate: float = 0.1  # StoreUnavailable before the verb
    lose_answer_rate: float = 0.1  # OutcomeUnknown after it
    verbs: frozenset[str] | None = None


class FaultyStore:
    """Implements `ports.store.Store` around another one. `met` counts (verb, fault) pairs, to be printed."""

    def __init__(self, inner: Store, plan: FaultPlan) -> None:
        self._inner, self._plan = inner, plan
        self._randomness = SeededRandomness(plan.seed)
        self.met: Counter[tuple[str, str]] = Counter()
        self.healed = False
        """True lets everything through: for the end of a test, when the outcome is looked at."""

    async def _call(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        if self.healed or (self._plan.verbs is not None and verb not in self._plan.verbs):
            return await call()
        drawn = self._randomness.fraction()
        if drawn < self._plan.refuse_rate:
            self.met[verb, "refused"] += 1
            raise StoreUnavailable(f"{verb} was refused on purpose")
        answer = await call()
        if drawn >= 1 - self._plan.lose_answer_rate:
            self.met[verb, "answer lost"] += 1
            raise OutcomeUnknown(f"the answer to {verb} was lost on purpose")
        return answer

    async def insert_jobs(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        return await self._call("insert_jobs", lambda: self._inner.insert_jobs(jobs, act))

    async def change_job(
        self, tenant_id: str, job_id: bytes, decide: JobDecision, act: Act | None = None
    ) -> Changed | None:
        return await self._call("change_job", lambda: self._inner.change_job(tenant_id, job_id, decide, act))

    async def change_run(
        self, tenant_id: str, job_id: bytes, scheduled_ms: int, decide: RunDecision, act: Act | None = None
    ) -> Changed | None:
        return await self._call(
            "change_run", lambda: self._inner.change_run(tenant_id, job_id, scheduled_ms, decide, act)
        )

    async def put_named(self, tenant_id: str, name: str, decide: NamedDecision, act: Act | None = None) -> Changed:
        return await self._call("put_named", lambda: self._inner.put_named(tenant_id, name, decide, act))

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None:
        return await self._call("get_job", lambda: self._inner.get_job(tenant_id, job_id))

    async def list_jobs(self, query: JobQuery) -> JobPage:
        return await self._call("list_jobs", lambda: self._inner.list_jobs(query))

    async def count_jobs(self, tenant_id: str, at_most: int) -> int:
        return await self._call("count_jobs", lambda: self._inner.count_jobs(tenant_id, at_most))

    async def count_running(self, counted: str) -> int:
        return await self._call("count_running", lambda: self._inner.count_running(counted))

    async def load_timers(
        self, from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None
    ) -> Rows:
        return await self._call("load_timers", lambda: self._inner.load_timers(from_ms, until_ms, limit, shards))

    async def broken_chains(self, after: bytes, limit: int) -> ChainPage:
        return await self._call("broken_chains", lambda: self._inner.broken_chains(after, limit))

    async def load_work(self, job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        return await self._call("load_work", lambda: self._inner.load_work(job_ids))

    async def acquire(self, worker: str) -> Ints:
        return await self._call("acquire", lambda: self._inner.acquire(worker))

    async def claim(self, batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        return await self._call("claim", lambda: self._inner.claim(batch, now_ms, lease_ms, queued=queued))

    async def enlist_worker(self, incarnation: str, note: WorkerNote) -> None:
        await self._call("enlist_worker", lambda: self._inner.enlist_worker(incarnation, note))

    async def renew_worker(self, incarnation: str, note: WorkerNote) -> bool:
        return await self._call("renew_worker", lambda: self._inner.renew_worker(incarnation, note))

    async def end_worker(self, incarnation: str, *, unseen_since_ms: int | None = None) -> bool:
        return await self._call(
            "end_worker", lambda: self._inner.end_worker(incarnation, unseen_since_ms=unseen_since_ms)
        )

    async def workers(self) -> Sequence[WorkerState]:
        return await self._call("workers", self._inner.workers)

    async def begin(self, hints: Rows, worker: str, lease_ms: int) -> Rows:
        return await self._call("begin", lambda: self._inner.begin(hints, worker, lease_ms))

    async def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        return await self._call("complete", lambda: self._inner.complete(batch, notes))

    async def renew(self, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        return await self._call("renew", lambda: self._inner.renew(batch, notes))

    async def expired(self, now_ms: int, limit: int, shards: Sequence[int] | None = None) -> Sequence[Run]:
        return await self._call("expired", lambda: self._inner.expired(now_ms, limit, shards))

    async def find_runs(self, keys: Sequence[tuple[bytes, int]]) -> Sequence[Run | None]:
        return await self._call("find_runs", lambda: self._inner.find_runs(keys))

    async def get_run(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
        return await self._call("get_run", lambda: self._inner.get_run(tenant_id, job_id, scheduled_ms))

    async def list_runs(self, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
        return await self._call("list_runs", lambda: self._inner.list_runs(tenant_id, job_id, limit, after))

    async def list_dead(self, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage:
        return await self._call("list_dead", lambda: self._inner.list_dead(tenant_id, limit, after))

    async def drop_dead(self, tenant_id: str, job_id: bytes, scheduled_ms: int, act: Act | None = None) -> bool:
        return await self._call("drop_dead", lambda: self._inner.drop_dead(tenant_id, job_id, scheduled_ms, act))

    async def counts(self) -> Counts:
        return await self._call("counts", self._inner.counts)

    async def maintain(self, now_ms: int) -> None:
        return await self._call("maintain", lambda: self._inner.maintain(now_ms))

    async def sweep(self, now_ms: int, retention_ms: int) -> int:
        return await self._call("sweep", lambda: self._inner.sweep(now_ms, retention_ms))

    async def check(self) -> None:
        await self._call("check", self._inner.check)

    async def aclose(self) -> None:
        """Never fails."""
        await self._inner.aclose()
