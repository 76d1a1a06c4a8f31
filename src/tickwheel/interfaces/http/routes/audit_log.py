"""The audit log: who changed what."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tickwheel.interfaces.http.access_bodies import AuditEntryBody, AuditLogBody
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.paging import paging
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.tenants import tenant_filter
from tickwheel.interfaces.http.wire import Answer, Refusal, iso_text, ok
from tickwheel.ports.registry import AuditEntry, AuditLogQuery
from tickwheel.services.key_labels import KeyLabels

_KEY: Final = "key:"


class AuditLogRoutes:
    """Reading it."""

    def __init__(self, deps: Deps) -> None:
        self._registry = deps.registry
        self._labels: KeyLabels | None = None
        if deps.registry is not None and deps.api_keys is not None:
            self._labels = KeyLabels(deps.registry, deps.api_keys)

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
            action=_action(query.text("action")),
            actor=query.text("actor"),
            subject=query.text("subject"),
            from_ms=query.instant("from"),
            to_ms=query.instant("to"),
            after=after,
        )
        query.done()
        page = await self._registry.audit_log(wanted)
        labels = await self._labels_of(page.items, call.principal.tenant_id)
        return ok(AuditLogBody([_body(entry, labels) for entry in page.items], page.next_cursor))

    async def _labels_of(self, entries: Sequence[AuditEntry], tenant_id: str | None) -> Mapping[str, str]:
        if self._labels is None:
            return {}
        ids = [entry.actor.removeprefix(_KEY) for entry in entries if entry.actor.startswith(_KEY)]
        return await self._labels.of(ids, tenant_id)


def _action(text: str | None) -> str | None:
    """No action is without a dot, so a word alone is what some begin with."""
    return text if text is None or "." in text else text + "."


def _body(entry: AuditEntry, labels: Mapping[str, str]) -> AuditEntryBody:
    return AuditEntryBody(
        entry.number,
        iso_text(entry.at_ms),
        entry.tenant_id,
        entry.actor,
        labels.get(entry.actor.removeprefix(_KEY)) if entry.actor.startswith(_KEY) else None,
        entry.source,
        entry.action,
        entry.subject,
        _raw(entry.before),
        _raw(entry.after),
    )


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())
