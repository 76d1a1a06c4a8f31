"""Records and the audit log: the part of `SqliteStore` that knows no jobs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from tickwheel.adapters.sqlite import audit_log
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.readers import Reader
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.adapters.sqlite.writer import Writer
from tickwheel.ports.audit_entries import record_entry
from tickwheel.ports.clock import Clock
from tickwheel.ports.record_rules import check_put
from tickwheel.ports.registry import Act, AuditEntry, AuditLogPage, AuditLogQuery, Record

SQL: Final = load_statements("registry")
_row: Final = msgspec.json.Decoder(tuple[int, int, str]).decode


class SqliteRegistry:
    """Implements `ports.registry.Registry`."""

    _clock: Clock
    _reader: Reader
    _writer: Writer

    async def put_record(self, record: Record, act: Act, *, expected_version: int | None, shown: str) -> Record:
        return await self._writer.submit(
            lambda session: _put(session, record, act, expected_version, shown, self._clock.now_ms())
        )

    async def delete_record(self, kind: str, tenant_id: str, name: str, act: Act) -> bool:
        key = kind, tenant_id, name
        return await self._writer.submit(lambda session: _delete(session, key, act, self._clock.now_ms()))

    async def records(self, kind: str) -> Sequence[Record]:
        return await self._reader.read(
            lambda session: [Record(*row) for row in session.table(SQL["records"], (kind,))]
        )

    async def records_version(self) -> int:
        return await self._reader.read(_changes)

    async def touch_records(self, kind: str, used_ms: Mapping[str, int]) -> None:
        bindings = {"kind": kind, "used_ms": msgspec.json.encode(used_ms).decode()}
        await self._writer.submit(lambda session: session.run(SQL["touch_records"], bindings))

    async def append_entries(self, entries: Sequence[AuditEntry]) -> None:
        now_ms = self._clock.now_ms()
        timed = [replace(entry, at_ms=entry.at_ms or now_ms) for entry in entries]
        await self._writer.submit(lambda session: audit_log.append(session, timed), len(timed))

    async def audit_log(self, query: AuditLogQuery) -> AuditLogPage:
        return await self._reader.read(partial(audit_log.read_page, query=query), snapshot=True)

    async def trim_audit_log(self, before_ms: int, limit: int) -> int:
        return await self._writer.submit(lambda session: audit_log.trim(session, before_ms, limit), limit)


def _changes(session: Session) -> int:
    changes: int = session.value(SQL["changes"])
    return changes


def _put(
    session: Session, record: Record, act: Act, expected_version: int | None, shown: str, now_ms: int
) -> Record:
    key = record.kind, record.tenant_id, record.name
    found = session.value(SQL["record"], key)
    version, used_ms, before = (0, 0, None) if found is None else _row(found)
    check_put(record, version or None, expected_version)
    stored = replace(record, version=version + 1, updated_ms=now_ms, used_ms=max(used_ms, record.used_ms))
    values = stored.body, shown, stored.version, stored.updated_ms, stored.used_ms
    session.run(SQL["put_record"], (*key, *values))
    _note(session, act, key, before, shown, now_ms)
    return stored


def _delete(session: Session, key: tuple[str, str, str], act: Act, now_ms: int) -> bool:
    found = session.value(SQL["record"], key)
    if found is None:
        return False
    session.run(SQL["delete_record"], key)
    _note(session, act, key, _row(found)[2], None, now_ms)
    return True


def _note(
    session: Session, act: Act, key: tuple[str, str, str], before: str | None, after: str | None, now_ms: int
) -> None:
    session.run(SQL["note_change"])
    audit_log.append(session, [record_entry(act, *key, before, after, now_ms)])
