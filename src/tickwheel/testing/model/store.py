"""`ModelStore`: one process's connections to the model database."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from msgspec.structs import replace

from tickwheel.adapters.memory import changes, inserts, leases, loading, sessions
from tickwheel.adapters.memory.ownership import Ownership
from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.outcome import ProgressNote
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
from tickwheel.testing.model.connection import Connection
from tickwheel.testing.model.database import ModelDatabase
from tickwheel.testing.model.process import Process
from tickwheel.testing.model.row_locks import Wish
from tickwheel.testing.model.statements import LatentChange, LooksThen, ModelClaims, ModelCompletions, claim_wishes
from tickwheel.testing.model.weather import Weather

T = TypeVar("T")

STATEMENT_LIMIT_MS: Final = 1_000
"""A claim is one statement, which the server ends after this time (D1)."""


class ModelStore:
    """Implements `ports.store.Store` and `ports.shards.ShardStore` for `process`."""

    def __init__(self, database: ModelDatabase, process: Process, weather: Weather) -> None:
        self._clock, self._tables, self._rules = database.clock, database.tables, database.rules
        connection = Connection(database, process, weather)
        self._connection, self._read, self._write = connection, connection.read, connection.write
        self._now = MemoryStore(database.clock, database.tables)
        self._worker: str | None = None
        self._own: set[int] = set()  # ids of this process's transactions

    # Jobs

    async def insert_jobs(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        return await self._write(
            "insert_jobs",
            lambda _, now_ms: self._kept(inserts.insert_jobs(self._tables, jobs, now_ms)),
            look=_nothing,
        )

    async def change_job(
        self, tenant_id: str, job_id: bytes, decide: JobDecision, act: Act | None = None
    ) -> Changed | None:
        before = None if self._rules.hold("E8") else LatentChange(self._tables, tenant_id, job_id)

        def apply(_: None, now_ms: int) -> Changed | None:
            if before is not None:
                return before.apply(self._tables, decide, now_ms)
            return changes.change_job(self._tables, tenant_id, job_id, decide, now_ms)

        return await self._write("change_job", apply, look=_nothing, wishes=[Wish(("job", job_id), True)])

    async def change_run(
        self, tenant_id: str, job_id: bytes, scheduled_ms: int, decide: RunDecision, act: Act | None = None
    ) -> Changed | None:
        return await self._write(
            "change_run",
            lambda _, now_ms: changes.change_run(self._tables, tenant_id, job_id, scheduled_ms, decide, now_ms),
            look=_nothing,
            wishes=[Wish(("job", job_id), True)],
        )

    async def put_named(self, tenant_id: str, name: str, decide: NamedDecision, act: Act | None = None) -> Changed:
        job_id = self._tables.named.get((tenant_id, name))
        wishes = [Wish(("name", tenant_id, name), True)]
        if job_id is not None:
            wishes.append(Wish(("job", job_id), True))
        return await self._write(
            "put_named",
            lambda _, now_ms: inserts.put_named(self._tables, tenant_id, name, decide, now_ms),
            look=_nothing,
            wishes=wishes,
        )

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None:
        return await self._read("get_job", lambda: _now(self._now.get_job(tenant_id, job_id)))

    async def list_jobs(self, query: JobQuery) -> JobPage:
        return await self._read("list_jobs", lambda: _now(self._now.list_jobs(query)))

    async def count_jobs(self, tenant_id: str, at_most: int) -> int:
        return await self._read("count_jobs", lambda: _now(self._now.count_jobs(tenant_id, at_most)))

    async def count_running(self, counted: str) -> int:
        return await self._read("count_running", lambda: _now(self._now.count_running(counted)))

    # Timers

    async def load_timers(
        self, from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None
    ) -> Rows:
        return await self._read(
            "load_timers", lambda: loading.load_timers(self._tables, from_ms, until_ms, limit, shards)
        )

    async def broken_chains(self, after: bytes, limit: int) -> ChainPage:
        return await self._read("broken_chains", lambda: _now(self._now.broken_chains(after, limit)))

    async def load_work(self, job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        works = await self._read("load_work", lambda: _now(self._now.load_work(job_ids)))
        if self._rules.hold("E3"):
            return works
        return [None if work is None else replace(work, taken_ms=()) for work in works]

    # The ledger

    async def claim(self, batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        """`now_ms` is the caller's; the server's decides (D6)."""
        worker, length_ms = self._worker, lease_ms - now_ms

        def apply(looks: LooksThen, at_ms: int) -> Rows:
            claims = ModelClaims(
                self._tables,
                self._rules,
                looks,
                worker=worker,
                now_ms=at_ms,
                lease_ms=at_ms + length_ms,
                queued=queued,
            )
            return self._kept(claims.claim(batch))

        return await self._write(
            "claim",
            apply,
            look=lambda: LooksThen(self._tables, self._rules, worker, batch),
            wishes=claim_wishes(self._tables, batch, worker, self._rules),
            limit_ms=STATEMENT_LIMIT_MS,
        )

    async def begin(self, hints: Rows, worker: str, lease_ms: int) -> Rows:
        return await self._write(
            "begin", lambda _, at_ms: leases.begin(self._tables, hints, worker, at_ms, lease_ms), look=_nothing
        )

    async def enlist_worker(self, incarnation: str, note: WorkerNote) -> None:
        await self._write(
            "enlist_worker",
            lambda _, at_ms: sessions.enlist(self._tables, incarnation, note, at_ms),
            look=_nothing,
        )

    async def renew_worker(self, incarnation: str, note: WorkerNote) -> bool:
        return await self._write(
            "renew_worker",
            lambda _, at_ms: sessions.renew(self._tables, incarnation, note, at_ms),
            look=_nothing,
        )

    async def end_worker(self, incarnation: str, *, unseen_since_ms: int | None = None) -> bool:
        return await self._write(
            "end_worker", lambda _, at_ms: sessions.end(self._tables, incarnation, unseen_since_ms), look=_nothing
        )

    async def workers(self) -> Sequence[WorkerState]:
        return await self._read("workers", lambda: sessions.states(self._tables))

    async def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        return await self._write(
            "complete",
            lambda _, at_ms: self._kept(
                ModelCompletions(self._tables, self._rules, now_ms=at_ms).complete(batch, notes)
            ),
            look=_nothing,
        )

    async def renew(self, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        return await self._write("renew", lambda _, at_ms: leases.renew(self._tables, batch, notes), look=_nothing)

    async def expired(self, now_ms: int, limit: int, shards: Sequence[int] | None = None) -> Sequence[Run]:
        """Those that were renewed once: the others have no row in `leases` (C4)."""
        return await self._read(
            "expired",
            lambda: [
                run
                for run in leases.expired(self._tables, self._clock.now_ms(), limit, shards)
                if run.beat_ms is not None
            ],
        )

    async def find_runs(self, keys: Sequence[tuple[bytes, int]]) -> Sequence[Run | None]:
        return await self._read("find_runs", lambda: _now(self._now.find_runs(keys)))

    async def get_run(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
        return await self._read("get_run", lambda: _now(self._now.get_run(tenant_id, job_id, scheduled_ms)))

    async def list_runs(self, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
        return await self._read("list_runs", lambda: _now(self._now.list_runs(tenant_id, job_id, limit, after)))

    async def list_dead(self, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage:
        return await self._read("list_dead", lambda: _now(self._now.list_dead(tenant_id, limit, after)))

    async def drop_dead(self, tenant_id: str, job_id: bytes, scheduled_ms: int, act: Act | None = None) -> bool:
        return await self._write(
            "drop_dead",
            lambda _, at_ms: _now(self._now.drop_dead(tenant_id, job_id, scheduled_ms)),
            look=_nothing,
        )

    # Nodes, shards, the feed

    async def acquire(self, worker: str) -> Ints:
        """A cluster has no process that takes all."""
        raise NotImplementedError("nodes of a cluster take shards with `take`")

    async def now_ms(self) -> int:
        return await self._read("now_ms", self._clock.now_ms)

    async def enlist(self, incarnation: str) -> None:
        await self._write("enlist", lambda _, at_ms: self._owners.enlist(incarnation), look=_nothing)
        self._worker = incarnation

    async def depose(self, incarnation: str, *, proved_dead: bool) -> None:
        await self._write(
            "depose",
            lambda _, at_ms: self._owners.depose(incarnation, proved_dead=proved_dead),
            look=_nothing,
            wishes=[Wish(("node", incarnation), True)],
        )

    async def deposed(self, incarnations: Sequence[str]) -> Sequence[str]:
        return await self._read("deposed", lambda: _now(self._now.deposed(incarnations)))

    async def list_shards(self) -> Sequence[ShardState]:
        return await self._read("list_shards", self._owners.states)

    async def take(self, incarnation: str, seen: Mapping[int, int]) -> Sequence[Taken]:
        return await self._write("take", lambda _, at_ms: self._owners.take(incarnation, seen), look=_nothing)

    async def release(self, incarnation: str, held: Mapping[int, int]) -> None:
        await self._write("release", lambda _, at_ms: self._owners.release(incarnation, held), look=_nothing)

    async def take_snapshot(self) -> Snapshot:
        return await self._read("take_snapshot", self._snapshot)

    async def feed(self, prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        fed = await self._read("feed", lambda: self._feed(prev, shards, until_ms))
        if self._rules.hold("B3"):
            return fed
        return Fed(fed.rows, await self.take_snapshot())

    def _feed(self, prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        self._check_session(prev)
        rows = loading.feed(self._tables, prev.text, shards, until_ms)
        if not self._rules.hold("A4"):
            own = {key for xid in self._own for key in self._tables.timers_by_xid.get(xid, ())}
            keys = zip(*(rows[name].tolist() for name in ("due_ms", "job_id", "scheduled_ms", "gen")), strict=True)
            rows = rows[np.fromiter((key not in own for key in keys), dtype=np.bool_, count=len(rows))]
        return Fed(rows, self._snapshot())

    async def store_pairs(self, incarnation: str, pairs: Sequence[HeldPair]) -> Sequence[int]:
        def apply(_: None, at_ms: int) -> Sequence[int]:
            for held in pairs:
                self._check_session(held.pair.snapshot)
            return self._owners.store_pairs(incarnation, pairs)

        return await self._write("store_pairs", apply, look=_nothing)

    def _check_session(self, snapshot: Snapshot) -> None:
        lost = snapshot.session not in (STORED, self._connection.session)
        if lost and self._rules.hold("B5"):
            raise FeedSessionLost

    # The rest

    async def counts(self) -> Counts:
        return await self._read("counts", lambda: _now(self._now.counts()))

    async def maintain(self, now_ms: int) -> None:
        """There is always room."""

    async def sweep(self, now_ms: int, retention_ms: int) -> int:
        return await self._write(
            "sweep", lambda _, at_ms: _now(self._now.sweep(now_ms, retention_ms)), look=_nothing
        )

    async def check(self) -> None:
        await self._read("check", lambda: None)

    async def aclose(self) -> None:
        """The tables stay."""

    @property
    def _owners(self) -> Ownership:
        return self._tables.ownership

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._tables.transactions.snapshot().text, self._connection.session)

    def _kept(self, answer: T) -> T:
        """Remember that the transaction which gave this was ours."""
        self._own.add(self._tables.xid)
        return answer


def _nothing() -> None:
    """Statements that find all they need when they write."""


def _now(verb: Coroutine[Any, Any, T]) -> T:
    """The answer of a verb of the memory store, which never waits."""
    try:
        verb.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    raise AssertionError("the memory store waited")
