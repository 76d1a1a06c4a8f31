"""What a store takes and gives, value by value; `ports.store` has the verbs, and all of these names too."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from tickwheel.domain.columns import Bools, Rows
from tickwheel.domain.job import Job, JobState, Lane, ScheduleType
from tickwheel.domain.run import RunState, SkipReason


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
    `buries`: should the run end as FAILED, it goes to the dead-letter queue.
    """

    error: str | None
    excerpt: str | None
    result: str | None = None
    dropped: str | None = None
    buries: bool = True


class Counts(msgspec.Struct, frozen=True, gc=False):
    """Cheap totals for the front page, metrics and doctor; counters, never table scans."""

    jobs: int
    waiting: int  # timer rows
    dead_letters: int


class Completed(NamedTuple):
    """The answer to a completion batch."""

    applied: Bools  # per row; False = stale
    follow_ups: Rows  # TIMER rows of the retries that were inserted
