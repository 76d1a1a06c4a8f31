"""The audit log: a list, sorted when it is asked for."""

from collections.abc import Iterable

from msgspec.structs import replace

from tickwheel.adapters.memory.tables import Tables
from tickwheel.ports.audit_log_pages import (
    CHUNK,
    COMMON_ACTION,
    Candidates,
    Facts,
    Source,
    choose,
    source_of,
    start_of,
)
from tickwheel.ports.registry import AuditEntry, AuditLogPage, AuditLogQuery


def append(tables: Tables, entries: Iterable[AuditEntry]) -> None:
    """Add entries, each with the next number."""
    for entry in entries:
        tables.entry_count += 1
        tables.audit_log[entry.at_ms, tables.entry_count] = replace(entry, number=tables.entry_count)


def read_page(tables: Tables, query: AuditLogQuery) -> AuditLogPage:
    """See `Registry.audit_log`."""
    source, start = source_of(query), start_of(query)
    facts = [
        Facts(
            *key, one.tenant_id, one.actor, one.action, one.subject, len(one.before or "") + len(one.after or "")
        )
        for key, one in sorted(tables.audit_log.items(), key=lambda item: item[0], reverse=True)
        if key < start and _is_in(source, query, one)
    ]
    chosen = choose(query, _chunks(facts))
    return AuditLogPage(tuple(tables.audit_log[key] for key in chosen.keys), chosen.next_cursor)


def _is_in(source: Source, query: AuditLogQuery, entry: AuditEntry) -> bool:
    """Whether an index of a database would lead to the entry."""
    match source:
        case Source.ALL:
            return True
        case Source.TENANT:
            return entry.tenant_id == query.tenant_id
        case Source.ACTOR:
            return entry.actor == query.actor
        case Source.SUBJECT:
            return entry.subject == query.subject
        case Source.UNCOMMON:
            return entry.action != COMMON_ACTION
        case Source.UNCOMMON_OF_TENANT:
            return entry.action != COMMON_ACTION and entry.tenant_id == query.tenant_id


def _chunks(facts: list[Facts]) -> Candidates:
    for at in range(0, len(facts), CHUNK):
        yield facts[at : at + CHUNK]


def trim(tables: Tables, before_ms: int, limit: int) -> int:
    """See `Registry.trim_audit_log`."""
    old = [key for key in sorted(tables.audit_log) if key[0] < before_ms][:limit]
    for key in old:
        del tables.audit_log[key]
    return len(old)
