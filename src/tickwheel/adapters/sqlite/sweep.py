"""Deletes history that is over: a bounded piece each time, dead letters never.

The ledger is walked from its oldest instants, and ended jobs from the oldest change, by positions kept in
memory: rows that have to stay (dead letters, open runs) are not looked at again and again, nor do they hide
what lies behind them. At its end each walk starts over. A job goes with its last run. One that holds an
idempotency key stays a day longer than anything else, so that a late repeat of its request finds it.
"""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from tickwheel.adapters.sqlite.codec import pack_ids, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.ids import DAY_MS
from tickwheel.domain.run import TERMINAL

SQL: Final = load_statements("sweep")
SWEEP_ROWS: Final = 500
WALKS: Final = 10
"""Pieces that one sweep looks at while it finds nothing to delete."""
KEY_LIFE_MS: Final = DAY_MS

_START: Final = (-(1 << 62), b"")


class Sweeper:
    """Keeps the positions of both walks; runs in the writer's thread."""

    def __init__(self) -> None:
        self._runs_at = self._jobs_at = _START

    def sweep(self, session: Session, now_ms: int, retention_ms: int) -> int:
        """Delete up to `SWEEP_ROWS` runs, and jobs that are over; gives rows deleted."""
        cutoff_ms, key_cutoff_ms = now_ms - retention_ms, now_ms - max(retention_ms, KEY_LIFE_MS)
        deleted, touched = self._sweep_runs(session, cutoff_ms, key_cutoff_ms)
        over = self._jobs_over(session, cutoff_ms, key_cutoff_ms)
        return deleted + _delete_jobs(session, list(dict.fromkeys([*touched, *over])))

    def _sweep_runs(self, session: Session, cutoff_ms: int, key_cutoff_ms: int) -> tuple[int, list[bytes]]:
        """Gives how many runs were deleted, and the one-offs among their jobs."""
        for _ in range(WALKS):
            scheduled_ms, job_id = self._runs_at
            bindings = {"scheduled_ms": scheduled_ms, "job_id": job_id, "cutoff_ms": cutoff_ms}
            rows = session.table(SQL["candidates"], {**bindings, "limit": SWEEP_ROWS})
            self._runs_at = _after(rows)
            ended = [row for row in rows if _is_over(row, cutoff_ms, key_cutoff_ms)]
            if ended:
                _delete_runs(session, [(row[0], bytes.fromhex(row[1])) for row in ended])
                return len(ended), [bytes.fromhex(row[1]) for row in ended if not row[4]]
            if self._runs_at == _START:
                break
        return 0, []

    def _jobs_over(self, session: Session, cutoff_ms: int, key_cutoff_ms: int) -> list[bytes]:
        updated_ms, job_id = self._jobs_at
        bindings = {"updated_ms": updated_ms, "job_id": job_id, "cutoff_ms": cutoff_ms}
        rows = session.table(SQL["over"], {**bindings, "key_cutoff_ms": key_cutoff_ms, "limit": SWEEP_ROWS})
        self._jobs_at = _after(rows)
        return [bytes.fromhex(row[1]) for row in rows if row[2]]


def _after(rows: Sequence[Any]) -> tuple[int, bytes]:
    """Where the next piece begins: after a whole piece, else at the start again."""
    if len(rows) < SWEEP_ROWS:
        return _START
    return rows[-1][0], bytes.fromhex(rows[-1][1])


def _is_over(row: Sequence[Any], cutoff_ms: int, key_cutoff_ms: int) -> bool:
    _, _, state, finished_ms, _, keyed, dead = row
    return state in TERMINAL and not dead and (finished_ms or 0) < (key_cutoff_ms if keyed else cutoff_ms)


def _delete_runs(session: Session, keys: Sequence[tuple[int, bytes]]) -> None:
    rows = pack_rows([(scheduled_ms,) for scheduled_ms, _ in keys])
    bindings = {"rows": rows, "ids": pack_ids(job_id for _, job_id in keys)}
    session.run(SQL["delete_runs"], bindings)
    session.run(SQL["delete_attempts"], bindings)
    session.run(SQL["delete_results"], bindings)


def _delete_jobs(session: Session, job_ids: Sequence[bytes]) -> int:
    if not job_ids:
        return 0
    spent = session.table(SQL["spent"], {"wanted": apsw.carray(tuple(job_ids))})
    if not spent:
        return 0
    ids = [bytes.fromhex(row[0]) for row in spent]
    keys = [(j, (row[1], row[2])) for j, row in zip(ids, spent, strict=True) if row[2] is not None]
    tags = [
        (j, (row[1], tag))
        for j, row in zip(ids, spent, strict=True)
        if row[3]
        for tag in msgspec.json.decode(row[3], type=list[str])
    ]
    for statement, rows in (("delete_keys", keys), ("delete_tags", tags)):
        if rows:
            batch = {"rows": pack_rows([values for _, values in rows]), "ids": pack_ids(j for j, _ in rows)}
            session.run(SQL[statement], batch)
    session.run(SQL["delete_jobs"], {"wanted": apsw.carray(tuple(ids))})
    return len(ids)
