"""Claims: the timers that are due become ledger rows, in one step that nothing can come between.

The reference for what every adapter's claim answers, in this order: DEPOSED (the shard is not this incarnation's
under the epoch of the token, or the incarnation is deposed), NOT_DUE, then by the ledger row if there is one, then
by the job. Whoever inserts the row of an occurrence inserts the next timer with it; whoever finds a row inserts
none. Example: the claim of 10:00 with `next_ms` 11:00 crashes after the commit; the timer of 11:00 is there. Had
it been inserted afterwards, the chain would be dead.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from tickwheel.adapters.memory.tables import LedgerRow, Tables, TimerKey
from tickwheel.domain.columns import CLAIMED, ClaimAction, ClaimVerdict, OverlapCode, Rows, empty
from tickwheel.domain.concurrency import Counted, Room, SlotBook, Used, counted
from tickwheel.domain.ids import shard_of
from tickwheel.domain.job import Job, JobState, Lane
from tickwheel.domain.ledger_moves import RECHECK_MS, Claim, Claimed
from tickwheel.domain.run import FENCE_SEQUENCE_BITS, IN_FLIGHT, TERMINAL, RunState, SkipReason
from tickwheel.ports.store import FirstTimer, Run


class Looks(Protocol):
    """What a claim looks at beside the run's own row: rows that others change, which its locks hold still."""

    def may_claim(self, shard: int, epoch: int) -> bool:
        """Whether the shard is the claimer's under that epoch."""
        ...

    def job(self, job_id: bytes) -> Job | None:
        """The definition."""
        ...

    def open_runs(self, job_id: bytes) -> Iterable[Run]:
        """The job's runs that are not terminal."""
        ...

    def used(self, name: str) -> Used:
        """What limits of that name count."""
        ...


class LooksNow:
    """Looks at the tables as they are."""

    def __init__(self, tables: Tables, worker: str | None) -> None:
        self._tables, self._worker = tables, worker

    def may_claim(self, shard: int, epoch: int) -> bool:
        return self._tables.ownership.may_claim(self._worker, shard, epoch)

    def job(self, job_id: bytes) -> Job | None:
        return self._tables.jobs.get(job_id)

    def open_runs(self, job_id: bytes) -> Iterable[Run]:
        rows = self._tables.runs_of.get(job_id, {}).values()
        return (row.run for row in rows if row.run.state not in TERMINAL)

    def used(self, name: str) -> Used:
        return self._tables.used(name)


class ClaimTransaction:
    """One batch of claims."""

    def __init__(
        self,
        tables: Tables,
        *,
        worker: str | None,
        now_ms: int,
        lease_ms: int,
        looks: Looks | None = None,
        queued: bool = False,
    ) -> None:
        self._tables, self._worker = tables, worker
        self._now_ms, self._lease_ms = now_ms, lease_ms
        self._queued = queued
        self._looks = looks or LooksNow(tables, worker)
        self._used: dict[str, Used] = {}
        self._book = SlotBook(self._used)

    def claim(self, batch: Rows) -> Rows:
        """CLAIMED rows for CLAIM rows; of one job, earlier occurrences are tried first."""
        claims = [Claim(*values) for values in batch.tolist()]
        answers = empty(CLAIMED, len(claims))
        for number in sorted(range(len(claims)), key=lambda n: (claims[n].job_id, claims[n].scheduled_ms)):
            answers[number] = self._claim(claims[number])
        return answers

    def _claim(self, claim: Claim) -> Claimed:
        if not self._looks.may_claim(shard_of(claim.job_id), claim.fence >> FENCE_SEQUENCE_BITS):
            return Claimed(ClaimVerdict.DEPOSED)
        if claim.due_ms > self._now_ms:
            return Claimed(ClaimVerdict.NOT_DUE)
        job = self._looks.job(claim.job_id)
        row = self._tables.ledger.get((claim.job_id, claim.scheduled_ms))
        if job is None:
            return self._resolved(claim)
        if row is not None:
            return self._claim_row(claim, job, row)
        return self._claim_first(claim, job)

    def _resolved(self, claim: Claim) -> Claimed:
        self._tables.drop_timer(TimerKey(claim.due_ms, claim.job_id, claim.scheduled_ms, claim.gen))
        return Claimed(ClaimVerdict.RESOLVED)

    def _claim_row(self, claim: Claim, job: Job, row: LedgerRow) -> Claimed:
        run = row.run
        if run.gen != claim.follow_up:
            return self._resolved(claim)
        if run.state in IN_FLIGHT:
            mine = run.fence == claim.fence  # the same claim again, after its answer was lost
            lease_ms = self._now_ms if run.state is RunState.CLAIMED else run.lease_ms or 0
            return Claimed(
                ClaimVerdict.WON if mine else ClaimVerdict.IN_FLIGHT,
                row.attempt_in_flight,
                run.lost_count,
                job.version,
                run.fence,
                0 if self._tables.ownership.is_dead(run.worker) else lease_ms,
            )
        if run.state is RunState.SCHEDULED:
            return self._claim_waiting(claim, job, row)
        return self._resolved(claim)

    def _claim_waiting(self, claim: Claim, job: Job, row: LedgerRow) -> Claimed:
        run = row.run
        if claim.fence <= run.fence:
            return Claimed(ClaimVerdict.UNRESOLVED, version=job.version, fence=run.fence)
        begun = run.fence > 0
        if claim.action == ClaimAction.SKIP and not begun:
            return self._skip(claim, job, row, SkipReason(claim.reason))
        if claim.overlap != OverlapCode.ALLOW and self._must_wait(run):
            if claim.overlap == OverlapCode.SKIP and not begun:
                return self._skip(claim, job, row, SkipReason.OVERLAP)
            return self._buffer(claim, job, row)
        limits = self._limits(claim, job)
        if self._book.room(limits, first=False) is not Room.START:
            return Claimed(ClaimVerdict.LIMITED, version=job.version)
        return self._win(claim, job, row, limits)

    def _claim_first(self, claim: Claim, job: Job) -> Claimed:
        gone = job.state in (JobState.CANCELLED, JobState.DELETED)
        edited = job.recurring and (job.state is not JobState.ACTIVE or job.version != claim.gen)
        if claim.gen < 0 or gone or edited:
            return self._resolved(claim)
        row = LedgerRow(self._new_run(claim, job))
        open_runs = list(self._looks.open_runs(claim.job_id))
        if claim.action == ClaimAction.SKIP:
            answer = self._skip(claim, job, row, SkipReason(claim.reason))
        elif not open_runs or claim.overlap == OverlapCode.ALLOW:
            limits = self._limits(claim, job)
            room = self._book.room(limits, first=True)
            if room is Room.LATER:  # its chain waits with it
                return Claimed(ClaimVerdict.LIMITED, version=job.version)
            answer = self._start_or_not(claim, job, row, limits, room)
        elif claim.overlap == OverlapCode.SKIP or any(_is_buffered(run) for run in open_runs):
            answer = self._skip(claim, job, row, SkipReason.OVERLAP)
        else:
            answer = self._buffer(claim, job, row)
        self._plant_next(claim, job)
        return answer

    def _limits(self, claim: Claim, job: Job) -> tuple[Counted, ...]:
        """The limits of the job and its tenant; what they count is known to the book from then on."""
        limits = counted(job.spec.concurrency, job.tenant_id, job.name, claim.tenant_limit)
        for limit in limits:
            if limit.name not in self._used:
                used = self._looks.used(limit.name)
                self._used[limit.name] = Used(used.running, used.waiting)
        return limits

    def _start_or_not(
        self, claim: Claim, job: Job, row: LedgerRow, limits: Sequence[Counted], room: Room
    ) -> Claimed:
        if room is Room.START:
            return self._win(claim, job, row, limits)
        if room is Room.SKIP:
            return self._skip(claim, job, row, SkipReason.LIMIT)
        answer = self._buffer(claim, job, row)
        key = (claim.job_id, claim.scheduled_ms)
        self._tables.take_slots(key, self._book.wait(key, limits), waiting=True)
        return answer

    def _new_run(self, claim: Claim, job: Job) -> Run:
        timer = self._tables.timers.get(TimerKey(claim.due_ms, claim.job_id, claim.scheduled_ms, claim.gen))
        return Run(
            job_id=claim.job_id,
            tenant_id=job.tenant_id,
            scheduled_ms=claim.scheduled_ms,
            state=RunState.SCHEDULED,
            gen=0,
            fence=0,
            attempt=0,
            lane=Lane(job.lane),
            armed_ms=None if timer is None else timer.stored_ms,
        )

    def _plant_next(self, claim: Claim, job: Job) -> None:
        if not job.recurring:
            return
        if claim.next_ms >= 0:
            timer = FirstTimer(claim.next_ms, claim.next_ms, job.version)
            self._tables.put_timer(job, timer, self._now_ms)
        else:
            self._tables.put_job(replace(job, state=JobState.COMPLETED))

    def _win(self, claim: Claim, job: Job, row: LedgerRow, limits: Sequence[Counted]) -> Claimed:
        run, key = row.run, (claim.job_id, claim.scheduled_ms)
        attempt = run.attempt + 1
        row.last = attempt >= claim.max_attempts
        self._tables.put_run(
            row,
            replace(
                run,
                state=RunState.CLAIMED if self._queued else RunState.DISPATCHED,
                fence=claim.fence,
                attempt=run.attempt if row.last else attempt,
                worker=None if self._queued else self._worker,
                claimed_ms=self._now_ms,
                lease_ms=None if self._queued else self._lease_ms,
                retry_ms=None,
            ),
        )
        self._tables.take_slots(key, self._book.start(key, limits), waiting=False)
        return Claimed(ClaimVerdict.WON, attempt, run.lost_count, job.version, claim.fence, self._lease_ms)

    def _skip(self, claim: Claim, job: Job, row: LedgerRow, reason: SkipReason) -> Claimed:
        self._tables.drop_timers_of_run(claim.job_id, claim.scheduled_ms)
        skipped = replace(
            row.run, state=RunState.SKIPPED, skip_reason=reason, finished_ms=self._now_ms, retry_ms=None
        )
        self._tables.put_run(row, skipped)
        return Claimed(ClaimVerdict.SKIPPED, version=job.version)

    def _buffer(self, claim: Claim, job: Job, row: LedgerRow) -> Claimed:
        due_ms, gen = self._now_ms + RECHECK_MS, row.run.gen + 1
        self._tables.drop_timers_of_run(claim.job_id, claim.scheduled_ms)
        self._tables.put_run(row, replace(row.run, state=RunState.SCHEDULED, gen=gen, retry_ms=due_ms))
        self._tables.put_timer(job, FirstTimer(due_ms, claim.scheduled_ms, -gen), self._now_ms, row.run.lane)
        return Claimed(ClaimVerdict.BUFFERED, version=job.version, lease_ms=due_ms)

    def _must_wait(self, run: Run) -> bool:
        """Whether an earlier run of the job is open, or any other one is under way (after a redrive)."""
        others = (other for other in self._looks.open_runs(run.job_id) if other.scheduled_ms != run.scheduled_ms)
        return any(other.scheduled_ms < run.scheduled_ms or other.state in IN_FLIGHT for other in others)


def _is_buffered(run: Run) -> bool:
    """Waiting for its first start: a retry that waits has had a token."""
    return run.state is RunState.SCHEDULED and run.fence == 0
