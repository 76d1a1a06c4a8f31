"""Lists of jobs, page by page, never by an unbounded scan.

Each page walks one *source*, an index that gives job ids in the order of the page (see `ports.job_lists` for what
becomes of them). Sources from the most to the least selective: a tag; a rare status (failed, paused, cancelled …)
or what is in flight; a name prefix that few jobs have; all jobs of the tenant, newest first; for the DUE order the
waiting timers.
"""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.slots import SQL as SLOTS_SQL
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.adapters.sqlite.views import read_views
from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState
from tickwheel.ports.job_lists import CHUNK, SET_LIMIT, Candidates, Facts, Key, choose, newest_first, read_start
from tickwheel.ports.store import JobOrder, JobPage, JobQuery

SQL: Final = load_statements("lists")
_TAGS: Final = msgspec.json.Decoder(tuple[str, ...])
_AFTER_ALL: Final = b"\xff" * 17
_RARE: Final = frozenset({RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED, RunState.PAUSED})
_IN_FLIGHT: Final = frozenset({RunState.CLAIMED, RunState.DISPATCHED, RunState.RUNNING})


def list_jobs(session: Session, query: JobQuery) -> JobPage:
    """See `JobStore.list_jobs`; every combination of filters has a source, so none is refused."""
    start = read_start(query)
    if query.order is JobOrder.DUE:
        candidates = _by_due(session, query, start)
    else:
        candidates = _by_creation(session, query, _AFTER_ALL if start is None else start[0])
    chosen = choose(query, candidates, lambda job_ids: _read_facts(session, job_ids))
    return JobPage(tuple(read_views(session, chosen.job_ids)), chosen.next_cursor)


def count_jobs(session: Session, tenant_id: str, at_most: int) -> int:
    """See `JobStore.count_jobs`."""
    return int(session.value(SQL["count_of_tenant"], {"tenant_id": tenant_id, "count": at_most}))


def count_running(session: Session, counted: str) -> int:
    """See `JobStore.count_running`."""
    [(_, running)] = session.table(SLOTS_SQL["running"], {"counted": apsw.carray((counted,))})
    return int(running)


def _read_facts(session: Session, job_ids: Sequence[bytes]) -> dict[bytes, Facts]:
    facts = {}
    for job_id, *values in session.table(SQL["facts"], {"wanted": apsw.carray(tuple(job_ids))}):
        tenant_id, name, schedule_type, lane, state, recurring, run_state, due_ms, tags, payload_bytes = values
        found = Facts(
            job_id=bytes.fromhex(job_id),
            tenant_id=tenant_id,
            name=name,
            schedule_type=schedule_type,
            lane=lane,
            state=state,
            recurring=bool(recurring),
            run_state=run_state,
            due_ms=due_ms,
            tags=_TAGS.decode(tags) if tags else (),
            payload_bytes=payload_bytes,
        )
        facts[found.job_id] = found
    return facts


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
    yield from newest_first(known, before)


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
