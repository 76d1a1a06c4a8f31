"""The standing check; see `ports.audit`. Reads only, and needs no session of its own.

The plan of a piece names each leaf of three tables. It is made in a tenth of a second and runs in a hundredth;
compiling it would take a minute, which PostgreSQL would do for its many nodes, so compiling is switched off.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from tickwheel.adapters.postgresql.lines import Lines
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.adapters.postgresql.views import snapshot
from tickwheel.ports.audit import EXAMPLE_COUNT, OVERDUE_MS, AuditPiece, Standing

_STATEMENTS: Final = load_statements("audit")
SQL: Final = {
    name: text.replace(b"{judge}", _STATEMENTS["judge"]) for name, text in _STATEMENTS.items() if name != "judge"
}
_FIRST: Final = f"{0:032x}:{-(1 << 62)}"
_FIRST_HOME: Final = f"{0:032x}:-1"


class PostgresqlAudit:
    """Implements `ports.audit.Audited`; the part of `PostgresqlStore` that looks for what is lost."""

    _readers: Lines

    async def audit_jobs(self, after: str, limit: int, now_ms: int) -> AuditPiece:
        return await self._readers.submit(lambda session: audit_jobs(session, after, limit, now_ms))

    async def audit_runs(self, after: str, limit: int, now_ms: int, *, open_only: bool) -> AuditPiece:
        return await self._readers.submit(lambda session: audit_runs(session, after, limit, now_ms, open_only))

    async def audit_slots(self) -> int:
        return await self._readers.submit(audit_slots)

    async def old_leaves(self, before_ms: int) -> Mapping[str, int]:
        """How many leaves of each table ended before that instant and are still there."""
        return await self._readers.submit(lambda session: old_leaves(session, before_ms))


def audit_jobs(session: Session, after: str, limit: int, now_ms: int) -> AuditPiece:
    """See `Audited.audit_jobs`."""
    job_id, _, home = (after or _FIRST_HOME).partition(":")
    bindings = _bindings(limit, now_ms) | {"job_id": UUID(job_id), "home": int(home)}
    return _piece(_rows(session, "jobs", bindings), limit)


def audit_runs(session: Session, after: str, limit: int, now_ms: int, open_only: bool) -> AuditPiece:
    """See `Audited.audit_runs`."""
    job_id, _, instant = (after or _FIRST).partition(":")
    bindings = _bindings(limit, now_ms) | {"job_id": UUID(job_id), "scheduled_ms": int(instant)}
    return _piece(_rows(session, "open_runs" if open_only else "runs", bindings), limit)


def audit_slots(session: Session) -> int:
    """See `Audited.audit_slots`."""
    [[count]] = session.rows(SQL["slots_astray"])
    return int(count)


def old_leaves(session: Session, before_ms: int) -> dict[str, int]:
    """How many leaves of each table ended before that instant and are still there."""
    return dict(session.rows(SQL["old_leaves"], {"before_ms": before_ms}))


def _rows(session: Session, statement: str, bindings: dict[str, Any]) -> list[tuple[Any, ...]]:
    with snapshot(session):
        session.run(b"SET LOCAL jit = off")
        return session.rows(SQL[statement], bindings)


def _bindings(limit: int, now_ms: int) -> dict[str, Any]:
    return {"count": limit, "now_ms": now_ms, "overdue_ms": now_ms - OVERDUE_MS, "examples": EXAMPLE_COUNT}


def _piece(rows: Sequence[tuple[Any, ...]], limit: int) -> AuditPiece:
    """Rows (standing, count, job ids, instants), and one without a standing that says where the piece ends."""
    standings: dict[Standing, int] = {}
    unaccounted: list[tuple[bytes, int]] = []
    after = None
    for standing, count, job_ids, instants in rows:
        if not standing:
            after = f"{job_ids[0].hex}:{count}"
            continue
        standings[Standing(standing)] = count
        if job_ids:
            unaccounted += zip((one.bytes for one in job_ids), instants or [0] * len(job_ids), strict=True)
    return AuditPiece(standings, tuple(unaccounted), after if sum(standings.values()) == limit else None)
