"""Records and the audit log in dictionaries."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tickwheel.adapters.memory import audit_log
from tickwheel.adapters.memory.tables import RecordRow, Tables
from tickwheel.ports.audit_entries import record_entry
from tickwheel.ports.clock import Clock
from tickwheel.ports.record_rules import check_put
from tickwheel.ports.registry import Act, AuditEntry, AuditLogPage, AuditLogQuery, Record


class MemoryRegistry:
    """Implements `ports.registry.Registry`; the part of `MemoryStore` that knows no jobs."""

    _clock: Clock
    _tables: Tables

    async def put_record(self, record: Record, act: Act, *, expected_version: int | None, shown: str) -> Record:
        tables, now_ms = self._tables, self._clock.now_ms()
        key = record.kind, record.tenant_id, record.name
        row = tables.records.get(key)
        check_put(record, None if row is None else row.record.version, expected_version)
        stored = replace(record, version=1, updated_ms=now_ms)
        if row is not None:
            used_ms = max(record.used_ms, row.record.used_ms)
            stored = replace(stored, version=row.record.version + 1, used_ms=used_ms)
        self._changed(act, key, None if row is None else row.shown, shown, now_ms)
        tables.records[key] = RecordRow(stored, shown)
        return stored

    async def delete_record(self, kind: str, tenant_id: str, name: str, act: Act) -> bool:
        row = self._tables.records.pop((kind, tenant_id, name), None)
        if row is None:
            return False
        self._changed(act, (kind, tenant_id, name), row.shown, None, self._clock.now_ms())
        return True

    def _changed(
        self, act: Act, key: tuple[str, str, str], before: str | None, after: str | None, now_ms: int
    ) -> None:
        self._tables.records_version += 1
        audit_log.append(self._tables, [record_entry(act, *key, before, after, now_ms)])

    async def records(self, kind: str) -> Sequence[Record]:
        return [row.record for key, row in sorted(self._tables.records.items(), key=_key) if key[0] == kind]

    async def records_version(self) -> int:
        return self._tables.records_version

    async def touch_records(self, kind: str, used_ms: Mapping[str, int]) -> None:
        for (of_kind, _, name), row in self._tables.records.items():
            if of_kind == kind and name in used_ms:
                row.record = replace(row.record, used_ms=max(row.record.used_ms, used_ms[name]))

    async def append_entries(self, entries: Sequence[AuditEntry]) -> None:
        now_ms = self._clock.now_ms()
        audit_log.append(self._tables, [replace(entry, at_ms=entry.at_ms or now_ms) for entry in entries])

    async def audit_log(self, query: AuditLogQuery) -> AuditLogPage:
        return audit_log.read_page(self._tables, query)

    async def trim_audit_log(self, before_ms: int, limit: int) -> int:
        return audit_log.trim(self._tables, before_ms, limit)


def _key(item: tuple[tuple[str, str, str], RecordRow]) -> tuple[str, str, str]:
    return item[0]
