"""Lists of jobs, page by page, never by an unbounded scan.

Each page walks one *source*, an index that gives job ids in the order of the page, looks at the few facts
that filters need, and reads whole jobs only for what it returns. Sources from the most to the least
selective: a tag; a rare status (failed, paused, cancelled …) or what is in flight; a name prefix that few
jobs have; all jobs of the tenant, newest first; for the DUE order the waiting timers. A page looks at
`BUDGET` candidates at most, so it may be short, or empty, and still have a cursor: the place where it stopped
looking. Long payloads make it short too: a thousand of them would stall the event loop that writes them out.

The cursor is the sort key of the last job seen (id, or due time and id). Keys never change in the CREATED
order, so inserts and deletes between two pages neither repeat nor hide a job.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import apsw
import msgspec

from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.cursors import read_cursor, write_cursor
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.adapters.sqlite.views import read_views
from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState
from tickwheel.ports.store import JobOrder, JobPage, JobQuery

SQL: Final = load_statements("lists")
BUDGET: Final = 2_000
"""Candidates that one page may look at."""
PAGE_BYTES: Final = 8 * 1_048_576
"""A page of more than one job ends before its payloads are longer than this together."""
CHUNK: Final = 250
SET_LIMIT: Final = 5_000
"""Up to this many candidates an unordered source is sorted in memory; with more, all jobs are walked instead."""

_AFTER_ALL: Final = b"\xff" * 17
_RARE: Final = frozenset({RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED, RunState.PAUSED})
_IN_FLIGHT: Final = frozenset({RunState.CLAIMED, RunState.DISPATCHED, RunState.RUNNING})

Key: TypeAlias = tuple[Any, ...]
Candidates: TypeAlias = Iterator[list[tuple[Key, bytes]]]
"""Chunks of (sort key, job id) in page order."""


class Facts(NamedTuple):
    """What filters look at."""

    job_id: bytes
    tenant_id: str
    name: str
    schedule_type: str
    lane: int
    state: int
    recurring: int
    run_state: int | None  # of a one-off's run at its own instant
    due_ms: int | None
    tags: str | None
    payload_bytes: int


Kept: TypeAlias = list[tuple[Key, Facts]]


def list_jobs(session: Session, query: JobQuery) -> JobPage:
    """See `JobStore.list_jobs`; every combination of filters has a source, so none is refused."""
    order = query.order.value
    if query.order is JobOrder.DUE:
        start = None if query.after is None else read_cursor(order, query.after, (int, bytes))
        candidates = _by_due(session, query, start)
    else:
        start = None if query.after is None else read_cursor(order, query.after, (bytes,))
        candidates = _by_creation(session, query, _AFTER_ALL if start is None else start[0])
    kept, stopped_at = _filter(session, query, candidates)
    count = _how_many_fit(kept, query.limit)
    if count < len(kept):
        kept = kept[:count]
        stopped_at = kept[-1][0]
    views = read_views(session, [facts.job_id for _, facts in kept])
    return JobPage(tuple(views), None if stopped_at is None else write_cursor(order, *stopped_at))


def _how_many_fit(kept: Kept, limit: int) -> int:
    """At most `limit`, at least one of those there are."""
    payload_bytes = 0
    for number, (_, facts) in enumerate(kept[:limit]):
        payload_bytes += facts.payload_bytes
        if number and payload_bytes > PAGE_BYTES:
            return number
    return min(limit, len(kept))


def _filter(session: Session, query: JobQuery, candidates: Candidates) -> tuple[Kept, Key | None]:
    """At least one more than a page of what matches, or all; and where the walk gave up, if it did."""
    kept: Kept = []
    looked_at = 0
    for chunk in candidates:
        facts = _read_facts(session, [job_id for _, job_id in chunk])
        for key, job_id in chunk:
            found = facts.get(job_id)
            if found is not None and _matches(found, query, key):
                kept.append((key, found))
        looked_at += len(chunk)
        if len(kept) > query.limit:
            return kept, None
        if looked_at >= BUDGET:
            return kept, chunk[-1][0]
    return kept, None


def _read_facts(session: Session, job_ids: Sequence[bytes]) -> dict[bytes, Facts]:
    rows = session.table(SQL["facts"], {"wanted": apsw.carray(tuple(job_ids))})
    facts = (Facts(bytes.fromhex(job_id), *values) for job_id, *values in rows)
    return {found.job_id: found for found in facts}


def _matches(facts: Facts, query: JobQuery, key: Key) -> bool:
    due_ms = facts.due_ms
    if query.order is JobOrder.DUE and due_ms != key[0]:
        return False
    if query.due_from_ms is not None and (due_ms is None or due_ms < query.due_from_ms):
        return False
    if query.due_to_ms is not None and (due_ms is None or due_ms >= query.due_to_ms):
        return False
    return (
        facts.tenant_id == query.tenant_id
        and facts.state != JobState.DELETED
        and query.schedule_type in (None, facts.schedule_type)
        and query.lane in (None, facts.lane)
        and (query.name_prefix is None or facts.name.startswith(query.name_prefix))
        and (query.tag is None or query.tag in _tags(facts))
        and (query.status is None or query.status in _status_words(facts))
    )


def _tags(facts: Facts) -> Sequence[str]:
    return msgspec.json.decode(facts.tags, type=list[str]) if facts.tags else ()


def _status_words(facts: Facts) -> tuple[str, ...]:
    """The words that the API shows: a one-off's is its run's state."""
    state = JobState(facts.state)
    if not facts.recurring and facts.run_state is not None:
        return (RunState(facts.run_state).name,)
    word = RunState.SCHEDULED.name if state is JobState.ACTIVE else state.name
    return (word, state.name) if facts.recurring else (word,)


def _by_due(session: Session, query: JobQuery, start: Sequence[Any] | None) -> Candidates:
    due_ms, after = ((query.due_from_ms or 0) - 1, _AFTER_ALL) if start is None else (start[0], start[1])
    until_ms = (1 << 62) if query.due_to_ms is None else query.due_to_ms
    while True:
        bindings = {"due_ms": due_ms, "after": after, "until_ms": until_ms, "count": CHUNK}
        rows = session.table(SQL["soonest"], bindings)
        chunk: list[tuple[Key, bytes]] = [((due, bytes.fromhex(j)), bytes.fromhex(j)) for due, j in rows]
        if chunk:
            yield chunk
        if len(chunk) < CHUNK:
            return
        due_ms, after = chunk[-1][0]


def _by_creation(session: Session, query: JobQuery, before: bytes) -> Candidates:
    tenant = {"tenant_id": query.tenant_id}
    if query.tag is not None:
        yield from _walk(session, "newest_with_tag", {**tenant, "tag": query.tag}, before)
        return
    run_state = RunState.__members__.get(query.status or "")
    job_state = JobState.__members__.get(query.status or "")
    if run_state in _RARE or job_state is JobState.COMPLETED:
        states = {
            "job_state": -1 if job_state is None else job_state,
            "run_state": -1 if run_state is None else run_state,
        }
        yield from _walk(session, "newest_in_state", {**tenant, **states}, before)
        return
    known = None
    if run_state in _IN_FLIGHT:
        known = _known(session, "in_flight", {})
    elif query.name_prefix:
        # Code points sort as their UTF-8 bytes do, so this is the first text after all with the prefix.
        bounds = {"name_from": query.name_prefix, "name_to": query.name_prefix + "\U0010ffff"}
        known = _known(session, "named_like", {**tenant, **bounds})
    if known is None:
        yield from _walk(session, "newest", tenant, before)
        return
    ordered = sorted((job_id for job_id in known if job_id < before), reverse=True)
    for start in range(0, len(ordered), CHUNK):
        yield [((job_id,), job_id) for job_id in ordered[start : start + CHUNK]]


def _walk(session: Session, source: str, bindings: dict[str, Any], before: bytes) -> Candidates:
    while True:
        rows = session.table(SQL[source], {**bindings, "before": before, "count": CHUNK})
        chunk: list[tuple[Key, bytes]] = [((bytes.fromhex(j),), bytes.fromhex(j)) for j in rows]
        if chunk:
            yield chunk
        if len(chunk) < CHUNK:
            return
        before = chunk[-1][1]


def _known(session: Session, source: str, bindings: dict[str, Any]) -> set[bytes] | None:
    """All ids of a source that has no order, or None if there are too many."""
    rows = session.table(SQL[source], {**bindings, "count": SET_LIMIT + 1})
    return None if len(rows) > SET_LIMIT else {bytes.fromhex(job_id) for job_id in rows}
