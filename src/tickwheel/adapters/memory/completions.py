"""Completions: what the holder of a token may still write.

Every move is guarded by token and state of the row as it is now. Example: attempt 7 stalls past its lease, the
reaper moves the run to SCHEDULED, attempt 8 is claimed; 7 wakes up and reports success. Its token is not the
row's any more, so the report is stale, whichever of the two reports comes first.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace

from tickwheel.adapters.memory.tables import LedgerRow, Letter, Tables
from tickwheel.domain.columns import TIMER, Bools, CompletionCause, Rows, empty
from tickwheel.domain.ledger_moves import CAP_REASON, REPEATABLE, UNSTARTED_LIMIT, Completion, instant
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.store import AttemptNote, AttemptRecord, Completed, FirstTimer

_NO_NOTE: Final = AttemptNote(None, None)


class CompletionTransaction:
    """One batch of completions."""

    def __init__(self, tables: Tables, *, now_ms: int) -> None:
        self._tables, self._now_ms = tables, now_ms
        self._follow_ups: list[tuple[int, bytes, int, int, int]] = []

    def complete(self, batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        """Apply what the tokens allow."""
        applied: Bools = np.zeros(len(batch), dtype=np.bool_)
        for number, values in enumerate(batch.tolist()):
            applied[number] = self._complete(Completion(*values), notes.get(number, _NO_NOTE))
        follow_ups = empty(TIMER, len(self._follow_ups))
        for number, timer in enumerate(self._follow_ups):
            follow_ups[number] = timer
        return Completed(applied, follow_ups)

    def _complete(self, end: Completion, note: AttemptNote) -> bool:
        row = self._tables.ledger.get((end.job_id, end.scheduled_ms))
        if row is None or row.run.fence != end.fence:
            return False
        if row.run.state not in IN_FLIGHT:
            return self._is_repeat(row, end)
        if not self._cause_holds(row, end):
            return False
        self._record(row, end, note)
        counted = self._settle_attempt(row, end)
        if end.state != RunState.SCHEDULED:
            self._finish(row, end, RunState(end.state), note.error, note.buries)
            if row.run.state is RunState.SUCCEEDED:
                row.result, row.result_dropped = note.result, note.dropped
        elif counted and row.last and end.hands_back(row.run.state, row.last):
            self._finish(row, end, RunState.FAILED, note.error or CAP_REASON, note.buries)
        else:
            self._wait_again(row, end, note.error)
        return True

    def _is_repeat(self, row: LedgerRow, end: Completion) -> bool:
        """Whether the row shows just what this completion asks for: its first answer was lost."""
        if row.run.state != end.state or row.run.state not in REPEATABLE:
            return False
        if row.run.state is RunState.SCHEDULED:
            if row.run.retry_ms != end.retry_ms:
                return False
            self._tell_follow_up(row)
        return True

    def _cause_holds(self, row: LedgerRow, end: Completion) -> bool:
        run = row.run
        if end.cause == CompletionCause.REAPER and (run.lease_ms or 0) > self._now_ms:
            return False
        if end.cause == CompletionCause.DEAD_OWNER and not self._tables.ownership.is_dead(run.worker):
            return False
        return end.may_move(run.state) and not end.is_outdated(run.attempt)

    def _settle_attempt(self, row: LedgerRow, end: Completion) -> bool:
        """Write how many attempts are used up; True if this one was."""
        number, counted = row.attempt_in_flight, True
        if end.outcome == OutcomeClass.SNOOZE:
            counted = False
        elif end.hands_back(row.run.state, row.last):
            row.unstarted_count += 1
            counted = row.unstarted_count > UNSTARTED_LIMIT
        row.run = replace(row.run, attempt=number if counted else number - 1)
        return counted

    def _record(self, row: LedgerRow, end: Completion, note: AttemptNote) -> None:
        if not end.is_recorded(row.run.state):
            return
        row.attempts.append(
            AttemptRecord(
                attempt=row.attempt_in_flight,
                fence=end.fence,
                worker=row.run.worker or "",
                started_ms=instant(end.started_ms) or row.run.started_ms,
                finished_ms=instant(end.finished_ms) or self._now_ms,
                outcome=OutcomeClass(end.outcome).name.lower(),
                http_status=end.http_status,
                error=note.error,
                excerpt=note.excerpt,
            )
        )

    def _finish(self, row: LedgerRow, end: Completion, state: RunState, error: str | None, buries: bool) -> None:
        run, key = row.run, (end.job_id, end.scheduled_ms)
        finished_ms = instant(end.finished_ms) or self._now_ms
        self._tables.drop_timers_of_run(*key)
        self._tables.put_run(
            row,
            replace(
                run,
                state=state,
                lost_count=end.lost_count,
                started_ms=instant(end.started_ms) or run.started_ms,
                finished_ms=finished_ms,
                lease_ms=None,
                http_status=end.http_status,
                error=error,
            ),
        )
        if state is RunState.FAILED:
            letter = Letter(finished_ms, error or OutcomeClass(end.outcome).name.lower())
            if buries:
                self._tables.bury(row.run, letter)
            else:
                self._tables.note_drop(row.run, letter)

    def _wait_again(self, row: LedgerRow, end: Completion, error: str | None) -> None:
        run = row.run
        self._tables.drop_timers_of_run(end.job_id, end.scheduled_ms)
        self._tables.put_run(
            row,
            replace(
                run,
                state=RunState.SCHEDULED,
                gen=run.gen + 1,
                lost_count=end.lost_count,
                worker=None,
                started_ms=None,
                lease_ms=None,
                beat_ms=None,
                retry_ms=end.retry_ms,
                http_status=end.http_status,
                error=error or run.error,
            ),
        )
        timer = FirstTimer(end.retry_ms, end.scheduled_ms, -row.run.gen)
        self._tables.put_timer(self._tables.jobs[end.job_id], timer, self._now_ms, run.lane)
        self._tell_follow_up(row)

    def _tell_follow_up(self, row: LedgerRow) -> None:
        for key in self._tables.timers_of.get(row.run.job_id, ()):
            if key.scheduled_ms == row.run.scheduled_ms:
                flags = self._tables.timers[key].flags
                self._follow_ups.append((key.due_ms, key.job_id, key.scheduled_ms, key.gen, flags))
