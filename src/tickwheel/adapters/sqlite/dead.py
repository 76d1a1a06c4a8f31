"""The dead-letter queue and the totals."""

from typing import Final

from tickwheel.adapters.sqlite import audit_log
from tickwheel.adapters.sqlite.codec import read_run
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.ports.audit_entries import dropped_entry
from tickwheel.ports.cursors import bound_kind, read_cursor, write_cursor
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Counts, DeadLetter, DeadLetterPage

SQL: Final = load_statements("lists")
_CURSOR: Final = "dead"


def list_dead(session: Session, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage:
    """See `Ledger.list_dead`."""
    failed_ms, job_id, scheduled_ms = (1 << 62, b"", 0)
    kind = bound_kind(_CURSOR, tenant_id)
    if after is not None:
        failed_ms, job_id, scheduled_ms = read_cursor(kind, after, (int, bytes, int))
    bindings = {
        "tenant_id": tenant_id,
        "failed_ms": failed_ms,
        "job_id": job_id,
        "scheduled_ms": scheduled_ms,
        "limit": limit + 1,
    }
    letters = []
    for *run, name, dead_ms, cause in session.table(SQL["dead_letters"], bindings):
        letters.append(DeadLetter(read_run(run), name, dead_ms, cause))
    letters.sort(key=lambda letter: (-letter.failed_ms, letter.run.job_id, letter.run.scheduled_ms))
    if len(letters) <= limit:
        return DeadLetterPage(tuple(letters), None)
    last = letters[limit - 1]
    cursor = write_cursor(kind, last.failed_ms, last.run.job_id, last.run.scheduled_ms)
    return DeadLetterPage(tuple(letters[:limit]), cursor)


def drop_dead(
    session: Session, tenant_id: str, job_id: bytes, scheduled_ms: int, now_ms: int, act: Act | None = None
) -> bool:
    """See `Ledger.drop_dead`."""
    key = {"tenant_id": tenant_id, "job_id": job_id, "scheduled_ms": scheduled_ms}
    dropped = session.run(SQL["drop_dead"], key) > 0
    if dropped and act is not None:
        audit_log.append(session, [dropped_entry(act, tenant_id, job_id, scheduled_ms, now_ms)])
    return dropped


def read_counts(session: Session) -> Counts:
    """The totals that triggers keep."""
    jobs, waiting, dead_letters = session.value(SQL["totals"])
    return Counts(jobs=jobs, waiting=waiting, dead_letters=dead_letters)


def touch(session: Session) -> None:
    """A write to disk that leaves everything as it was, so that a full or broken disk shows."""
    for step in (1, -1):
        session.run(SQL["touch"], {"step": step})
