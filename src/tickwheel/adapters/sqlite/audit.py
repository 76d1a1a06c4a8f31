"""The standing check; see `ports.audit`."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.ports.audit import EXAMPLE_COUNT, OVERDUE_MS, AuditPiece, Standing

SQL: Final = load_statements("audit")
_FIRST: Final = -(1 << 62)


def audit_jobs(session: Session, after: str, limit: int, now_ms: int) -> AuditPiece:
    """See `Audited.audit_jobs`."""
    bindings = {"now_ms": now_ms, "overdue_ms": now_ms - OVERDUE_MS, "after": bytes.fromhex(after), "limit": limit}
    rows = session.table(SQL["jobs"], bindings)
    return _piece(rows, rows[-1][0] if len(rows) == limit else None)


def audit_runs(session: Session, after: str, limit: int, now_ms: int, open_only: bool) -> AuditPiece:
    """See `Audited.audit_runs`."""
    job_id, _, instant = after.partition(":")
    bindings = {
        "now_ms": now_ms,
        "overdue_ms": now_ms - OVERDUE_MS,
        "job_id": bytes.fromhex(job_id),
        "scheduled_ms": int(instant or _FIRST),
        "limit": limit,
    }
    rows = session.table(SQL["open_runs" if open_only else "runs"], bindings)
    return _piece(rows, f"{rows[-1][0]}:{rows[-1][1]}" if len(rows) == limit else None)


def audit_slots(session: Session) -> int:
    """See `Audited.audit_slots`."""
    return int(session.value(SQL["slots_astray"]))


def _piece(rows: Sequence[Any], after: str | None) -> AuditPiece:
    lost = tuple((bytes.fromhex(row[0]), row[1]) for row in rows if row[2] == Standing.UNACCOUNTED)
    return AuditPiece(Counter(Standing(row[2]) for row in rows), lost[:EXAMPLE_COUNT], after)
