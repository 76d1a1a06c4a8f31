"""What a test of the registry works with."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, cast

import msgspec
from msgspec.structs import replace

from tickwheel.ports.registry import API_KEY, Act, AuditEntry, AuditLogQuery, Record, Registry
from tickwheel.ports.store import Store
from tickwheel.testing.virtual_clock import VirtualClock

from ..store.arena import Arena
from ..store.factories import Backend

ACT = Act("key:alice", "job.create", "192.0.2.7")


class RegistryStore(Store, Registry, Protocol):
    """What every store is."""


class Desk:
    """A store, its clock, records and jobs to put in."""

    def __init__(self, backend: Backend, clock: VirtualClock) -> None:
        self.arena, self.clock = Arena(backend, clock), clock

    @property
    def store(self) -> RegistryStore:
        return cast(RegistryStore, self.arena.store)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def put(
        self, name: str, body: str = "{}", *, version: int | None = None, act: Act = ACT, **fields: Any
    ) -> Record:
        """Put a record of a kind, of tenant a unless told otherwise; all of its body is shown."""
        record = Record(**({"kind": API_KEY, "tenant_id": "a", "name": name, "body": body} | fields))
        return await self.store.put_record(record, act, expected_version=version, shown=body)

    async def entries(self, tenant_id: str | None = None, limit: int = 500, **filters: Any) -> list[AuditEntry]:
        """All that match, newest first, read page by page; the same order and no entry twice."""
        query = AuditLogQuery(tenant_id, limit, **filters)
        found: list[AuditEntry] = []
        while True:
            page = await self.store.audit_log(query)
            assert len(page.items) <= limit
            found += page.items
            if page.next_cursor is None:
                break
            query = replace(query, after=page.next_cursor)
        keys = [(entry.at_ms, entry.number) for entry in found]
        assert keys == sorted(set(keys), reverse=True)
        return found

    async def entry(self, **filters: Any) -> AuditEntry:
        """The only one that matches."""
        [entry] = await self.entries(**filters)
        return entry

    async def note(
        self, *actions: str, tenant_id: str = "a", actor: str = "key:alice", subject: str = "s"
    ) -> None:
        """Entries that belong to nothing else, in this order."""
        entries = [AuditEntry(0, self.now_ms, tenant_id, actor, "", action, subject) for action in actions]
        await self.store.append_entries(entries)


def told(text: str | None) -> Any:
    """What an entry says of before or after."""
    assert text is not None
    return msgspec.json.decode(text)


async def gathered(*calls: Any) -> Sequence[Any]:
    """The answers of calls at once, errors among them."""
    return await asyncio.gather(*calls, return_exceptions=True)
