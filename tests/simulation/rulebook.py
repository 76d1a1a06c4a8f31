"""Watches every commit and every start, and notes what must never be.

Each violation names the invariant that is broken:

| name | what must hold |
|---|---|
| I1 lost | a timer that is due ends in a ledger row, and a run ends |
| I3 tokens | the token of a job only rises, in the order of the commits |
| I4 final | SUCCEEDED, CANCELLED and SKIPPED never change, FAILED only by a redrive |
| I5 stranger | a run ends under a token that was claimed and started |
| I6 early | nothing starts before it is due, a retry not before its backoff is over |
| I7 after cancel | nothing starts or succeeds after a cancel has answered, nor begins while the job is paused |
| I7 old instant | an occurrence that an edit has replaced does not begin |
| I8 attempts | not more attempts than the policy allows; FAILED for lost workers only after a last attempt began |
| I9 chain | an active recurring job has exactly one next timer |
| F1 started twice | one token, one start |
| E5 vanished | an occurrence that was due before an edit or a pause is in the ledger |
| E7 overlap | no occurrence begins while an earlier one of a job that forbids it is not over |
| G1 restless | in calm weather no shard changes hands |
| G2 killed the living | a coordinator that was away is no reason to declare anybody dead |
| L1 limit | no more runs are in flight than a limit of a job or tenant allows; no slot outlives its run |
| T1 tenant | no worker of a tenant gets a run of another one |
| T2 reached | runs reach their tenant's own workers, and others when these are gone |
| I12 slots | no process runs more attempts than it has slots |
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tickwheel.domain.concurrency import Counted, counted
from tickwheel.domain.job import Job, JobState, Overlap
from tickwheel.domain.outcome import LOST_LIMIT_COUNT
from tickwheel.domain.run import FINAL, IN_FLIGHT, TERMINAL, RunState
from tickwheel.ports.store import Run
from tickwheel.testing.model import ModelDatabase

from .targets import Start

RunKey = tuple[bytes, int]
TENANT_LIMITS: Final[Mapping[str, int]] = {"acme": 4}
"""What the records of tenants say: so many runs of theirs may be in flight, whatever their jobs state."""


class Violation(AssertionError):
    """A rule was broken."""


@dataclass
class Rulebook:
    """`violations` are in the order in which they were found."""

    database: ModelDatabase
    violations: list[str] = field(default_factory=list)
    cancelled_jobs: set[bytes] = field(default_factory=set)
    cancelled_runs: set[RunKey] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    history: dict[RunKey, list[str]] = field(default_factory=dict)
    """Of each run: what happened to it, in words."""
    # Per job: the highest token before the latest transaction that wrote one, the highest, and that transaction.
    _highest: dict[bytes, tuple[int, int, int]] = field(default_factory=dict)
    _claimed: dict[tuple[bytes, int], int] = field(default_factory=dict)  # (job, token) -> run
    _started: set[tuple[bytes, int]] = field(default_factory=set)  # (job, token)
    _marked: set[tuple[bytes, int]] = field(default_factory=set)  # RUNNING was written
    _tries: Counter[RunKey] = field(default_factory=Counter)
    _allowed: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.database.tables.watches.append(self.saw_write)
        self.database.after_commit.append(self.saw_commit)

    def broken(self, name: str, text: str) -> None:
        """Note a violation."""
        at_ms = self.database.clock.monotonic_ms()
        self.violations.append(f"{name}: {text} (at {at_ms} ms)")

    def cancelled(self, job_id: bytes) -> None:
        """A cancel of the whole job has answered."""
        self.cancelled_jobs.add(job_id)

    def paused(self) -> list[bytes]:
        """Jobs that are paused now."""
        return sorted(j.job_id for j in self.database.tables.jobs.values() if j.state is JobState.PAUSED)

    def saw_start(self, start: Start) -> None:
        """The target was called."""
        self._note(start.job_id, start.scheduled_ms, f"started by {start.process}, token {start.fence:#x}")
        key, token = (start.job_id, start.scheduled_ms), (start.job_id, start.fence)
        if token in self._started:
            self.broken("F1 started twice", f"{start}")
        self._started.add(token)
        if self._claimed.get(token) != start.scheduled_ms:
            self.broken("I5 stranger", f"{start} was never claimed")
        if start.at_ms < start.scheduled_ms:
            self.broken("I6 early", f"{start}")
        self._tries[key] += 1
        if self._tries[key] > self._allowed.get(start.job_id, 1):
            self.broken("I8 attempts", f"start {self._tries[key]} of {self._allowed.get(start.job_id)}: {start}")

    def saw_hand_back(self, job_id: bytes, scheduled_ms: int) -> None:
        """A planned stop interrupts an attempt and gives it back: it does not count, and is made again."""
        self._tries[job_id, scheduled_ms] -= 1

    def saw_commit(self) -> None:
        """A transaction has ended."""
        tables = self.database.tables
        for job_id in tables.planted:
            job = tables.jobs[job_id]
            live = tables.live_timers(job_id) if job.recurring and job.state is JobState.ACTIVE else []
            if len(live) > 1:
                self.broken("I9 chain", f"job {job_id.hex()[-6:]} has {len(live)} next timers")
        tables.planted.clear()

    def saw_write(self, before: Run | None, run: Run) -> None:
        """A row of the ledger was written."""
        self._note(
            run.job_id, run.scheduled_ms, f"{_text(run)} by {run.worker}, attempt {run.attempt}, gen {run.gen}"
        )
        job = self.database.tables.jobs[run.job_id]
        self._allowed[run.job_id] = max(self._allowed.get(run.job_id, 0), job.spec.retry.max_attempts)
        self._check_moves(before, run)
        if before is None or before.fence != run.fence:
            self._check_token(run)
        if run.state is RunState.RUNNING:
            self._marked.add((run.job_id, run.fence))
        begins = run.state in IN_FLIGHT and (before is None or before.state not in IN_FLIGHT)
        if begins:
            self._check_begin(before, run, job)
        if before is not None and before.state is RunState.FAILED and run.state is RunState.SCHEDULED:
            self._tries[run.job_id, run.scheduled_ms] = 0
        if run.state in TERMINAL and (before is None or before.state is not run.state):
            self._check_end(run)

    def _note(self, job_id: bytes, scheduled_ms: int, text: str) -> None:
        at_ms = self.database.clock.monotonic_ms()
        self.history.setdefault((job_id, scheduled_ms), []).append(f"{at_ms:6} {text}")

    def _check_moves(self, before: Run | None, run: Run) -> None:
        if before is None:
            return
        if (before.state in FINAL and (before.state, before.fence) != (run.state, run.fence)) or (
            before.state is RunState.FAILED and run.state not in (RunState.FAILED, RunState.SCHEDULED)
        ):
            self.broken("I4 final", f"{_text(before)} became {_text(run)}")

    def _check_token(self, run: Run) -> None:
        if not run.fence:
            return
        xid = self.database.tables.xid
        before, highest, latest_xid = self._highest.get(run.job_id, (0, 0, 0))
        if xid != latest_xid:
            before = highest
        if run.fence <= before or (run.job_id, run.fence) in self._claimed:
            self.broken("I3 tokens", f"{_text(run)} after {before:#x}")
        self._highest[run.job_id] = before, max(highest, run.fence), xid
        self._claimed[run.job_id, run.fence] = run.scheduled_ms

    def _check_begin(self, before: Run | None, run: Run, job: Job) -> None:
        now_ms = self.database.clock.now_ms()
        self.counts["attempts claimed"] += 1
        due_ms = run.scheduled_ms if before is None or before.retry_ms is None else before.retry_ms
        if now_ms < due_ms:
            self.broken("I6 early", f"{_text(run)} is due in {due_ms - now_ms} ms")
        if run.job_id in self.cancelled_jobs or (run.job_id, run.scheduled_ms) in self.cancelled_runs:
            self.broken("I7 after cancel", f"{_text(run)} begins")
        self._check_limits(job, run)
        if not job.recurring:
            return
        if before is None and job.state not in (JobState.ACTIVE, JobState.COMPLETED):
            self.broken("I7 after cancel", f"{_text(run)} begins while its job is {job.state.name}")
        keys = self.database.tables.timers_of.get(run.job_id, ())
        if before is None and not any(k.gen > 0 and k.scheduled_ms == run.scheduled_ms for k in keys):
            self.broken("I7 old instant", f"{_text(run)} begins, which is not planned any more")
        if before is None and job.spec.overlap is not Overlap.ALLOW and "overlapped" not in job.tags:
            rows = self.database.tables.runs_of[run.job_id].values()
            open_runs = [
                r.run for r in rows if r.run.state not in TERMINAL and r.run.scheduled_ms != run.scheduled_ms
            ]
            if open_runs:
                self.broken("E7 overlap", f"{_text(run)} begins beside {_text(open_runs[0])}")

    def _check_limits(self, job: Job, run: Run) -> None:
        tables = self.database.tables
        for limit in _limits(job):
            self.counts["limited starts"] += 1
            others = [key for key in tables.in_flight if limit.name in _names(tables.jobs[key[0]])]
            if len(others) > limit.limit:
                self.broken("L1 limit", f"{_text(run)} is number {len(others)} of {limit.limit}")

    def _check_end(self, run: Run) -> None:
        self.counts[run.state.name] += 1
        key, token = (run.job_id, run.scheduled_ms), (run.job_id, run.fence)
        if run.state is RunState.SUCCEEDED:
            if token not in self._started:
                self.broken("I5 stranger", f"{_text(run)} was never started")
            if run.job_id in self.cancelled_jobs or key in self.cancelled_runs:
                self.broken("I7 after cancel", f"{_text(run)}")
        began = token in self._started or token in self._marked
        if run.state is RunState.FAILED and not began and run.lost_count < LOST_LIMIT_COUNT:
            self.broken("I8 attempts", f"{_text(run)} though its last attempt never began")
        if run.attempt > self._allowed[run.job_id]:
            self.broken("I8 attempts", f"{_text(run)} has used up {run.attempt}")


def _limits(job: Job) -> Sequence[Counted]:
    return counted(job.spec.concurrency, job.tenant_id, job.name, TENANT_LIMITS.get(job.tenant_id, 0))


def _names(job: Job) -> set[str]:
    return {limit.name for limit in _limits(job)}


def _text(run: Run) -> str:
    return f"run {run.job_id.hex()[-6:]}@{run.scheduled_ms % 10**8} {run.state.name} token {run.fence:#x}"
