"""The rows of the in-memory store and the few moves that keep its dictionaries in step.

Values that readers see (`Job`, `Run`) are immutable and replaced, so whatever was handed out never changes.
Everything else in this package goes through `Tables`, which alone knows the secondary dictionaries.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tickwheel.adapters.memory.ownership import Ownership
from tickwheel.adapters.memory.transactions import Transactions
from tickwheel.domain.columns import FLAG_LANE_MASK
from tickwheel.domain.concurrency import Used
from tickwheel.domain.delays import Delay
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.job import Job, JobState, Lane
from tickwheel.domain.notifications.kinds import DROPPED, Kind
from tickwheel.domain.outcome import ProgressNote
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.notices import GroupKey, Notice
from tickwheel.ports.registry import NO_TENANT, NOTIFICATION, AuditEntry, Record
from tickwheel.ports.store import AttemptRecord, FirstTimer, Run
from tickwheel.ports.workers import WorkerState

RunKey: TypeAlias = tuple[bytes, int]
"""(job_id, scheduled_ms)."""


class TimerKey(NamedTuple):
    """Sorts as timers are loaded: by due time, ties by the rest."""

    due_ms: int
    job_id: bytes
    scheduled_ms: int
    gen: int


@dataclass(slots=True)
class Timer:
    """What a timer carries beside its key."""

    flags: int
    stored_ms: int
    xid: int


@dataclass(slots=True)
class LedgerRow:
    """One run. `last` says that the attempt in flight is the last one allowed."""

    run: Run
    last: bool = False
    unstarted_count: int = 0
    attempts: list[AttemptRecord] = field(default_factory=list)
    beat: ProgressNote | None = None  # what the attempt in flight said last
    result: str | None = None
    result_dropped: str | None = None

    @property
    def attempt_in_flight(self) -> int:
        """The number of the attempt in flight: the last allowed one is counted only from RUNNING on."""
        started = not self.last or self.run.state is RunState.RUNNING
        return self.run.attempt if started else self.run.attempt + 1


@dataclass(slots=True)
class Letter:
    """A dead letter of the ledger row with the same key."""

    failed_ms: int
    cause: str


@dataclass(slots=True)
class KeyRow:
    """What an idempotency key was first used for."""

    job_id: bytes
    request_hash: bytes
    next_ms: int | None
    created_ms: int


@dataclass(slots=True)
class RecordRow:
    """A record, and what the audit log says of it."""

    record: Record
    shown: str


class Tables:
    """All rows of one database."""

    def __init__(self) -> None:
        self.jobs: dict[bytes, Job] = {}
        self.timers: dict[TimerKey, Timer] = {}
        self.ledger: dict[RunKey, LedgerRow] = {}
        self.dead: dict[RunKey, Letter] = {}
        self.keys: dict[tuple[str, str], KeyRow] = {}
        self.timers_of: dict[bytes, set[TimerKey]] = {}
        self.runs_of: dict[bytes, dict[int, LedgerRow]] = {}
        self.in_flight: set[RunKey] = set()
        self.named: dict[tuple[str, str], bytes] = {}
        self.ownership = Ownership(SHARD_COUNT)
        self.slots: dict[str, Used] = {}
        """What limits of concurrency count."""
        self.slots_of: dict[RunKey, set[str]] = {}
        self.sessions: dict[str, WorkerState] = {}
        self.records: dict[tuple[str, str, str], RecordRow] = {}
        """By kind, tenant and name."""
        self.delays: dict[tuple[str, str, str, int], Delay] = {}
        self.notices: dict[int, Notice] = {}
        self.notice_groups: dict[GroupKey, str] = {}
        self.groups_version = 0
        self._notice_count = 0
        self.records_version = 0
        self.audit_log: dict[tuple[int, int], AuditEntry] = {}
        """By instant and number."""
        self.entry_count = 0
        self.transactions = Transactions()
        self.timers_by_xid: dict[int, set[TimerKey]] = {}
        self._session_count = 0
        self.xid = 0
        """Of the transaction that is writing now."""

    def new_session(self) -> int:
        """The number of a connection that was just opened."""
        self._session_count += 1
        return self._session_count

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is written inside is committed at the end; nothing can come between."""
        xid, committed = self.transactions.begin(), False
        try:
            with self.writing(xid):
                yield
            committed = True
        finally:
            self.transactions.end(xid, committed=committed)

    @contextmanager
    def writing(self, xid: int) -> Iterator[None]:
        """Timers that are put inside carry this id."""
        self.xid = xid
        try:
            yield
        finally:
            self.xid = 0

    def note(self, notice: Notice) -> None:
        """Keep a notice if there is a rule that may want it."""
        wanted = NO_TENANT, notice.tenant_id
        if any(kind == NOTIFICATION and tenant_id in wanted for kind, tenant_id, _ in self.records):
            self._notice_count += 1
            self.notices[self._notice_count] = notice

    def bury(self, run: Run, letter: Letter) -> None:
        """Put a run into the dead-letter queue."""
        key = run.job_id, run.scheduled_ms
        if key not in self.dead:
            self.note(Notice(Kind.DEAD_LETTERED, run.tenant_id, *key, letter.failed_ms, detail=letter.cause))
        self.dead[key] = letter

    def note_drop(self, run: Run, letter: Letter) -> None:
        """It is kept out of the dead-letter queue."""
        job = self.jobs.get(run.job_id)
        if job is not None and job.recurring:
            key = run.job_id, run.scheduled_ms
            self.note(Notice(DROPPED, run.tenant_id, *key, letter.failed_ms, detail=letter.cause))

    def put_job(self, job: Job) -> None:
        """Insert or replace a definition."""
        before = self.jobs.get(job.job_id)
        ends = before is not None and before.state is not JobState.COMPLETED and job.state is JobState.COMPLETED
        if ends:
            self.note(Notice(Kind.EXHAUSTED, job.tenant_id, job.job_id))
        self.jobs[job.job_id] = job
        if job.named and job.state is not JobState.DELETED:
            self.named[job.tenant_id, job.name] = job.job_id
        elif self.named.get((job.tenant_id, job.name)) == job.job_id:
            del self.named[job.tenant_id, job.name]

    def put_timer(self, job: Job, timer: FirstTimer, now_ms: int, lane: Lane | None = None) -> None:
        """Insert a timer; one with the same key stays as it is. `lane` None is the job's."""
        key = TimerKey(timer.due_ms, job.job_id, timer.scheduled_ms, timer.gen)
        flags = job.timer_flags if lane is None else job.timer_flags & ~FLAG_LANE_MASK | lane
        if key not in self.timers:
            self.timers[key] = Timer(flags, now_ms, self.xid)
            self.timers_by_xid.setdefault(self.xid, set()).add(key)
            self.timers_of.setdefault(job.job_id, set()).add(key)

    def drop_timer(self, key: TimerKey) -> None:
        """Delete one timer if it is there."""
        timer = self.timers.pop(key, None)
        if timer is not None:
            together = self.timers_by_xid[timer.xid]
            together.discard(key)
            if not together:
                del self.timers_by_xid[timer.xid]
        self.timers_of.get(key.job_id, set()).discard(key)

    def drop_timers_of_run(self, job_id: bytes, scheduled_ms: int) -> None:
        """Delete what waits for this run: it is resolved, or about to get another timer."""
        for key in [k for k in self.timers_of.get(job_id, ()) if k.scheduled_ms == scheduled_ms]:
            self.drop_timer(key)

    def put_run(self, row: LedgerRow, run: Run) -> None:
        """Insert the row, or replace what readers see of it; a terminal or waiting run holds no lease."""
        row.run = run
        key = (run.job_id, run.scheduled_ms)
        waits_on = key not in self.in_flight and run.state is RunState.SCHEDULED
        if key in self.slots_of and run.state not in IN_FLIGHT and not waits_on:
            self.free_slots(key)
        self.ledger[key] = row
        self.runs_of.setdefault(run.job_id, {})[run.scheduled_ms] = row
        if run.state in IN_FLIGHT:
            self.in_flight.add(key)
        else:
            row.beat = None
            self.in_flight.discard(key)

    def used(self, name: str) -> Used:
        """What is counted under that name, to read."""
        return self.slots.get(name) or Used()

    def take_slots(self, key: RunKey, names: Sequence[str], *, waiting: bool) -> None:
        """The run holds these from now on, or waits for them."""
        self.free_slots(key)
        for name in names:
            used = self.slots.setdefault(name, Used())
            if waiting:
                used.waiting.add(key)
            else:
                used.running += 1
            self.slots_of.setdefault(key, set()).add(name)

    def free_slots(self, key: RunKey) -> None:
        """The run holds none any more."""
        for name in self.slots_of.pop(key, ()):
            used = self.slots[name]
            if key in used.waiting:
                used.waiting.discard(key)
            else:
                used.running -= 1
            if not used.running and not used.waiting:
                del self.slots[name]

    def live_timers(self, job_id: bytes) -> list[TimerKey]:
        """First timers of occurrences that have no ledger row yet."""
        runs = self.runs_of.get(job_id, {})
        return sorted(k for k in self.timers_of.get(job_id, ()) if k.gen > 0 and k.scheduled_ms not in runs)

    def taken_ahead(self, job: Job) -> tuple[int, ...]:
        """Instants after the live one of a recurring job that have a ledger row."""
        live = self.live_timers(job.job_id) if job.recurring else []
        return tuple(at for at in sorted(self.runs_of.get(job.job_id, ())) if live and at > live[0].scheduled_ms)

    def drop_run(self, key: RunKey) -> None:
        """Forget a run that is over."""
        del self.ledger[key]
        del self.runs_of[key[0]][key[1]]
        self.dead.pop(key, None)

    def drop_job(self, job: Job) -> None:
        """Forget a job whose runs and timers are gone, with its idempotency key."""
        del self.jobs[job.job_id]
        self.timers_of.pop(job.job_id, None)
        self.runs_of.pop(job.job_id, None)
        self.forget_key(job)
        if self.named.get((job.tenant_id, job.name)) == job.job_id:
            del self.named[job.tenant_id, job.name]

    def forget_key(self, job: Job) -> None:
        """Free the job's idempotency key, if it still stands for this job."""
        if job.idempotency_key is None:
            return
        key = (job.tenant_id, job.idempotency_key)
        held = self.keys.get(key)
        if held is not None and held.job_id == job.job_id:
            del self.keys[key]
