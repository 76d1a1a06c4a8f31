"""How a page of the audit log is chosen: what all stores have in common.

**Order.** Entries are walked from the newest to the oldest by (`at_ms`, `number`), and a cursor holds just that.
Neither ever changes, so every entry that was committed when the first page was read is met exactly once, whatever
is written or trimmed meanwhile. Nodes write at once, so numbers may have gaps, and an entry may become visible
after younger ones. Example: the first page shows 12 while 10 is still being committed; the next one begins before
12 and shows 10. What is committed above the cursor is new to this walk: the first page of the next walk has it.
(By the number alone the same would hold, but no walk could begin at an instant.)

**Bound.** A store gives candidates from the index that fits the filters best (`source_of`), in chunks, and this
looks at `BUDGET` of them at most. So a page may come out short, or empty, and still have a cursor.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from tickwheel.ports.cursors import bound_kind, read_cursor, write_cursor
from tickwheel.ports.registry import AuditLogQuery

BUDGET: Final = 2_000
"""Entries that one page may look at."""
CHUNK: Final = 250
PAGE_BYTES: Final = 4 * 1_048_576
"""A page of more than one entry ends before they are longer than this together."""
COMMON_ACTION: Final = "job.create"
"""Nearly all entries have this action; an index holds the others apart."""
_END_MS: Final = 1 << 62

Key: TypeAlias = tuple[int, int]
"""(at_ms, number)."""


class Facts(NamedTuple):
    """What filters look at."""

    at_ms: int
    number: int
    tenant_id: str
    actor: str
    action: str
    subject: str
    size_bytes: int


Candidates: TypeAlias = Iterator[list[Facts]]
"""Chunks of `CHUNK`, newest first; a shorter one is the last."""


class Source(StrEnum):
    """An index that the candidates are read from, all of them by (at_ms, number)."""

    ALL = "all"
    TENANT = "of_tenant"
    SUBJECT = "of_subject"
    ACTOR = "of_actor"
    UNCOMMON = "uncommon"
    UNCOMMON_OF_TENANT = "uncommon_of_tenant"


class Chosen(NamedTuple):
    """The entries of a page in order, and the cursor of what follows."""

    keys: list[Key]
    next_cursor: str | None


def source_of(query: AuditLogQuery) -> Source:
    """Where the fewest entries have to be looked at."""
    bound = query.tenant_id is not None
    if query.subject is not None:
        return Source.SUBJECT
    if query.action is not None and not _is_action(COMMON_ACTION, query.action):
        return Source.UNCOMMON_OF_TENANT if bound else Source.UNCOMMON
    # An actor without a colon is shared by many ("anonymous"): there the tenant says more.
    if query.actor is not None and (not bound or ":" in query.actor):
        return Source.ACTOR
    return Source.TENANT if bound else Source.ALL


def start_of(query: AuditLogQuery) -> Key:
    """The key before which the page begins. Raises `BadCursor`."""
    end = (_END_MS if query.to_ms is None else query.to_ms, 0)
    if query.after is None:
        return end
    at_ms, number = read_cursor(_kind(query), query.after, (int, int))
    return min(end, (at_ms, number))


def choose(query: AuditLogQuery, candidates: Candidates) -> Chosen:
    """What matches, as much as a page holds."""
    keys: list[Key] = []
    last: Key | None = None
    looked_at = size_bytes = 0
    for chunk in candidates:
        for facts in chunk:
            key = facts.at_ms, facts.number
            if query.from_ms is not None and facts.at_ms < query.from_ms:
                return Chosen(keys, None)
            if _matches(facts, query):
                size_bytes += facts.size_bytes
                if keys and (len(keys) == query.limit or size_bytes > PAGE_BYTES):
                    return Chosen(keys, _cursor(query, last))
                keys.append(key)
            last = key
        looked_at += len(chunk)
        if len(chunk) < CHUNK:
            return Chosen(keys, None)
        if looked_at >= BUDGET:
            return Chosen(keys, _cursor(query, last))
    return Chosen(keys, None)


def _cursor(query: AuditLogQuery, key: Key | None) -> str | None:
    return None if key is None else write_cursor(_kind(query), *key)


def _kind(query: AuditLogQuery) -> str:
    filters = query.action, query.actor, query.subject, query.from_ms, query.to_ms
    return bound_kind("audit_log", query.tenant_id or "", query.tenant_id, *filters)


def _matches(facts: Facts, query: AuditLogQuery) -> bool:
    return (
        query.tenant_id in (None, facts.tenant_id)
        and query.actor in (None, facts.actor)
        and query.subject in (None, facts.subject)
        and (query.action is None or _is_action(facts.action, query.action))
    )


def _is_action(action: str, wanted: str) -> bool:
    return action.startswith(wanted) if wanted.endswith(".") else action == wanted
