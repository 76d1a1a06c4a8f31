"""Reads what the decisions about completions need, and writes what comes out, one statement per kind."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tickwheel.adapters.sqlite.codec import pack_ids, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import Rows
from tickwheel.domain.completion_decisions import CompletionDecisions, CompletionWrites, Row, Words
from tickwheel.domain.ledger_moves import Completion
from tickwheel.ports.store import AttemptNote, Completed

SQL: Final = load_statements("complete")


def complete_carefully(
    session: Session, worker: int, batch: Rows, notes: Mapping[int, AttemptNote], now_ms: int
) -> Completed:
    """Apply what the tokens allow, decided row by row. Every worker but `worker` is gone."""
    ends = [Completion(*values) for values in batch.tolist()]
    decisions = CompletionDecisions(now_ms)
    words = {
        n: Words(note.error, note.excerpt, note.result, note.dropped, note.buries) for n, note in notes.items()
    }
    applied = decisions.decide(ends, _observe(session, worker, ends), words)
    _write(session, decisions.writes)
    return Completed(applied, decisions.follow_ups)


def _observe(session: Session, worker: int, ends: Sequence[Completion]) -> dict[tuple[bytes, int], Row]:
    rows = pack_rows([(end.scheduled_ms,) for end in ends])
    bindings = {"rows": rows, "ids": pack_ids(end.job_id for end in ends), "worker": worker}
    found = session.table(SQL["observe"], bindings)
    return {(ends[n].job_id, ends[n].scheduled_ms): Row(*values) for n, *values in found}


def _write(session: Session, writes: CompletionWrites) -> None:
    """The columns of the statements are the fields of the rows, in their order."""
    batches: list[tuple[str, Sequence[tuple[Any, ...]]]] = [
        ("record_attempts", writes.records),
        ("end_runs", writes.ends),
        ("bury", writes.burials),
        ("note_drops", writes.drops),
        ("wait_again", writes.waits),
        ("record_results", writes.results),
    ]
    for statement, rows in batches:
        if rows:
            batch = {"rows": pack_rows([row[1:] for row in rows]), "ids": pack_ids(row[0] for row in rows)}
            session.run(SQL[statement], batch)
