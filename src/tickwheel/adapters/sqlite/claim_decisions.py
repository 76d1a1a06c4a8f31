"""Claims that need a look: retries, skips, overlap rules, and what met another state.

The state of all rows is read in one statement, each row is decided in the order (job, instant) with the
effect of the decisions before it, and what they write goes out in one statement per kind. The order of the
guards is that of the reference: the ledger row decides first, then the job.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import apsw

from tickwheel.adapters.sqlite.codec import pack_ids, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import CLAIMED, ClaimAction, ClaimVerdict, OverlapCode, Rows, empty
from tickwheel.domain.job import JobState
from tickwheel.domain.ledger_moves import RECHECK_MS, Claim, Claimed
from tickwheel.domain.run import IN_FLIGHT, RunState, SkipReason

SQL: Final = load_statements("claim")
_GONE: Final = (JobState.CANCELLED, JobState.DELETED)


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


class Open(NamedTuple):
    """A run of a job that is not terminal."""

    state: int
    fence: int


class Writes:
    """What the decisions want written, by statement."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[bytes, tuple[Any, ...]]]] = {}
        self.completed: list[bytes] = []

    def add(self, statement: str, job_id: bytes, *values: Any) -> None:
        """Queue one row of a batch statement."""
        self._rows.setdefault(statement, []).append((job_id, values))

    def run(self, session: Session, **bindings: Any) -> None:
        """Write everything."""
        for statement, rows in self._rows.items():
            batch = {"rows": pack_rows([values for _, values in rows]), "ids": pack_ids(j for j, _ in rows)}
            session.run(SQL[statement], {**batch, **bindings})
        if self.completed:
            session.run(SQL["complete_jobs"], {"wanted": apsw.carray(tuple(self.completed))})


class Decisions:
    """One batch of claims that are due and ours."""

    def __init__(self, session: Session, worker: int, now_ms: int, lease_ms: int) -> None:
        self._session, self._worker = session, worker
        self._now_ms, self._lease_ms = now_ms, lease_ms
        self._writes = Writes()
        self._open: dict[bytes, dict[int, Open]] = {}
        self._changed: dict[tuple[bytes, int], Seen] = {}
        self._over: set[bytes] = set()

    def claim(self, batch: Rows) -> Rows:
        """CLAIMED rows for CLAIM rows."""
        claims = [Claim(*values) for values in batch.tolist()]
        seen = self._observe(claims)
        self._open = self._read_open({c.job_id for c in claims if c.overlap != OverlapCode.ALLOW})
        answers = empty(CLAIMED, len(claims))
        for number in sorted(range(len(claims)), key=lambda n: (claims[n].job_id, claims[n].scheduled_ms)):
            claim = claims[number]
            key = (claim.job_id, claim.scheduled_ms)
            answers[number] = self._claim(claim, self._changed.get(key, seen[number]))
        self._writes.run(self._session, worker=self._worker, now_ms=self._now_ms, lease_ms=self._lease_ms)
        return answers

    def _observe(self, claims: Sequence[Claim]) -> list[Seen]:
        rows = pack_rows([(c.scheduled_ms, c.due_ms, c.gen) for c in claims])
        bindings = {"rows": rows, "ids": pack_ids(c.job_id for c in claims), "worker": self._worker}
        found = self._session.table(SQL["observe"], bindings)
        seen: list[Seen | None] = [None] * len(claims)
        for number, *values in found:
            seen[number] = Seen(*values)
        return [row for row in seen if row is not None]

    def _read_open(self, job_ids: Iterable[bytes]) -> dict[bytes, dict[int, Open]]:
        wanted, found = tuple(job_ids), dict[bytes, dict[int, Open]]()
        if wanted:
            for job_id, scheduled_ms, state, fence in self._session.table(
                SQL["open_runs"], {"wanted": apsw.carray(wanted)}
            ):
                found.setdefault(bytes.fromhex(job_id), {})[scheduled_ms] = Open(state, fence)
        return found

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
        return Claimed(verdict, attempt, seen.lost_count, seen.version, seen.run_fence, seen.lease_ms or 0)

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
        attempt, last, counted = self._attempt(claim, seen)
        self._writes.add(
            "start_waiting", claim.job_id, claim.scheduled_ms, seen.run_gen, claim.fence, counted, last
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
            answer = self._start_first(claim, seen)
        elif claim.overlap == OverlapCode.SKIP or any(map(_is_buffered, open_runs.values())):
            answer = self._skip_first(claim, seen, SkipReason.OVERLAP)
        else:
            answer = self._buffer_first(claim, seen)
        self._plant_next(claim, seen)
        return answer

    def _start_first(self, claim: Claim, seen: Seen) -> Claimed:
        attempt, last, counted = self._attempt(claim, seen)
        self._insert(
            claim,
            seen,
            state=RunState.DISPATCHED,
            fence=claim.fence,
            attempt=counted,
            last=last,
            worker=self._worker,
            claimed_ms=self._now_ms,
            lease_ms=self._lease_ms,
        )
        return self._won(claim, seen, attempt, last, counted)

    def _skip_first(self, claim: Claim, seen: Seen, reason: int) -> Claimed:
        self._drop_timer(claim)
        self._insert(claim, seen, state=RunState.SKIPPED, skip_reason=reason, finished_ms=self._now_ms)
        self._remember(claim, seen, RunState.SKIPPED)
        return Claimed(ClaimVerdict.SKIPPED, version=seen.version)

    def _buffer_first(self, claim: Claim, seen: Seen) -> Claimed:
        due_ms = self._now_ms + RECHECK_MS
        self._drop_timer(claim)
        self._insert(claim, seen, state=RunState.SCHEDULED, gen=1, due_ms=due_ms, timer_gen=-1)
        self._writes.add("insert_timers", claim.job_id, due_ms, claim.scheduled_ms, -1, claim.flags)
        self._remember(claim, seen, RunState.SCHEDULED, run_gen=1)
        return Claimed(ClaimVerdict.BUFFERED, version=seen.version, lease_ms=due_ms)

    def _skip_waiting(self, claim: Claim, seen: Seen, reason: int) -> Claimed:
        self._leave_waiting(claim, seen, RunState.SKIPPED, reason)
        return Claimed(ClaimVerdict.SKIPPED, version=seen.version)

    def _leave_waiting(self, claim: Claim, seen: Seen, state: RunState, reason: int) -> int:
        """Skip a waiting run, or let it wait on; the table's trigger moves its timer."""
        waits = state is RunState.SCHEDULED
        due_ms, gen = self._now_ms + RECHECK_MS, seen.run_gen + waits
        finished_ms = None if waits else self._now_ms
        self._writes.add(
            "leave_waiting",
            claim.job_id,
            claim.scheduled_ms,
            seen.run_gen,
            state,
            gen,
            reason,
            due_ms,
            finished_ms,
        )
        self._remember(claim, seen, state, run_gen=gen)
        return due_ms

    def _won(self, claim: Claim, seen: Seen, attempt: int, last: int, counted: int) -> Claimed:
        self._remember(
            claim,
            seen._replace(last=last, attempt=counted, lease_ms=self._lease_ms),
            RunState.DISPATCHED,
            run_gen=claim.follow_up,
            run_fence=claim.fence,
        )
        return Claimed(ClaimVerdict.WON, attempt, seen.lost_count or 0, seen.version, claim.fence, self._lease_ms)

    def _attempt(self, claim: Claim, seen: Seen) -> tuple[int, int, int]:
        """The attempt that a start begins, whether it is the last one, and how many are used up with it."""
        attempt = (seen.attempt or 0) + 1
        last = attempt >= claim.max_attempts
        return attempt, int(last), attempt - last

    def _plant_next(self, claim: Claim, seen: Seen) -> None:
        if not seen.recurring:
            return
        if claim.next_ms >= 0:
            self._writes.add(
                "insert_timers", claim.job_id, claim.next_ms, claim.next_ms, seen.version, claim.flags
            )
        else:
            self._over.add(claim.job_id)
            self._writes.completed.append(claim.job_id)

    def _drop_timer(self, claim: Claim) -> None:
        self._writes.add("drop_timers", claim.job_id, claim.due_ms, claim.scheduled_ms, claim.gen)

    def _insert(
        self,
        claim: Claim,
        seen: Seen,
        *,
        state: RunState,
        gen: int = 0,
        fence: int = 0,
        attempt: int = 0,
        last: int = 0,
        skip_reason: int = SkipReason.NONE,
        worker: int | None = None,
        due_ms: int | None = None,
        timer_gen: int | None = None,
        claimed_ms: int | None = None,
        finished_ms: int | None = None,
        lease_ms: int | None = None,
    ) -> None:
        self._writes.add(
            "insert_runs",
            claim.job_id,
            claim.scheduled_ms,
            int(state),
            gen,
            fence,
            attempt,
            last,
            seen.lane,
            int(bool(seen.recurring)),
            int(skip_reason),
            worker,
            claim.due_ms if due_ms is None else due_ms,
            claim.gen if timer_gen is None else timer_gen,
            seen.armed_ms,
            claimed_ms,
            finished_ms,
            lease_ms,
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


def _is_buffered(run: Open) -> bool:
    """Waiting for its first start: a retry that waits has had a token."""
    return run.state == RunState.SCHEDULED and run.fence == 0
