"""Claims that need a look: retries, skips, overlap rules, and what met another state.

A store reads the state of all rows of a batch under its locks, each row is decided here, in the order (job,
instant), with the effect of the decisions before it, and the store writes what comes out, one statement per kind.
The order of the guards is that of the reference (`adapters/memory`): the ledger row decides first, then the job.

Example: a batch holds two occurrences of a job whose policy skips overlaps, and nothing of it runs. The first is
started; the second sees that start, though no row was written yet, and is skipped.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tickwheel.domain.columns import ClaimAction, ClaimVerdict, OverlapCode
from tickwheel.domain.concurrency import Counted, Room, SlotBook
from tickwheel.domain.job import JobState
from tickwheel.domain.ledger_moves import RECHECK_MS, Claim, Claimed
from tickwheel.domain.run import IN_FLIGHT, RunState, SkipReason

_GONE = (JobState.CANCELLED, JobState.DELETED)


class Seen(NamedTuple):
    """What is known about a claim's job, run and timer; `run_*` are None without a ledger row."""

    job_state: int | None
    version: int
    lane: int
    recurring: int
    run_state: int | None
    run_gen: int
    run_fence: int
    attempt: int
    last: int
    lost_count: int
    lease_ms: int | None
    armed_ms: int | None
    limits: tuple[Counted, ...] = ()


class Open(NamedTuple):
    """A run of a job that is not terminal."""

    state: int
    fence: int


class NewRow(NamedTuple):
    """A ledger row to insert."""

    job_id: bytes
    scheduled_ms: int
    state: int
    gen: int
    fence: int
    attempt: int
    last: int
    lane: int
    listed: int
    skip_reason: int
    worker: int | None
    due_ms: int
    timer_gen: int
    armed_ms: int | None
    claimed_ms: int | None
    finished_ms: int | None
    lease_ms: int | None
    limited: int


class Start(NamedTuple):
    """A waiting row that starts; guarded by state, gen and a lower token."""

    job_id: bytes
    scheduled_ms: int
    gen: int
    fence: int
    attempt: int
    last: int
    limited: int


class Slot(NamedTuple):
    """A slot of a limit that a run takes, or `waiting`: that it counts as waiting for."""

    job_id: bytes
    scheduled_ms: int
    counted: str
    waiting: int


class Leave(NamedTuple):
    """A waiting row that is skipped, or waits on under a new timer; guarded by state and `old_gen`."""

    job_id: bytes
    scheduled_ms: int
    old_gen: int
    state: int
    gen: int
    skip_reason: int
    due_ms: int
    finished_ms: int | None


class NewTimer(NamedTuple):
    """A timer to insert."""

    job_id: bytes
    due_ms: int
    scheduled_ms: int
    gen: int
    flags: int


class DropTimer(NamedTuple):
    """A timer whose run is resolved."""

    job_id: bytes
    due_ms: int
    scheduled_ms: int
    gen: int


class ClaimWrites:
    """What the decisions want written."""

    def __init__(self) -> None:
        self.rows: list[NewRow] = []
        self.starts: list[Start] = []
        self.leaves: list[Leave] = []
        self.timers: list[NewTimer] = []
        self.dropped: list[DropTimer] = []
        self.slots: list[Slot] = []
        self.completed: list[bytes] = []  # recurring jobs without an occurrence left


OpenRuns = dict[bytes, dict[int, Open]]
"""By job and instant, for jobs with an overlap policy."""


class ClaimDecisions:
    """One batch of claims that are due and ours."""

    def __init__(
        self,
        worker: int | None,
        now_ms: int,
        lease_ms: int | None,
        open_runs: OpenRuns,
        book: SlotBook,
        *,
        queued: bool = False,
    ) -> None:
        """`worker` stands for this incarnation in rows; `open_runs` and `book` are changed.

        `queued`: without worker and lease (None).
        """
        self._worker, self._now_ms, self._lease_ms = worker, now_ms, lease_ms
        self._started_as = RunState.CLAIMED if queued else RunState.DISPATCHED
        self.writes = ClaimWrites()
        self._open, self._book = open_runs, book
        self._changed: dict[tuple[bytes, int], Seen] = {}
        self._over: set[bytes] = set()

    def decide(self, claims: Sequence[Claim], seen: Sequence[Seen]) -> list[Claimed]:
        """An answer per claim, in order; `writes` is what makes them true."""
        answers = [Claimed(ClaimVerdict.UNRESOLVED)] * len(claims)
        for number in sorted(range(len(claims)), key=lambda n: (claims[n].job_id, claims[n].scheduled_ms)):
            claim = claims[number]
            known = self._changed.get((claim.job_id, claim.scheduled_ms), seen[number])
            answers[number] = self._claim(claim, known)
        return answers

    def _claim(self, claim: Claim, seen: Seen) -> Claimed:
        if seen.job_state is None:
            return self._resolved(claim)
        if seen.run_state is not None:
            return self._claim_row(claim, seen)
        return self._claim_first(claim, seen)

    def _resolved(self, claim: Claim) -> Claimed:
        self._drop_timer(claim)
        return Claimed(ClaimVerdict.RESOLVED)

    def _claim_row(self, claim: Claim, seen: Seen) -> Claimed:
        if seen.run_gen != claim.follow_up:
            return self._resolved(claim)
        if seen.run_state in IN_FLIGHT:
            return self._claim_in_flight(claim, seen)
        if seen.run_state == RunState.SCHEDULED:
            return self._claim_waiting(claim, seen)
        return self._resolved(claim)

    def _claim_in_flight(self, claim: Claim, seen: Seen) -> Claimed:
        started = not seen.last or seen.run_state == RunState.RUNNING
        attempt = seen.attempt if started else seen.attempt + 1
        mine = seen.run_fence == claim.fence  # the same claim again, after its answer was lost
        verdict = ClaimVerdict.WON if mine else ClaimVerdict.IN_FLIGHT
        lease_ms = self._now_ms if seen.run_state == RunState.CLAIMED else seen.lease_ms or 0  # queued: look now
        return Claimed(verdict, attempt, seen.lost_count, seen.version, seen.run_fence, lease_ms)

    def _claim_waiting(self, claim: Claim, seen: Seen) -> Claimed:
        if claim.fence <= seen.run_fence:
            return Claimed(ClaimVerdict.UNRESOLVED, version=seen.version, fence=seen.run_fence)
        begun = seen.run_fence > 0
        if claim.action == ClaimAction.SKIP and not begun:
            return self._skip_waiting(claim, seen, claim.reason)
        if claim.overlap != OverlapCode.ALLOW and self._must_wait(claim):
            if claim.overlap == OverlapCode.SKIP and not begun:
                return self._skip_waiting(claim, seen, SkipReason.OVERLAP)
            due_ms = self._leave_waiting(claim, seen, RunState.SCHEDULED, SkipReason.NONE)
            return Claimed(ClaimVerdict.BUFFERED, version=seen.version, lease_ms=due_ms)
        if self._book.room(seen.limits, first=False) is not Room.START:
            return Claimed(ClaimVerdict.LIMITED, version=seen.version)
        attempt, last, counted = _attempt(claim, seen)
        limited = self._take_slots(claim, seen)
        self.writes.starts.append(
            Start(claim.job_id, claim.scheduled_ms, seen.run_gen, claim.fence, counted, last, limited)
        )
        return self._won(claim, seen, attempt, last, counted)

    def _claim_first(self, claim: Claim, seen: Seen) -> Claimed:
        edited = seen.recurring and (seen.job_state != JobState.ACTIVE or seen.version != claim.gen)
        if claim.gen < 0 or seen.job_state in _GONE or edited or (seen.recurring and claim.job_id in self._over):
            return self._resolved(claim)
        open_runs = self._open.get(claim.job_id, {})
        if claim.action == ClaimAction.SKIP:
            answer = self._skip_first(claim, seen, claim.reason)
        elif not open_runs or claim.overlap == OverlapCode.ALLOW:
            room = self._book.room(seen.limits, first=True)
            if room is Room.LATER:  # its chain waits with it
                return Claimed(ClaimVerdict.LIMITED, version=seen.version)
            answer = self._start_or_not(claim, seen, room)
        elif claim.overlap == OverlapCode.SKIP or any(map(_is_buffered, open_runs.values())):
            answer = self._skip_first(claim, seen, SkipReason.OVERLAP)
        else:
            answer = self._buffer_first(claim, seen)
        self._plant_next(claim, seen)
        return answer

    def _start_or_not(self, claim: Claim, seen: Seen, room: Room) -> Claimed:
        if room is Room.START:
            return self._start_first(claim, seen)
        if room is Room.SKIP:
            return self._skip_first(claim, seen, SkipReason.LIMIT)
        counts = self._book.wait((claim.job_id, claim.scheduled_ms), seen.limits)
        self._write_slots(claim, counts, waiting=1)
        return self._buffer_first(claim, seen, limited=1)

    def _take_slots(self, claim: Claim, seen: Seen) -> int:
        """Whether any."""
        counts = self._book.start((claim.job_id, claim.scheduled_ms), seen.limits)
        self._write_slots(claim, counts, waiting=0)
        return int(bool(counts))

    def _write_slots(self, claim: Claim, counts: Sequence[str], *, waiting: int) -> None:
        self.writes.slots += (Slot(claim.job_id, claim.scheduled_ms, count, waiting) for count in counts)

    def _start_first(self, claim: Claim, seen: Seen) -> Claimed:
        attempt, last, counted = _attempt(claim, seen)
        row = self._new_row(claim, seen, self._started_as)._replace(
            fence=claim.fence,
            attempt=counted,
            last=last,
            worker=self._worker,
            claimed_ms=self._now_ms,
            lease_ms=self._lease_ms,
            limited=self._take_slots(claim, seen),
        )
        self.writes.rows.append(row)
        return self._won(claim, seen, attempt, last, counted)

    def _skip_first(self, claim: Claim, seen: Seen, reason: int) -> Claimed:
        self._drop_timer(claim)
        row = self._new_row(claim, seen, RunState.SKIPPED)
        self.writes.rows.append(row._replace(skip_reason=int(reason), finished_ms=self._now_ms))
        self._remember(claim, seen, RunState.SKIPPED)
        return Claimed(ClaimVerdict.SKIPPED, version=seen.version)

    def _buffer_first(self, claim: Claim, seen: Seen, *, limited: int = 0) -> Claimed:
        due_ms = self._now_ms + RECHECK_MS
        self._drop_timer(claim)
        row = self._new_row(claim, seen, RunState.SCHEDULED)
        self.writes.rows.append(row._replace(gen=1, due_ms=due_ms, timer_gen=-1, limited=limited))
        self.writes.timers.append(NewTimer(claim.job_id, due_ms, claim.scheduled_ms, -1, claim.flags))
        self._remember(claim, seen, RunState.SCHEDULED, run_gen=1)
        return Claimed(ClaimVerdict.BUFFERED, version=seen.version, lease_ms=due_ms)

    def _skip_waiting(self, claim: Claim, seen: Seen, reason: int) -> Claimed:
        self._leave_waiting(claim, seen, RunState.SKIPPED, reason)
        return Claimed(ClaimVerdict.SKIPPED, version=seen.version)

    def _leave_waiting(self, claim: Claim, seen: Seen, state: RunState, reason: int) -> int:
        """Skip a waiting run, or let it wait on; the store replaces its timer by the one of its new gen."""
        waits = state is RunState.SCHEDULED
        due_ms, gen = self._now_ms + RECHECK_MS, seen.run_gen + waits
        finished_ms = None if waits else self._now_ms
        self.writes.leaves.append(
            Leave(
                claim.job_id, claim.scheduled_ms, seen.run_gen, int(state), gen, int(reason), due_ms, finished_ms
            )
        )
        self._remember(claim, seen, state, run_gen=gen)
        return due_ms

    def _won(self, claim: Claim, seen: Seen, attempt: int, last: int, counted: int) -> Claimed:
        self._remember(
            claim,
            seen._replace(last=last, attempt=counted, lease_ms=self._lease_ms),
            self._started_as,
            run_gen=claim.follow_up,
            run_fence=claim.fence,
        )
        lease_ms = self._lease_ms or 0
        return Claimed(ClaimVerdict.WON, attempt, seen.lost_count or 0, seen.version, claim.fence, lease_ms)

    def _plant_next(self, claim: Claim, seen: Seen) -> None:
        if not seen.recurring:
            return
        if claim.next_ms >= 0:
            timer = NewTimer(claim.job_id, claim.next_ms, claim.next_ms, seen.version, claim.flags)
            self.writes.timers.append(timer)
        else:
            self._over.add(claim.job_id)
            self.writes.completed.append(claim.job_id)

    def _drop_timer(self, claim: Claim) -> None:
        self.writes.dropped.append(DropTimer(claim.job_id, claim.due_ms, claim.scheduled_ms, claim.gen))

    def _new_row(self, claim: Claim, seen: Seen, state: RunState) -> NewRow:
        """A row of the claim's timer; the rest is the caller's."""
        return NewRow(
            job_id=claim.job_id,
            scheduled_ms=claim.scheduled_ms,
            state=int(state),
            gen=0,
            fence=0,
            attempt=0,
            last=0,
            lane=seen.lane,
            listed=int(bool(seen.recurring)),
            skip_reason=SkipReason.NONE,
            worker=None,
            due_ms=claim.due_ms,
            timer_gen=claim.gen,
            armed_ms=seen.armed_ms,
            claimed_ms=None,
            finished_ms=None,
            lease_ms=None,
            limited=0,
        )

    def _remember(
        self, claim: Claim, seen: Seen, state: RunState, *, run_gen: int = 0, run_fence: int | None = None
    ) -> None:
        """Let the claims after this one in the batch see what it decided."""
        fence = (seen.run_fence or 0) if run_fence is None else run_fence
        self._changed[claim.job_id, claim.scheduled_ms] = seen._replace(
            run_state=state, run_gen=run_gen, run_fence=fence, lost_count=seen.lost_count or 0
        )
        if claim.overlap == OverlapCode.ALLOW:
            return
        open_runs = self._open.setdefault(claim.job_id, {})
        if state is RunState.SKIPPED:
            open_runs.pop(claim.scheduled_ms, None)
        else:
            open_runs[claim.scheduled_ms] = Open(state, fence)

    def _must_wait(self, claim: Claim) -> bool:
        """Whether an earlier run of the job is open, or any other one is under way (after a redrive)."""
        return any(
            scheduled_ms != claim.scheduled_ms and (scheduled_ms < claim.scheduled_ms or run.state in IN_FLIGHT)
            for scheduled_ms, run in self._open.get(claim.job_id, {}).items()
        )


def _attempt(claim: Claim, seen: Seen) -> tuple[int, int, int]:
    """The attempt that a start begins, whether it is the last one, and how many are used up with it."""
    attempt = (seen.attempt or 0) + 1
    last = attempt >= claim.max_attempts
    return attempt, int(last), attempt - last


def _is_buffered(run: Open) -> bool:
    """Waiting for its first start: a retry that waits has had a token."""
    return run.state == RunState.SCHEDULED and run.fence == 0
