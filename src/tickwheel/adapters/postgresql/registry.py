"""Records and the audit log: the part of `PostgresqlStore` that knows no jobs."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tickwheel.adapters.postgresql import audit_log
from tickwheel.adapters.postgresql.arrays import int8s, texts
from tickwheel.adapters.postgresql.batches import storable
from tickwheel.adapters.postgresql.lines import Lines
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.errors import NotFound
from tickwheel.ports.audit_entries import record_entry
from tickwheel.ports.record_rules import check_put
from tickwheel.ports.registry import Act, AuditEntry, AuditLogPage, AuditLogQuery, Record

SQL: Final = load_statements("registry")
_KEY: Final = ("kind", "tenant_id", "name")


class PostgresqlRegistry:
    """Implements `ports.registry.Registry`.

    Records decide who may do what, so they are never read where reads may be sent elsewhere (`store_reads`).
    """

    _writers: Lines
    _readers: Lines
    _lookups: Lines

    def _pin_ms(self) -> int | None:
        raise NotImplementedError

    async def put_record(self, record: Record, act: Act, *, expected_version: int | None, shown: str) -> Record:
        return await self._writers.submit(
            lambda session: _put(session, record, act, expected_version, shown, self._pin_ms()), writes=True
        )

    async def delete_record(self, kind: str, tenant_id: str, name: str, act: Act) -> bool:
        key = kind, tenant_id, name
        return await self._writers.submit(lambda session: _delete(session, key, act, self._pin_ms()), writes=True)

    async def records(self, kind: str) -> Sequence[Record]:
        return await self._lookups.submit(
            lambda session: [Record(*row) for row in session.rows(SQL["records"], {"kind": kind})]
        )

    async def records_version(self) -> int:
        return await self._lookups.submit(_changes)

    async def touch_records(self, kind: str, used_ms: Mapping[str, int]) -> None:
        names = sorted(used_ms)
        bindings = {
            "kind": kind,
            "names": texts([storable(name) for name in names]),
            "used_ms": int8s([used_ms[name] for name in names]),
        }
        await self._writers.submit(
            lambda session: session.write_count(SQL["touch_records"], bindings), writes=True
        )

    async def append_entries(self, entries: Sequence[AuditEntry]) -> None:
        await self._writers.submit(
            lambda session: audit_log.append_alone(session, entries, self._pin_ms()), writes=True
        )

    async def audit_log(self, query: AuditLogQuery) -> AuditLogPage:
        return await self._readers.submit(lambda session: audit_log.read_page(session, query))

    async def trim_audit_log(self, before_ms: int, limit: int) -> int:
        return await self._writers.submit(lambda session: audit_log.trim(session, before_ms, limit), writes=True)


def _changes(session: Session) -> int:
    rows = session.rows(SQL["changes"])
    return int(rows[0][0]) if rows else 0


def _put(
    session: Session, record: Record, act: Act, expected_version: int | None, shown: str, pin_ms: int | None
) -> Record:
    key = dict(zip(_KEY, _key(record), strict=True))
    with session.transaction():
        session.run(SQL["note_change"])
        [(version, used_ms, before, now_ms)] = session.rows(SQL["record"], {**key, "pin": pin_ms})
        check_put(record, version, expected_version)
        stored = replace(
            record,
            version=(version or 0) + 1,
            updated_ms=now_ms,
            used_ms=max(used_ms or 0, record.used_ms),
        )
        values = {
            "body": stored.body,
            "shown": shown,
            "version": stored.version,
            "updated_ms": stored.updated_ms,
            "used_ms": stored.used_ms,
        }
        [(used_ms,)] = session.rows(SQL["put_record"], {**key, **values})
        audit_log.append(session, [record_entry(act, *_key(record), before, shown, now_ms)])
    return replace(stored, used_ms=used_ms)


def _key(record: Record) -> tuple[str, str, str]:
    return record.kind, record.tenant_id, record.name


def _delete(session: Session, key: tuple[str, str, str], act: Act, pin_ms: int | None) -> bool:
    bindings = dict(zip(_KEY, key, strict=True))
    try:
        with session.transaction():
            session.run(SQL["note_change"])
            [(version, _, before, now_ms)] = session.rows(SQL["record"], {**bindings, "pin": pin_ms})
            if version is None:
                raise NotFound
            session.run(SQL["delete_record"], bindings)
            audit_log.append(session, [record_entry(act, *key, before, None, now_ms)])
    except NotFound:  # nothing is noted as changed
        return False
    return True
