"""The walk over stored specs; see `ports.specs`."""

from collections.abc import Sequence
from typing import Final

from tickwheel.adapters.sqlite.codec import pack_ids, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.readers import Reader
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.adapters.sqlite.writer import Writer
from tickwheel.ports.specs import SpecChange, SpecPiece, StoredSpec

SQL: Final = load_statements("specs")


class SqliteSpecs:
    """Implements `ports.specs.SpecStore`; a part of `SqliteStore`."""

    _reader: Reader
    _writer: Writer

    async def specs_with_headers(self, after: bytes, limit: int) -> SpecPiece:
        return await self._reader.read(lambda session: _piece(session, after, limit))

    async def replace_specs(self, changes: Sequence[SpecChange]) -> int:
        if not changes:
            return 0
        return await self._writer.submit(lambda session: _replace(session, changes), len(changes))


def _piece(session: Session, after: bytes, limit: int) -> SpecPiece:
    rows = session.table(SQL["piece"], {"after": after, "limit": limit})
    specs = [
        StoredSpec(tenant_id, bytes.fromhex(job_id), spec) for job_id, tenant_id, spec in rows if spec is not None
    ]
    return SpecPiece(len(rows), specs, bytes.fromhex(rows[-1][0]) if len(rows) == limit else None)


def _replace(session: Session, changes: Sequence[SpecChange]) -> int:
    values = {
        "rows": pack_rows([(change.before, change.after) for change in changes]),
        "ids": pack_ids(change.job_id for change in changes),
    }
    return session.run(SQL["replace"], values)
