"""The store: jobs, timers, the ledger of runs.

Three roles, one object per technology. Hot verbs (`load_timers`, `load_work`, `claim`, `complete`, `renew`)
take and give columns; the rest takes single values, because a person waits for the answer.

**Timers and resolution.** A timer row exists until its run is resolved (terminal, PAUSED, waiting for another
gen, or the job gone). `load_timers` gives every unresolved timer, also those whose run is in flight: their
claim answers IN_FLIGHT and the caller watches the lease. So wiping everything but the store loses nothing.

**Changes.** Edit, pause, resume, cancel and redrive are *pure decisions made under the job's lock*:
`change_job` locks the job, shows it with its live timer and open runs, and applies what the decision returns in
the same transaction. No read-modify-write outside the store, hence no lost update and no zombie occurrence.

**Acts.** A verb that changes something for a user may be told who does it. Then the entries of the audit log
(`ports.audit_entries`) are written in the same transaction, and only if something was changed.

Every verb raises `StoreUnavailable` (nothing was written) or `OutcomeUnknown` (it may have been: read back).
Losing a race is a value, never an exception.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.outcome import ProgressNote
from tickwheel.ports.registry import Act
from tickwheel.ports.stored import (
    AttemptNote,
    AttemptRecord,
    BrokenChain,
    ChainPage,
    Change,
    Changed,
    Completed,
    Counts,
    DeadLetter,
    DeadLetterPage,
    FirstTimer,
    Inserted,
    InsertStatus,
    JobDecision,
    JobOrder,
    JobPage,
    JobQuery,
    JobView,
    LedgerWrite,
    NamedDecision,
    NewJob,
    Run,
    RunDecision,
    RunPage,
    WorkDefinition,
)
from tickwheel.ports.workers import WorkerStore

__all__ = [
    "AttemptNote",
    "AttemptRecord",
    "BrokenChain",
    "ChainPage",
    "Change",
    "Changed",
    "Completed",
    "Counts",
    "DeadLetter",
    "DeadLetterPage",
    "FirstTimer",
    "InsertStatus",
    "Inserted",
    "JobDecision",
    "JobOrder",
    "JobPage",
    "JobQuery",
    "JobStore",
    "JobView",
    "Ledger",
    "LedgerWrite",
    "NamedDecision",
    "NewJob",
    "Run",
    "RunDecision",
    "RunPage",
    "Store",
    "TimerStore",
    "WorkDefinition",
]


class JobStore(Protocol):
    """Definitions."""

    async def insert_jobs(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        """Insert all in one durable commit; answers in the order given. Concurrent calls share a commit."""
        ...

    async def change_job(
        self, tenant_id: str, job_id: bytes, decide: JobDecision, act: Act | None = None
    ) -> Changed | None:
        """Decide and apply under the job's lock; None if there is no such job (or it is deleted)."""
        ...

    async def change_run(
        self, tenant_id: str, job_id: bytes, scheduled_ms: int, decide: RunDecision, act: Act | None = None
    ) -> Changed | None:
        """The same for one run that has a ledger row or is the live occurrence; None if there is none."""
        ...

    async def put_named(self, tenant_id: str, name: str, decide: NamedDecision, act: Act | None = None) -> Changed:
        """Create or change the job of that name: concurrent calls see one another's result."""
        ...

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None: ...

    async def list_jobs(self, query: JobQuery) -> JobPage:
        """Raises `UnsupportedFilter` for a combination that no index serves; bad cursors raise `BadCursor`."""
        ...

    async def count_jobs(self, tenant_id: str, at_most: int) -> int:
        """How many jobs of the tenant are stored, deleted ones left out; counts no further than `at_most`."""
        ...

    async def count_running(self, counted: str) -> int:
        """How many runs hold a slot of that count (`domain.concurrency`)."""
        ...


class TimerStore(Protocol):
    """Waiting timers."""

    async def load_timers(
        self, from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None
    ) -> Rows:
        """Unresolved timers with from_ms <= due < until_ms as TIMER rows, in due order.

        `shards` None: of all shards. A store that keeps the timers of resolved runs leaves them out where it can;
        the claim of one that slips through answers RESOLVED.

        At most about `limit` rows, but never part of a group of equal due times: a page ends at a whole
        millisecond, so that the next page starts at last due + 1 and a tie never hides a row.
        """
        ...

    async def broken_chains(self, after: bytes, limit: int) -> ChainPage:
        """Look at the next `limit` active recurring jobs by id (`after` b"" = from the first); one snapshot."""
        ...

    async def load_work(self, job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        """What the claims of these jobs need, in the order given; None where the job does not exist."""
        ...


class Ledger(Protocol):
    """Runs: claim, complete, lease, read."""

    async def acquire(self, worker: str) -> Ints:
        """Take all shards for this process: epochs rise by one (also after a restart); returned by shard.

        For a process that is alone on its store: every other incarnation is deposed and held to be proved dead.
        `worker` names this incarnation in claims. (Nodes of a cluster use `ports.shards.ShardStore.take`.)
        """
        ...

    async def claim(self, batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        """Try CLAIM rows; gives CLAIMED rows. One transaction; `lease_ms` is when the new leases end.

        `queued`: for workers elsewhere. The rows become CLAIMED instead of DISPATCHED, without worker and lease.
        What nobody begins is handed back, so it uses no attempt up.
        """
        ...

    async def begin(self, hints: Rows, worker: str, lease_ms: int) -> Rows:
        """Start queued runs (HINT rows) as that worker: durable before the first effect. Gives BEGUN rows.

        Guarded by state CLAIMED and the token, so of all who hold a hint one begins, once (F1).
        """
        ...

    async def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        """Commit COMPLETION rows under their tokens, in one transaction.

        `notes` maps row numbers of the batch to the wordy part of failed attempts. A row whose token or state
        does not match is stale: not applied, never an error. Repeating a batch is harmless: a row that is
        already terminal by the same token and state counts as applied.
        """
        ...

    async def renew(self, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
        """RENEWAL rows; gives a boolean per row: False where the token no longer holds the run.

        `notes` by number of the row; each takes the place of the one before. Shown while the attempt is in flight.
        """
        ...

    async def expired(self, now_ms: int, limit: int, shards: Sequence[int] | None = None) -> Sequence[Run]:
        """In-flight runs whose lease is past, or whose worker is a dead incarnation, oldest first.

        So one whose lease still holds at `now_ms` is here because its worker is proved dead. `shards` None: of all
        shards. A store of a cluster may leave out attempts that were never renewed: their timers are unresolved,
        so whoever owns the shard meets them by their claim.
        """
        ...

    async def find_runs(self, keys: Sequence[tuple[bytes, int]]) -> Sequence[Run | None]:
        """The ledger rows of these (job_id, scheduled_ms), without attempts, in the order given; None: no row."""
        ...

    async def get_run(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run | None:
        """With all attempts. A live occurrence without a ledger row is shown as SCHEDULED, attempt 0."""
        ...

    async def list_runs(self, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage: ...

    async def list_dead(self, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage: ...

    async def drop_dead(self, tenant_id: str, job_id: bytes, scheduled_ms: int, act: Act | None = None) -> bool:
        """Remove a run from the dead-letter queue; its ledger row stays FAILED."""
        ...


class Store(JobStore, TimerStore, Ledger, WorkerStore, Protocol):
    """All roles of one database."""

    async def counts(self) -> Counts: ...

    async def maintain(self, now_ms: int) -> None:
        """Make room for what comes (partitions ahead of time); a chore for one process at a time, repeatable."""
        ...

    async def sweep(self, now_ms: int, retention_ms: int) -> int:
        """Delete a bounded piece of history that ended before now - retention; gives rows deleted."""
        ...

    async def check(self) -> None:
        """One cheap round trip; raises `StoreUnavailable`."""
        ...

    async def aclose(self) -> None: ...
