"""Lists of jobs: an index gives candidates in page order, a filter keeps what matches (see `ports.job_lists`).

| filter | where candidates come from |
|---|---|
| none, schedule type, lane, status SCHEDULED, SUCCEEDED, SKIPPED | `jobs` by tenant, newest first |
| tag | `job_tags` |
| name prefix | the index over names; all jobs of the tenant where more than `SET_LIMIT` match |
| status PAUSED, CANCELLED, COMPLETED | the index over ended and paused definitions, which one-offs carry too |
| status FAILED | `dead_letters`; a dropped letter's job is found where all jobs of the tenant are few |
| status CLAIMED, DISPATCHED, RUNNING | `leases` and the ledger's last minute, or all jobs where these are few |
| due range, order by due time | `timers`, a few of each shard at a time, from what is unresolved on |

However odd the filter, one call never scans a table. (An index over the states of runs would answer some of these
at once, and would cost every completion its HOT update.)
"""

from collections.abc import Sequence
from typing import Any, Final

from tickwheel.adapters.postgresql.arrays import texts
from tickwheel.adapters.postgresql.due_order import soonest
from tickwheel.adapters.postgresql.records import FirstKey, cold_statements, job_keys, run_keys, uuid_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.slots import SQL as SLOTS_SQL
from tickwheel.adapters.postgresql.views import find_views, first_timers, snapshot
from tickwheel.domain.columns import FLAG_RECURRING
from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState
from tickwheel.ports.job_lists import (
    BUDGET,
    CHUNK,
    SET_LIMIT,
    Candidates,
    Facts,
    Key,
    choose,
    newest_first,
    read_start,
)
from tickwheel.ports.store import JobOrder, JobPage, JobQuery

SQL: Final = cold_statements("lists")
LATELY_MS: Final = 60_000
"""Attempts older than this have a row in `leases`."""

_AFTER_ALL: Final = b"\xff" * 16
_IN_FLIGHT: Final = frozenset({RunState.CLAIMED, RunState.DISPATCHED, RunState.RUNNING})
_HELD: Final = frozenset({JobState.PAUSED, JobState.CANCELLED, JobState.COMPLETED})


def list_jobs(session: Session, query: JobQuery, now_ms: int) -> JobPage:
    """See `JobStore.list_jobs`; every combination of filters has a source, so none is refused."""
    start = read_start(query)
    with snapshot(session):
        if query.order is JobOrder.DUE:
            candidates: Candidates = soonest(session, SQL, query, start)
        else:
            candidates = _by_creation(session, query, _AFTER_ALL if start is None else start[0], now_ms)
        chosen = choose(query, candidates, lambda job_ids: _read_facts(session, job_ids))
        found = find_views(session, chosen.job_ids)
    return JobPage(tuple(one.view for one in found), chosen.next_cursor)


def count_jobs(session: Session, tenant_id: str, at_most: int) -> int:
    """See `JobStore.count_jobs`."""
    [(count,)] = session.rows(SQL["count_of_tenant"], {"tenant_id": tenant_id, "count": at_most})
    return int(count)


def count_running(session: Session, counted: str) -> int:
    """See `JobStore.count_running`."""
    [(_, running)] = session.rows(SLOTS_SQL["running"], {"counted": texts([counted])})
    return int(running)


def _read_facts(session: Session, job_ids: Sequence[bytes]) -> dict[bytes, Facts]:
    rows = session.rows(SQL["facts"], job_keys(job_ids)) if job_ids else []
    keys = {row[0].bytes: FirstKey(*row[8:11]) for row in rows}
    timers = first_timers(
        session, {row[0].bytes: (bool(row[6] & FLAG_RECURRING), row[7], keys[row[0].bytes]) for row in rows}
    )
    asked = [(j, live.timer.scheduled_ms) for j, candidates in timers.items() for live in candidates]
    asked += [(job_id, key.instant_ms) for job_id, key in keys.items() if key.instant_ms is not None]
    asked = list(dict.fromkeys(asked))
    states = {}
    if asked:
        found = session.rows(SQL["states_by_key"], run_keys(asked))
        states = {(job_id.bytes, instant): state for job_id, instant, state in found}
    facts = {}
    for row in rows:
        job_id = row[0].bytes
        instant = keys[job_id].instant_ms
        live = [one for one in timers.get(job_id, ()) if (job_id, one.timer.scheduled_ms) not in states]
        facts[job_id] = Facts(
            job_id=job_id,
            tenant_id=row[1],
            name=row[2],
            schedule_type=row[3],
            lane=row[4],
            state=row[5],
            recurring=bool(row[6] & FLAG_RECURRING),
            run_state=None if instant is None else states.get((job_id, instant)),
            due_ms=live[0].timer.due_ms if live else None,
            tags=row[11] or (),
            payload_bytes=row[12],
        )
    return facts


def _by_creation(session: Session, query: JobQuery, before: bytes, now_ms: int) -> Candidates:
    tenant: dict[str, Any] = {"tenant_id": query.tenant_id}
    if query.tag is not None:
        yield from _walk(session, "newest_with_tag", {**tenant, "tag": query.tag}, before)
        return
    known = None
    run_state = RunState.__members__.get(query.status or "")
    job_state = JobState.__members__.get(query.status or "")
    if job_state in _HELD and not query.name_prefix and not _are_few(session, tenant):
        yield from _walk(session, "newest_held", {**tenant, "state": int(job_state)}, before)
        return
    if query.name_prefix:
        # Code points sort as their UTF-8 bytes do, so this is the first text after all with the prefix.
        bounds = {"name_from": query.name_prefix, "name_to": query.name_prefix + "\U0010ffff"}
        known = _known(session, ["named_like"], {**tenant, **bounds})
    elif (run_state in _IN_FLIGHT or run_state is RunState.FAILED) and not _are_few(session, tenant):
        if run_state is RunState.FAILED:
            known = _known(session, ["dead_jobs"], tenant)
        else:
            lately = {"from_ms": now_ms - LATELY_MS, "to_ms": now_ms}
            known = _known(session, ["leased_jobs", "started_lately"], lately)
    if known is None:
        yield from _walk(session, "newest", tenant, before)
        return
    yield from newest_first(known, before)


def _are_few(session: Session, tenant: dict[str, Any]) -> bool:
    """Whether one page may look at all jobs of the tenant."""
    bindings = {**tenant, "before": uuid_of(_AFTER_ALL), "count": BUDGET + 1}
    return len(session.rows(SQL["newest"], bindings)) <= BUDGET


def _walk(session: Session, source: str, bindings: dict[str, Any], before: bytes) -> Candidates:
    while True:
        rows = session.rows(SQL[source], {**bindings, "before": uuid_of(before), "count": CHUNK})
        chunk: list[tuple[Key, bytes]] = [((job_id.bytes,), job_id.bytes) for (job_id,) in rows]
        if chunk:
            yield chunk
        if len(chunk) < CHUNK:
            return
        before = chunk[-1][1]


def _known(session: Session, sources: Sequence[str], bindings: dict[str, Any]) -> set[bytes] | None:
    """All ids of sources that have no order, or None if there are too many."""
    known: set[bytes] = set()
    for source in sources:
        rows = session.rows(SQL[source], {**bindings, "count": SET_LIMIT + 1})
        if len(rows) > SET_LIMIT:
            return None
        known.update(job_id.bytes for (job_id,) in rows)
    return known
