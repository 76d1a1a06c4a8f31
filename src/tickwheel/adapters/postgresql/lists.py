"""Lists of jobs: an index gives candidates in page order, a filter keeps what matches.

| filter | where candidates come from |
|---|---|
| none, schedule type, lane, status SCHEDULED, SUCCEEDED, SKIPPED | `jobs` by tenant, newest first |
| tag | `job_tags` |
| name prefix | the index over names; all jobs of the tenant where more than `SET_LIMIT` match |
| status PAUSED, CANCELLED, COMPLETED | the index over ended and paused definitions, which one-offs carry too |
| status FAILED | `dead_letters`; a dropped letter's job is found where all jobs of the tenant are few |
| status CLAIMED, DISPATCHED, RUNNING | `leases` and the ledger's last minute, or all jobs where these are few |
| due range, order by due time | `timers`, a few of each shard at a time, from what is unresolved on |

A page looks at `BUDGET` candidates at most, so it may come out short and still have a successor: however odd the
filter, one call never scans a table. (An index over the states of runs would answer some of these at once, and
would cost every completion its HOT update.)
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tickwheel.adapters.postgresql.cursors import read_cursor, write_cursor
from tickwheel.adapters.postgresql.due_order import soonest
from tickwheel.adapters.postgresql.records import FirstKey, cold_statements, job_keys, run_keys, uuid_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.views import find_views, first_timers, snapshot
from tickwheel.domain.columns import FLAG_RECURRING
from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState
from tickwheel.ports.store import JobOrder, JobPage, JobQuery

SQL: Final = cold_statements("lists")
BUDGET: Final = 2_000
"""Candidates that one page may look at."""
PAGE_BYTES: Final = 8 * 1_048_576
"""A page of more than one job ends before its payloads are longer than this together."""
CHUNK: Final = 250
SET_LIMIT: Final = 5_000
"""Up to this many candidates an unordered source is sorted in memory; with more, all jobs are walked instead."""
LATELY_MS: Final = 60_000
"""Attempts older than this have a row in `leases`."""

_AFTER_ALL: Final = b"\xff" * 16
_IN_FLIGHT: Final = frozenset({RunState.CLAIMED, RunState.DISPATCHED, RunState.RUNNING})
_HELD: Final = frozenset({JobState.PAUSED, JobState.CANCELLED, JobState.COMPLETED})

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
    recurring: bool
    run_state: int | None  # of a one-off's run at its own instant
    due_ms: int | None
    tags: Sequence[str]
    payload_bytes: int


Kept: TypeAlias = list[tuple[Key, Facts]]


def list_jobs(session: Session, query: JobQuery, now_ms: int) -> JobPage:
    """See `JobStore.list_jobs`; every combination of filters has a source, so none is refused."""
    order = query.order.value
    by_due = query.order is JobOrder.DUE
    start = None if query.after is None else read_cursor(order, query.after, (int, bytes) if by_due else (bytes,))
    with snapshot(session):
        if by_due:
            candidates: Candidates = soonest(session, SQL, query, start)
        else:
            candidates = _by_creation(session, query, _AFTER_ALL if start is None else start[0], now_ms)
        kept, stopped_at = _filter(session, query, candidates)
        count = _how_many_fit(kept, query.limit)
        if count < len(kept):
            kept = kept[:count]
            stopped_at = kept[-1][0]
        found = find_views(session, [facts.job_id for _, facts in kept])
    return JobPage(
        tuple(one.view for one in found), None if stopped_at is None else write_cursor(order, *stopped_at)
    )


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
        and (query.tag is None or query.tag in facts.tags)
        and (query.status is None or query.status in _status_words(facts))
    )


def _status_words(facts: Facts) -> tuple[str, ...]:
    """The words that the API shows: a one-off's is its run's state."""
    state = JobState(facts.state)
    if not facts.recurring and facts.run_state is not None:
        return (RunState(facts.run_state).name,)
    word = RunState.SCHEDULED.name if state is JobState.ACTIVE else state.name
    return (word, state.name) if facts.recurring else (word,)


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
    ordered = sorted((job_id for job_id in known if job_id < before), reverse=True)
    for start in range(0, len(ordered), CHUNK):
        yield [((job_id,), job_id) for job_id in ordered[start : start + CHUNK]]


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
