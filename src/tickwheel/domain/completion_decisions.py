"""Completions that need a look: failures, retries, returns, reaping, and what met another state.

A store reads the ledger rows of a batch under its locks, each end is decided here, in order, with the effect of
the ends before it, and the store writes what comes out, one statement per kind. Every move is guarded by token
and state of the row. Example: attempt 7 stalls past its lease, the reaper moves the run to SCHEDULED, attempt 8 is
claimed; 7 wakes up and reports success. Its token is not the row's any more, so the report is stale, whichever of
the two comes first. A row that already shows just what a completion asks for, under its token, counts as applied:
the answer to its first sending was lost.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import FLAG_RECURRING, TIMER, Bools, CompletionCause, Rows, empty
from tickwheel.domain.ledger_moves import CAP_REASON, REPEATABLE, UNSTARTED_LIMIT, Completion, instant
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import IN_FLIGHT, RunState


class Words(NamedTuple):
    """Error and excerpt of an attempt; or what it returned, or why that was not kept."""

    error: str | None = None
    excerpt: str | None = None
    result: str | None = None
    dropped: str | None = None
    buries: bool = True  # should the run end as FAILED


_NO_WORDS: Final = Words()


class Row(NamedTuple):
    """The ledger row of a completion, as far as it matters."""

    state: int
    gen: int
    fence: int
    attempt: int
    last: int
    unstarted_count: int
    worker: int | None
    worker_dead: bool
    lease_ms: int | None
    due_ms: int | None
    started_ms: int | None
    error: str | None
    flags: int
    tenant_id: str

    @property
    def attempt_in_flight(self) -> int:
        """The number of the attempt in flight: the last allowed one is counted only from RUNNING on."""
        return self.attempt + 1 if self.last and self.state != RunState.RUNNING else self.attempt


class End(NamedTuple):
    """A row that becomes terminal."""

    job_id: bytes
    scheduled_ms: int
    fence: int
    state: int
    attempt: int
    unstarted_count: int
    lost_count: int
    started_ms: int | None
    finished_ms: int
    http_status: int
    error: str | None


class WaitAgain(NamedTuple):
    """A row that waits for its follow-up timer, due at `due_ms` under -`gen`."""

    job_id: bytes
    scheduled_ms: int
    fence: int
    gen: int
    attempt: int
    unstarted_count: int
    lost_count: int
    due_ms: int
    http_status: int
    error: str | None


class Record(NamedTuple):
    """An attempt that gets a record of its own."""

    job_id: bytes
    scheduled_ms: int
    fence: int
    attempt: int
    worker: int | None
    started_ms: int | None
    finished_ms: int
    outcome: int
    http_status: int
    error: str | None
    excerpt: str | None


class Burial(NamedTuple):
    """A run that failed: for the dead-letter queue, or only to be noted."""

    job_id: bytes
    scheduled_ms: int
    tenant_id: str
    failed_ms: int
    cause: str


class Result(NamedTuple):
    """What a handler returned; `result` None: it was not kept, and `dropped` says why."""

    job_id: bytes
    scheduled_ms: int
    result: str | None
    dropped: str | None


class CompletionWrites:
    """What the decisions want written."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.ends: list[End] = []
        self.burials: list[Burial] = []
        self.drops: list[Burial] = []  # of recurring jobs, and kept out of the queue
        self.waits: list[WaitAgain] = []
        self.results: list[Result] = []


class CompletionDecisions:
    """One batch of completions."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._timers: list[tuple[int, bytes, int, int, int]] = []
        self.writes = CompletionWrites()

    def decide(
        self, ends: Sequence[Completion], rows: dict[tuple[bytes, int], Row], words: Mapping[int, Words]
    ) -> Bools:
        """Which ends apply; `rows` (by job and instant) is changed, `words` are by number of the end."""
        applied: Bools = np.zeros(len(ends), dtype=np.bool_)
        for number, end in enumerate(ends):
            key = (end.job_id, end.scheduled_ms)
            row = rows.get(key)
            if row is None or row.fence != end.fence:
                continue
            after = self._complete(end, row, words.get(number, _NO_WORDS))
            applied[number] = after is not None
            rows[key] = after or row
        return applied

    @property
    def follow_ups(self) -> Rows:
        """TIMER rows of the runs that wait again."""
        rows = empty(TIMER, len(self._timers))
        for number, timer in enumerate(self._timers):
            rows[number] = timer
        return rows

    def _complete(self, end: Completion, row: Row, words: Words) -> Row | None:
        """The row after it, or None when the completion is stale."""
        if row.state not in IN_FLIGHT:
            return row if self._is_repeat(end, row) else None
        if not self._cause_holds(end, row):
            return None
        self._record(end, row, words)
        returned = end.hands_back(row.state, bool(row.last))
        unstarted_count = row.unstarted_count + (returned and end.outcome != OutcomeClass.SNOOZE)
        attempt = row.attempt_in_flight
        counted = end.outcome != OutcomeClass.SNOOZE and (not returned or unstarted_count > UNSTARTED_LIMIT)
        row = row._replace(unstarted_count=unstarted_count, attempt=attempt if counted else attempt - 1)
        if end.state != RunState.SCHEDULED:
            return self._end(end, row, RunState(end.state), words)
        if counted and returned and row.last:
            return self._end(end, row, RunState.FAILED, words._replace(error=words.error or CAP_REASON))
        return self._wait_again(end, row, words.error)

    def _is_repeat(self, end: Completion, row: Row) -> bool:
        if row.state != end.state or row.state not in REPEATABLE:
            return False
        if row.state == RunState.SCHEDULED:
            if row.due_ms != end.retry_ms:
                return False
            self._timers.append((end.retry_ms, end.job_id, end.scheduled_ms, -row.gen, row.flags))
        return True

    def _cause_holds(self, end: Completion, row: Row) -> bool:
        if end.cause == CompletionCause.REAPER and (row.lease_ms or 0) > self._now_ms:
            return False
        if end.cause == CompletionCause.DEAD_OWNER and not row.worker_dead:
            return False
        return end.may_move(RunState(row.state)) and not end.is_outdated(row.attempt)

    def _record(self, end: Completion, row: Row, words: Words) -> None:
        if not end.is_recorded(row.state):
            return
        self.writes.records.append(
            Record(
                end.job_id,
                end.scheduled_ms,
                end.fence,
                row.attempt_in_flight,
                row.worker,
                instant(end.started_ms) or row.started_ms,
                instant(end.finished_ms) or self._now_ms,
                end.outcome,
                end.http_status,
                words.error,
                words.excerpt,
            )
        )

    def _end(self, end: Completion, row: Row, state: RunState, words: Words) -> Row:
        error = words.error
        finished_ms = instant(end.finished_ms) or self._now_ms
        self.writes.ends.append(
            End(
                end.job_id,
                end.scheduled_ms,
                end.fence,
                int(state),
                row.attempt,
                row.unstarted_count,
                end.lost_count,
                instant(end.started_ms) or row.started_ms,
                finished_ms,
                end.http_status,
                error,
            )
        )
        if state is RunState.SUCCEEDED and (words.result is not None or words.dropped is not None):
            result = Result(end.job_id, end.scheduled_ms, words.result, words.dropped)
            self.writes.results.append(result)
        if state is RunState.FAILED and (words.buries or row.flags & FLAG_RECURRING):
            cause = error or OutcomeClass(end.outcome).name.lower()
            failed = self.writes.burials if words.buries else self.writes.drops
            failed.append(Burial(end.job_id, end.scheduled_ms, row.tenant_id, finished_ms, cause))
        return row._replace(state=state)

    def _wait_again(self, end: Completion, row: Row, error: str | None) -> Row:
        gen = row.gen + 1
        self.writes.waits.append(
            WaitAgain(
                end.job_id,
                end.scheduled_ms,
                end.fence,
                gen,
                row.attempt,
                row.unstarted_count,
                end.lost_count,
                end.retry_ms,
                end.http_status,
                error or row.error,
            )
        )
        self._timers.append((end.retry_ms, end.job_id, end.scheduled_ms, -gen, row.flags))
        return row._replace(state=RunState.SCHEDULED, gen=gen, due_ms=end.retry_ms)
