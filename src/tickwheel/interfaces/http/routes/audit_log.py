"""The audit log: who changed what."""

from collections.abc import Mapping

import msgspec

from tickwheel.interfaces.http.access_bodies import AuditEntryBody, AuditLogBody
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.paging import paging
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.tenants import tenant_filter
from tickwheel.interfaces.http.wire import Answer, Refusal, iso_text, ok
from tickwheel.ports.registry import AuditEntry, AuditLogQuery


class AuditLogRoutes:
    """Reading it."""

    def __init__(self, deps: Deps) -> None:
        self._registry = deps.registry

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {("GET", "/v1/audit-log"): self.list}

    async def list(self, call: Call) -> Answer:
        """A page, newest first."""
        if self._registry is None:
            raise Refusal("not_ready", "This node keeps no audit log.")
        query = call.query
        limit, after = paging(query)
        wanted = AuditLogQuery(
            tenant_id=tenant_filter(call),
            limit=limit,
            action=query.text("action"),
            actor=query.text("actor"),
            subject=query.text("subject"),
            from_ms=query.instant("from"),
            to_ms=query.instant("to"),
            after=after,
        )
        query.done()
        page = await self._registry.audit_log(wanted)
        return ok(AuditLogBody([_body(entry) for entry in page.items], page.next_cursor))


def _body(entry: AuditEntry) -> AuditEntryBody:
    return AuditEntryBody(
        entry.number,
        iso_text(entry.at_ms),
        entry.tenant_id,
        entry.actor,
        entry.source,
        entry.action,
        entry.subject,
        _raw(entry.before),
        _raw(entry.after),
    )


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())
