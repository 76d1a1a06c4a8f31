"""How a page of jobs is chosen from candidates: what stores with indexes have in common.

A store gives *candidates*, job ids in the order of the page from some index, in chunks, and the few *facts* of a
chunk that filters look at; `choose` keeps what matches. It looks at `BUDGET` candidates at most, so a page may
come out short, or empty, and still have a cursor: the place where it stopped looking. Long payloads make it short
too: a thousand of them would stall the event loop that writes them out. Whole jobs are read afterwards, for what
the page returns only.

The cursor is the sort key of the last job seen (id, or due time and id). Keys never change in the CREATED order,
so inserts and deletes between two pages neither repeat nor hide a job.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState
from tickwheel.ports.cursors import bound_kind, read_cursor, write_cursor
from tickwheel.ports.store import JobOrder, JobQuery

BUDGET: Final = 2_000
"""Candidates that one page may look at."""
PAGE_BYTES: Final = 8 * 1_048_576
"""A page of more than one job ends before its payloads are longer than this together."""
CHUNK: Final = 250
SET_LIMIT: Final = 5_000
"""Up to this many candidates an unordered source is sorted in memory; with more, all jobs are walked instead."""

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


class Chosen(NamedTuple):
    """The jobs of a page in order, and the cursor of what follows."""

    job_ids: list[bytes]
    next_cursor: str | None


ReadFacts: TypeAlias = Callable[[list[bytes]], Mapping[bytes, Facts]]
Kept: TypeAlias = list[tuple[Key, Facts]]


def read_start(query: JobQuery) -> list[Any] | None:
    """The sort key after which the page begins; None for the first page. Raises `BadCursor`."""
    if query.after is None:
        return None
    types = (int, bytes) if query.order is JobOrder.DUE else (bytes,)
    return read_cursor(cursor_kind(query), query.after, types)


def cursor_kind(query: JobQuery) -> str:
    """Of the cursors of this list: they belong to the tenant, the order and the filters."""
    times = query.due_from_ms, query.due_to_ms
    words = query.status, query.name_prefix, query.schedule_type, query.lane, query.tag
    return bound_kind(query.order.value, query.tenant_id, *words, *times)


def choose(query: JobQuery, candidates: Candidates, read_facts: ReadFacts) -> Chosen:
    """What matches, as much as a page holds."""
    kept, stopped_at = _filter(query, candidates, read_facts)
    count = _how_many_fit(kept, query.limit)
    if count < len(kept):
        kept = kept[:count]
        stopped_at = kept[-1][0]
    cursor = None if stopped_at is None else write_cursor(cursor_kind(query), *stopped_at)
    return Chosen([facts.job_id for _, facts in kept], cursor)


def newest_first(known: Iterable[bytes], before: bytes) -> Candidates:
    """Candidates from a set of ids: those below `before`, the latest first."""
    ordered = sorted((job_id for job_id in known if job_id < before), reverse=True)
    for start in range(0, len(ordered), CHUNK):
        yield [((job_id,), job_id) for job_id in ordered[start : start + CHUNK]]


def _filter(query: JobQuery, candidates: Candidates, read_facts: ReadFacts) -> tuple[Kept, Key | None]:
    """At least one more than a page of what matches, or all; and where the walk gave up, if it did."""
    kept: Kept = []
    looked_at = 0
    for chunk in candidates:
        facts = read_facts([job_id for _, job_id in chunk])
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


def _how_many_fit(kept: Kept, limit: int) -> int:
    """At most `limit`, at least one of those there are."""
    payload_bytes = 0
    for number, (_, facts) in enumerate(kept[:limit]):
        payload_bytes += facts.payload_bytes
        if number and payload_bytes > PAGE_BYTES:
            return number
    return min(limit, len(kept))


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
