"""Completions that need a look: failures, retries, returns, reaping, and what met another state.

Every move is guarded by token and state of the row. Example: attempt 7 stalls past its lease, the reaper
moves the run to SCHEDULED, attempt 8 is claimed; 7 wakes up and reports success. Its token is not the row's
any more, so the report is stale, whichever of the two comes first. A row that already shows just what a
completion asks for, under its token, counts as applied: the answer to its first sending was lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tickwheel.adapters.sqlite.codec import pack_ids, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import TIMER, Bools, CompletionCause, Rows, empty
from tickwheel.domain.ledger_moves import CAP_REASON, REPEATABLE, UNSTARTED_LIMIT, Completion, instant
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.store import AttemptNote, Completed

SQL: Final = load_statements("complete")
_NO_NOTE: Final = AttemptNote(None, None)


class Row(NamedTuple):
    """The ledger row of a completion, as far as it matters."""

    state: int
    gen: int
    fence: int
    attempt: int
    last: int
    unstarted_count: int
    worker: int | None
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


class Endings:
    """One batch of completions."""

    def __init__(self, session: Session, worker: int, now_ms: int) -> None:
        self._session, self._worker, self._now_ms = session, worker, now_ms
        self._follow_ups: list[tuple[int, bytes, int, int, int]] = []
        self._writes: dict[str, list[tuple[bytes, tuple[Any, ...]]]] = {}

    def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        """Apply what the tokens allow."""
        ends = [Completion(*values) for values in batch.tolist()]
        rows = self._observe(ends)
        applied: Bools = np.zeros(len(ends), dtype=np.bool_)
        for number, end in enumerate(ends):
            key = (end.job_id, end.scheduled_ms)
            row = rows.get(key)
            if row is None or row.fence != end.fence:
                continue
            after = self._complete(end, row, notes.get(number, _NO_NOTE))
            applied[number] = after is not None
            rows[key] = after or row
        self._write()
        follow_ups = empty(TIMER, len(self._follow_ups))
        for number, timer in enumerate(self._follow_ups):
            follow_ups[number] = timer
        return Completed(applied, follow_ups)

    def _observe(self, ends: Sequence[Completion]) -> dict[tuple[bytes, int], Row]:
        rows = pack_rows([(end.scheduled_ms,) for end in ends])
        found = self._session.table(SQL["observe"], {"rows": rows, "ids": pack_ids(e.job_id for e in ends)})
        return {(ends[n].job_id, ends[n].scheduled_ms): Row(*values) for n, *values in found}

    def _write(self) -> None:
        for statement, rows in self._writes.items():
            batch = {"rows": pack_rows([values for _, values in rows]), "ids": pack_ids(j for j, _ in rows)}
            self._session.run(SQL[statement], batch)

    def _add(self, statement: str, end: Completion, *values: Any) -> None:
        self._writes.setdefault(statement, []).append((end.job_id, (end.scheduled_ms, *values)))

    def _complete(self, end: Completion, row: Row, note: AttemptNote) -> Row | None:
        """The row after it, or None when the completion is stale."""
        if row.state not in IN_FLIGHT:
            return row if self._is_repeat(end, row) else None
        if not self._cause_holds(end, row):
            return None
        self._record(end, row, note)
        returned = end.hands_back(row.state, bool(row.last))
        unstarted_count = row.unstarted_count + (returned and end.outcome != OutcomeClass.SNOOZE)
        attempt = row.attempt_in_flight
        counted = end.outcome != OutcomeClass.SNOOZE and (not returned or unstarted_count > UNSTARTED_LIMIT)
        row = row._replace(unstarted_count=unstarted_count, attempt=attempt if counted else attempt - 1)
        if end.state != RunState.SCHEDULED:
            return self._end(end, row, RunState(end.state), note.error)
        if counted and returned and row.last:
            return self._end(end, row, RunState.FAILED, note.error or CAP_REASON)
        return self._wait_again(end, row, note.error)

    def _is_repeat(self, end: Completion, row: Row) -> bool:
        if row.state != end.state or row.state not in REPEATABLE:
            return False
        if row.state == RunState.SCHEDULED:
            if row.due_ms != end.retry_ms:
                return False
            self._follow_ups.append((end.retry_ms, end.job_id, end.scheduled_ms, -row.gen, row.flags))
        return True

    def _cause_holds(self, end: Completion, row: Row) -> bool:
        if end.cause == CompletionCause.REAPER and (row.lease_ms or 0) > self._now_ms:
            return False
        if end.cause == CompletionCause.DEAD_OWNER and row.worker == self._worker:
            return False
        return end.may_move(RunState(row.state))

    def _record(self, end: Completion, row: Row, note: AttemptNote) -> None:
        if not end.is_recorded(row.state):
            return
        self._add(
            "record_attempts",
            end,
            end.fence,
            row.attempt_in_flight,
            row.worker,
            instant(end.started_ms) or row.started_ms,
            instant(end.finished_ms) or self._now_ms,
            end.outcome,
            end.http_status,
            note.error,
            note.excerpt,
        )

    def _end(self, end: Completion, row: Row, state: RunState, error: str | None) -> Row:
        finished_ms = instant(end.finished_ms) or self._now_ms
        self._add(
            "end_runs",
            end,
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
        if state is RunState.FAILED:
            cause = error or OutcomeClass(end.outcome).name.lower()
            self._add("bury", end, row.tenant_id, finished_ms, cause)
        return row._replace(state=state)

    def _wait_again(self, end: Completion, row: Row, error: str | None) -> Row:
        gen = row.gen + 1
        self._add(
            "wait_again",
            end,
            end.fence,
            gen,
            row.attempt,
            row.unstarted_count,
            end.lost_count,
            end.retry_ms,
            end.http_status,
            error or row.error,
        )
        self._follow_ups.append((end.retry_ms, end.job_id, end.scheduled_ms, -gen, row.flags))
        return row._replace(state=RunState.SCHEDULED, gen=gen, due_ms=end.retry_ms)
