"""Looks into a data folder beside the process that uses it; writes nothing and takes no lock."""

from pathlib import Path

import apsw

from tickwheel.adapters.sqlite import audit, dead, load
from tickwheel.adapters.sqlite.connection import DATABASE_NAME
from tickwheel.adapters.sqlite.errors import translate
from tickwheel.adapters.sqlite.migrate import pending_migrations
from tickwheel.adapters.sqlite.readers import Reader
from tickwheel.domain.errors import ConfigError, FieldProblem
from tickwheel.ports.audit import AuditPiece
from tickwheel.ports.store import ChainPage, Counts


class SqliteAuditReader:
    """Implements `ports.audit.AuditSource`. Raises `ConfigError` when there is no database of this version."""

    def __init__(self, folder: Path) -> None:
        if not (folder / DATABASE_NAME).exists():
            raise ConfigError([FieldProblem("data", f"there is no database in {folder}")])
        if pending_migrations(folder):
            raise ConfigError([FieldProblem("data", f"{folder} is behind this program: run `tickwheel migrate`")])
        try:
            self._reader = Reader(folder / DATABASE_NAME, "sqlite-audit")
        except apsw.Error as error:
            raise translate(error) from error

    async def audit_jobs(self, after: str, limit: int, now_ms: int) -> AuditPiece:
        return await self._reader.read(lambda session: audit.audit_jobs(session, after, limit, now_ms))

    async def audit_runs(self, after: str, limit: int, now_ms: int, *, open_only: bool) -> AuditPiece:
        return await self._reader.read(lambda session: audit.audit_runs(session, after, limit, now_ms, open_only))

    async def audit_slots(self) -> int:
        return await self._reader.read(audit.audit_slots)

    async def broken_chains(self, after: bytes, limit: int) -> ChainPage:
        return await self._reader.read(lambda session: load.broken_chains(session, after, limit), snapshot=True)

    async def counts(self) -> Counts:
        return await self._reader.read(dead.read_counts)

    async def aclose(self) -> None:
        """End the reading thread."""
        self._reader.close()
