"""The walk over stored specs; see `ports.specs`. It goes leaf by leaf, so it need not sort them together."""

from collections.abc import Sequence
from typing import Final

from tickwheel.adapters.postgresql.arrays import texts
from tickwheel.adapters.postgresql.lines import Lines
from tickwheel.adapters.postgresql.records import home_of, job_keys, uuid_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.ports.specs import SpecChange, SpecPiece, StoredSpec

SQL: Final = load_statements("specs")
_BEFORE_ALL: Final = bytes(16)


class PostgresqlSpecs:
    """Implements `ports.specs.SpecStore`; a part of `PostgresqlStore`."""

    _readers: Lines
    _writers: Lines

    async def specs_with_headers(self, after: bytes, limit: int) -> SpecPiece:
        return await self._readers.submit(lambda session: _piece(session, after, limit))

    async def replace_specs(self, changes: Sequence[SpecChange]) -> int:
        if not changes:
            return 0
        return await self._writers.submit(lambda session: _replace(session, changes), writes=True)


def _piece(session: Session, after: bytes, limit: int) -> SpecPiece:
    last = after or _BEFORE_ALL
    bindings = {"home": home_of(last) if after else -1, "job_id": uuid_of(last), "count": limit}
    rows = session.rows(SQL["piece"], bindings)
    specs = [StoredSpec(tenant_id, job_id.bytes, spec) for _, job_id, tenant_id, spec in rows if spec is not None]
    return SpecPiece(len(rows), specs, rows[-1][1].bytes if len(rows) == limit else None)


def _replace(session: Session, changes: Sequence[SpecChange]) -> int:
    bindings = {
        **job_keys([change.job_id for change in changes]),
        "before": texts([change.before for change in changes]),
        "after": texts([change.after for change in changes]),
    }
    return session.write_count(SQL["replace"], bindings)
