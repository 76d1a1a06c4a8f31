"""A registry of records in memory, for tests of the services that keep records."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tickwheel.domain.errors import Conflict, NotFound, StoreUnavailable, VersionMismatch
from tickwheel.ports.registry import Act, AuditEntry, AuditLogPage, AuditLogQuery, Record


class MemoryRegistry:
    """Implements `ports.registry.Registry`; `away` makes every verb fail, `reads` counts those of records."""

    def __init__(self) -> None:
        self.away = False
        self.reads = 0
        self.entries: list[AuditEntry] = []
        self._records: dict[tuple[str, str, str], Record] = {}
        self._version = 0

    async def put_record(self, record: Record, act: Act, *, expected_version: int | None, shown: str) -> Record:
        self._check()
        key = record.kind, record.tenant_id, record.name
        known = self._records.get(key)
        if expected_version == 0 and known is not None:
            raise Conflict(f"there is a {record.kind} of that name")
        if expected_version:
            if known is None:
                raise NotFound(f"there is no {record.kind} of that name")
            if known.version != expected_version:
                raise VersionMismatch(f"it is at version {known.version}")
        self._version += 1
        stored = replace(record, version=1 if known is None else known.version + 1)
        self._records[key] = stored
        self._enter(act, record.tenant_id, record.name, None if known is None else "{}", shown)
        return stored

    async def delete_record(self, kind: str, tenant_id: str, name: str, act: Act) -> bool:
        self._check()
        gone = self._records.pop((kind, tenant_id, name), None)
        if gone is not None:
            self._version += 1
            self._enter(act, tenant_id, name, "{}", None)
        return gone is not None

    async def records(self, kind: str) -> Sequence[Record]:
        self._check()
        self.reads += 1
        return [record for key, record in sorted(self._records.items()) if key[0] == kind]

    async def records_version(self) -> int:
        self._check()
        return self._version

    async def touch_records(self, kind: str, used_ms: Mapping[str, int]) -> None:
        self._check()
        for key, record in list(self._records.items()):
            if key[0] == kind and key[2] in used_ms:
                self._records[key] = replace(record, used_ms=used_ms[key[2]])

    async def append_entries(self, entries: Sequence[AuditEntry]) -> None:
        self._check()
        self.entries += entries

    async def audit_log(self, query: AuditLogQuery) -> AuditLogPage:
        self._check()
        return AuditLogPage(tuple(reversed(self.entries)), None)

    async def trim_audit_log(self, before_ms: int, limit: int) -> int:
        self._check()
        return 0

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailable("away")

    def _enter(self, act: Act, tenant_id: str, name: str, before: str | None, after: str | None) -> None:
        number = len(self.entries) + 1
        self.entries.append(
            AuditEntry(number, 0, tenant_id, act.actor, act.source, act.action, name, before, after)
        )
