"""The store: jobs, timers, the ledger of runs.

Three roles, one object per technology. Hot verbs (`load_timers`, `load_work`, `claim`, `complete`, `renew`)
take and give columns; the rest takes single values, because a person waits for the answer.

**Timers and resolution.** A timer row exists until its run is resolved (terminal, PAUSED, waiting for another
gen, or the job gone). `load_timers` gives every unresolved timer, also those whose run is in flight: their
claim answers IN_FLIGHT and the caller watches the lease. So wiping everything but the store loses nothing.

**Changes.** Edit, pause, resume, cancel and redrive are *pure decisions made under the job's lock*:
`change_job` locks the job, shows it with its live timer and open runs, and applies what the decision returns in
the same transaction. No read-modify-write outside the store, hence no lost update and no zombie occurrence.

Every verb raises `StoreUnavailable` (nothing was written) or `OutcomeUnknown` (it may have been: read back).
Losing a race is a value, never an exception.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.job import Job, JobState, Lane, ScheduleType
from tickwheel.domain.outcome import ProgressNote
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.ports.workers import WorkerStore


class FirstTimer(msgspec.Struct, frozen=True, gc=False):
    """A timer of an occurrence: due at `due_ms` for the run (job, `scheduled_ms`)."""

    due_ms: int
    scheduled_ms: int
    gen: int


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job to insert with its first timer, under an optional idempotency key."""

    job: Job
    timer: FirstTimer | None  # None: recurring without any occurrence left
    request_hash: bytes = b""  # of the normalised request; compared when the key is taken


class InsertStatus(StrEnum):
    """What became of one job of an insert."""

    CREATED = "created"
    REPLAYED = "replayed"  # same key, same request: `job` is the stored one
    KEY_CONFLICT = "key_conflict"  # same key, another request: nothing written


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """The answer for one job of an insert; `job_id` is the stored job's (the first one on a replay)."""

    status: InsertStatus
    job_id: bytes
    next_ms: int | None = None  # REPLAYED: the first answer's next run time
    created_ms: int = 0


class AttemptRecord(msgspec.Struct, frozen=True, gc=False):
    """One try of a run. Stored apart only when it failed, was lost or ran long."""

    attempt: int
    fence: int
    worker: str
    started_ms: int | None
    finished_ms: int | None
    outcome: str  # OutcomeClass name in lower case, "running" while open
    http_status: int = 0
    error: str | None = None
    excerpt: str | None = None


class Run(msgspec.Struct, frozen=True, gc=False):
    """A ledger row as readers see it."""

    job_id: bytes
    tenant_id: str
    scheduled_ms: int
    state: RunState
    gen: int
    fence: int
    attempt: int
    lane: Lane
    skip_reason: SkipReason = SkipReason.NONE
    lost_count: int = 0
    worker: str | None = None
    armed_ms: int | None = None
    claimed_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    lease_ms: int | None = None
    beat_ms: int | None = None
    retry_ms: int | None = None  # due time of the follow-up while SCHEDULED
    http_status: int = 0
    error: str | None = None
    attempts: tuple[AttemptRecord, ...] = ()  # filled by get_run only
    progress: float | None = None  # of the attempt in flight; with `note` by get_run and in a job's `current`
    note: str | None = None
    result: str | None = None  # JSON; filled by get_run only
    result_dropped: str | None = None  # why there is no result though the handler returned something


class JobView(msgspec.Struct, frozen=True, gc=False):
    """A job with what is known about its runs.

    `live` is the unresolved first timer (its next occurrence), `open_runs` the ledger rows that are not
    terminal (oldest first), `last_run` the most recent ledger row, `current` the latest started run that is
    not terminal.
    """

    job: Job
    live: FirstTimer | None
    open_runs: tuple[Run, ...] = ()
    last_run: Run | None = None
    current: Run | None = None


class LedgerWrite(msgspec.Struct, frozen=True, gc=False):
    """A ledger row to insert, or the open row of that run to move; part of a `Change`.

    `follow_up_ms` inserts a follow-up timer (gen = -(runs.gen), raised by one when the row exists) due then.
    `reset_attempts` is for redrive.
    """

    scheduled_ms: int
    state: RunState
    skip_reason: SkipReason = SkipReason.NONE
    follow_up_ms: int | None = None
    reset_attempts: bool = False


class Change(msgspec.Struct, frozen=True, gc=False):
    """What a decision wants written, all in one transaction.

    `job` replaces the definition (None: unchanged). `drop_live` deletes the unresolved first timers of the job.
    `timer` is inserted. `cancel_open` moves all non-terminal runs to CANCELLED. `runs` are applied in order.
    """

    job: Job | None = None
    drop_live: bool = False
    timer: FirstTimer | None = None
    cancel_open: bool = False
    runs: tuple[LedgerWrite, ...] = ()
    forget_key: bool = False


class Changed(msgspec.Struct, frozen=True, gc=False):
    """What `change_job` did: the view after the change, and timers that are now to be armed."""

    view: JobView
    timers: tuple[FirstTimer, ...] = ()


JobDecision = Callable[[JobView, int], Change]
"""(view under the lock, store's now_ms) -> change. Pure; may raise a domain error: nothing is written then."""
RunDecision = Callable[[JobView, Run, int], Change]
NamedDecision = Callable[[JobView | None, int], NewJob | Change]


class JobOrder(StrEnum):
    """How a list of jobs is ordered; a cursor belongs to one order."""

    CREATED = "created"  # newest first
    DUE = "due"  # soonest first; jobs with a live timer only


class BrokenChain(msgspec.Struct, frozen=True, gc=False):
    """An active recurring job that has not exactly one live timer: it would never fire again, or fire double."""

    tenant_id: str
    job_id: bytes
    live_count: int


class ChainPage(msgspec.Struct, frozen=True, gc=False):
    """What a piece of the check of all chains found; `after` is where the next piece begins, None at the end."""

    broken: tuple[BrokenChain, ...]
    after: bytes | None


class JobQuery(msgspec.Struct, frozen=True, gc=False):
    """Filters of a job list; all given ones must match. `after` is the cursor of the page before."""

    tenant_id: str
    limit: int = 50
    order: JobOrder = JobOrder.CREATED
    status: str | None = None  # a RunState or JobState name, as the API's `status`
    name_prefix: str | None = None
    schedule_type: ScheduleType | None = None
    lane: Lane | None = None
    tag: str | None = None
    due_from_ms: int | None = None
    due_to_ms: int | None = None
    after: str | None = None


class JobPage(msgspec.Struct, frozen=True, gc=False):
    """A page; it may hold fewer than `limit` items and still have a `next_cursor` (the scan is bounded)."""

    items: tuple[JobView, ...]
    next_cursor: str | None


class RunPage(msgspec.Struct, frozen=True, gc=False):
    """A page of runs."""

    items: tuple[Run, ...]
    next_cursor: str | None


class DeadLetter(msgspec.Struct, frozen=True, gc=False):
    """A run without an attempt left."""

    run: Run
    job_name: str
    failed_ms: int
    cause: str


class DeadLetterPage(msgspec.Struct, frozen=True, gc=False):
    """A page of the dead-letter queue, newest first."""

    items: tuple[DeadLetter, ...]
    next_cursor: str | None


class WorkDefinition(msgspec.Struct, frozen=True, gc=False):
    """What an attempt needs of its job. `spec` is the stored JSON (decode it through a cache).

    `taken_ms`: instants after the live one of a recurring job that have a ledger row already (they were cancelled
    ahead, then the job was edited), so that no timer can be planted there. Nearly always empty.

    `changes`: how many changes the jobs of its shard had had when this was read, 0 if the store does not count. A
    claim brings it and `updated_ms` along: a store that finds it unchanged need not look at the job again.
    """

    tenant_id: str
    name: str
    state: JobState
    version: int
    spec: bytes
    payload: str
    idempotency_key: str | None
    effective_ms: int
    taken_ms: tuple[int, ...] = ()
    changes: int = 0
    updated_ms: int = 0


class AttemptNote(msgspec.Struct, frozen=True, gc=False):
    """The wordy part of an attempt that did not simply succeed; at most 2 KiB each.

    Or what a successful one returned: `result` is JSON, at most `domain.outcome.RESULT_LIMIT_BYTES`; `dropped`
    says why it was not kept. Both are written in the transaction that writes SUCCEEDED, or not at all.
    """

    error: str | None
    excerpt: str | None
    result: str | None = None
    dropped: str | None = None


class Counts(msgspec.Struct, frozen=True, gc=False):
    """Cheap totals for the front page, metrics and doctor; counters, never table scans."""

    jobs: int
    waiting: int  # timer rows
    dead_letters: int


class Completed(NamedTuple):
    """The answer to a completion batch."""

    applied: Bools  # per row; False = stale
    follow_ups: Rows  # TIMER rows of the retries that were inserted


class JobStore(Protocol):
    """Definitions."""

    async def insert_jobs(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Insert all in one durable commit; answers in the order given. Concurrent calls share a commit."""
        ...

    async def change_job(self, tenant_id: str, job_id: bytes, decide: JobDecision) -> Changed | None:
        """Decide and apply under the job's lock; None if there is no such job (or it is deleted)."""
        ...

    async def change_run(
        self, tenant_id: str, job_id: bytes, scheduled_ms: int, decide: RunDecision
    ) -> Changed | None:
        """The same for one run that has a ledger row or is the live occurrence; None if there is none."""
        ...

    async def put_named(self, tenant_id: str, name: str, decide: NamedDecision) -> Changed:
        """Create or change the job of that name: concurrent calls see one another's result."""
        ...

    async def get_job(self, tenant_id: str, job_id: bytes) -> JobView | None: ...

    async def list_jobs(self, query: JobQuery) -> JobPage:
        """Raises `UnsupportedFilter` for a combination that no index serves; bad cursors raise `BadCursor`."""
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

        `queued`: for workers elsewhere. The rows become CLAIMED instead of DISPATCHED, without worker and lease,
        and use no attempt up before somebody has begun them.
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

    async def drop_dead(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> bool:
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
