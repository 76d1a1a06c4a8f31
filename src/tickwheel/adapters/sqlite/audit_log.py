"""The audit log: entries are written in the transaction of what they tell of, and read page by page."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tickwheel.adapters.sqlite.codec import pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.ports.audit_log_pages import CHUNK, Candidates, Facts, Source, choose, source_of, start_of
from tickwheel.ports.registry import AuditEntry, AuditLogPage, AuditLogQuery

SQL: Final = load_statements("audit_log")
_UNCOMMON: Final = "action <> 'job.create'"
_CONDITIONS: Final = {
    Source.ALL: "true",
    Source.TENANT: "tenant_id = :tenant_id",
    Source.ACTOR: "actor = :actor",
    Source.SUBJECT: "subject = :subject",
    Source.UNCOMMON: _UNCOMMON,
    Source.UNCOMMON_OF_TENANT: f"tenant_id = :tenant_id AND {_UNCOMMON}",
}
FACTS: Final = {
    source: SQL["facts"].replace("{index}", source.value).replace("{where}", condition)
    for source, condition in _CONDITIONS.items()
}


def append(session: Session, entries: Sequence[AuditEntry]) -> None:
    """Write entries, in the order given."""
    if len(entries) == 1:
        session.run(SQL["insert_entry"], _values(entries[0]))
    elif entries:
        rows: list[tuple[Any, ...]] = []
        texts: list[bytes] = []
        start = 1
        for entry in entries:
            *values, after = _values(entry)
            text = b"" if after is None else after.encode()
            rows.append((*values, None, None) if after is None else (*values, start, len(text)))
            texts.append(text)
            start += len(text)
        session.run(SQL["insert_entries"], {"rows": pack_rows(rows), "after": b"".join(texts)})


def _values(entry: AuditEntry) -> tuple[Any, ...]:
    return (
        entry.at_ms,
        entry.tenant_id,
        entry.actor,
        entry.source,
        entry.action,
        entry.subject,
        entry.before,
        entry.after,
    )


def read_page(session: Session, query: AuditLogQuery) -> AuditLogPage:
    """See `Registry.audit_log`."""
    chosen = choose(query, _candidates(session, query))
    if not chosen.keys:
        return AuditLogPage((), chosen.next_cursor)
    numbers = [number for _, number in chosen.keys]
    rows = session.table(SQL["entries"], {"numbers": msgspec.json.encode(numbers).decode()})
    found = {entry.number: entry for entry in (AuditEntry(*row) for row in rows)}
    return AuditLogPage(tuple(found[number] for number in numbers), chosen.next_cursor)


def _candidates(session: Session, query: AuditLogQuery) -> Candidates:
    statement, (at_ms, number) = FACTS[source_of(query)], start_of(query)
    filters = {"tenant_id": query.tenant_id, "actor": query.actor, "subject": query.subject}
    bounds = {**filters, "from_ms": query.from_ms or 0, "count": CHUNK}
    while True:
        rows = session.table(statement, {**bounds, "at_ms": at_ms, "number": number})
        chunk = [Facts(*row) for row in rows]
        yield chunk
        if len(chunk) < CHUNK:
            return
        at_ms, number = chunk[-1].at_ms, chunk[-1].number


def trim(session: Session, before_ms: int, limit: int) -> int:
    """See `Registry.trim_audit_log`."""
    return session.run(SQL["trim"], (before_ms, limit))
