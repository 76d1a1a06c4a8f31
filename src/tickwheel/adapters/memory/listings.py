"""Lists with cursors: a cursor is the sort key of the last item seen, so inserts never shift a page."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from tickwheel.adapters.memory.tables import Tables
from tickwheel.adapters.memory.views import job_status, job_view
from tickwheel.domain.errors import BadCursor
from tickwheel.domain.job import JobState
from tickwheel.ports.cursors import bound_kind
from tickwheel.ports.job_lists import cursor_kind
from tickwheel.ports.store import (
    DeadLetter,
    DeadLetterPage,
    JobOrder,
    JobPage,
    JobQuery,
    JobView,
    Run,
    RunPage,
)

T = TypeVar("T")
SortKey = tuple[int | bytes, ...]

_RUNS: Final = "runs"
_DEAD: Final = "dead"


def list_jobs(tables: Tables, query: JobQuery) -> JobPage:
    """See `JobStore.list_jobs`; this adapter serves every combination."""
    jobs = [job for job in tables.jobs.values() if job.tenant_id == query.tenant_id]
    views = [job_view(tables, job) for job in jobs if job.state is not JobState.DELETED]
    items = [view for view in views if _matches(view, query)]
    sort_key = _due_key if query.order is JobOrder.DUE else _created_key
    page, cursor = _page(items, sort_key, cursor_kind(query), query.limit, query.after)
    return JobPage(page, cursor)


def count_jobs(tables: Tables, tenant_id: str, at_most: int) -> int:
    """See `JobStore.count_jobs`."""
    states = (job.state for job in tables.jobs.values() if job.tenant_id == tenant_id)
    return sum(1 for _ in islice((state for state in states if state is not JobState.DELETED), at_most))


def list_runs(tables: Tables, tenant_id: str, job_id: bytes, limit: int, after: str | None) -> RunPage:
    """The ledger rows of a job, latest instant first."""
    rows = tables.runs_of.get(job_id, {}).values()
    runs = [row.run for row in rows if row.run.tenant_id == tenant_id]
    kind = bound_kind(_RUNS, tenant_id, job_id)
    return RunPage(*_page(runs, lambda run: (-run.scheduled_ms,), kind, limit, after))


def runs_before(tables: Tables, tenant_id: str, job_id: bytes, instant_ms: int) -> list[Run]:
    """See `ExplainingStore.runs_before`."""
    runs = [row.run for row in tables.runs_of.get(job_id, {}).values() if row.run.scheduled_ms < instant_ms]
    mine = [run for run in runs if run.tenant_id == tenant_id]
    return sorted(mine, key=lambda run: -run.scheduled_ms)


def list_dead(tables: Tables, tenant_id: str, limit: int, after: str | None) -> DeadLetterPage:
    """Dead letters, newest first."""
    letters = []
    for key, letter in tables.dead.items():
        run = tables.ledger[key].run
        if run.tenant_id == tenant_id:
            letters.append(DeadLetter(run, tables.jobs[key[0]].name, letter.failed_ms, letter.cause))
    return DeadLetterPage(*_page(letters, _dead_key, bound_kind(_DEAD, tenant_id), limit, after))


def _created_key(view: JobView) -> SortKey:
    return (-view.job.created_ms, -int.from_bytes(view.job.job_id, "big"))


def _due_key(view: JobView) -> SortKey:
    return (0 if view.live is None else view.live.due_ms, int.from_bytes(view.job.job_id, "big"))


def _dead_key(letter: DeadLetter) -> SortKey:
    run = letter.run
    return (-letter.failed_ms, int.from_bytes(run.job_id, "big"), run.scheduled_ms)


def _matches(view: JobView, query: JobQuery) -> bool:
    job, due_ms = view.job, None if view.live is None else view.live.due_ms
    wants_due = query.order is JobOrder.DUE or query.due_from_ms is not None or query.due_to_ms is not None
    if wants_due and due_ms is None:
        return False
    checks = (
        query.status in (None, job_status(view)) or (job.recurring and query.status == job.state.name),
        query.name_prefix is None or job.name.startswith(query.name_prefix),
        query.schedule_type in (None, job.schedule_type),
        query.lane in (None, job.lane),
        query.tag is None or query.tag in job.tags,
        query.due_from_ms is None or (due_ms is not None and due_ms >= query.due_from_ms),
        query.due_to_ms is None or (due_ms is not None and due_ms < query.due_to_ms),
    )
    return all(checks)


def _page(
    items: Iterable[T], sort_key: Callable[[T], Any], kind: str, limit: int, after: str | None
) -> tuple[tuple[T, ...], str | None]:
    ordered: Sequence[T] = sorted(items, key=sort_key)
    if after is not None:
        seen = _read_cursor(kind, after, ordered, sort_key)
        ordered = [item for item in ordered if sort_key(item) > seen]
    page = tuple(ordered[:limit])
    more = len(ordered) > limit
    return page, _write_cursor(kind, sort_key(page[-1])) if more else None


def _write_cursor(kind: str, key: SortKey) -> str:
    return ".".join((kind, *map(str, key)))


def _read_cursor(kind: str, text: str, ordered: Sequence[T], sort_key: Callable[[T], Any]) -> SortKey:
    found, *parts = text.split(".")
    try:
        key = tuple(int(part) for part in parts)
    except ValueError:
        raise BadCursor(f"{text!r} is not a cursor") from None
    length = len(sort_key(ordered[0])) if ordered else len(key)
    if found != kind or len(key) != length:
        raise BadCursor(f"{text!r} is not a cursor of this list")
    return key
