"""Inserts new jobs; an idempotency key is decided at the first insert that carries it, also within a batch."""

from collections.abc import Callable, Sequence

from tickwheel.adapters.memory.changes import apply, insert_job
from tickwheel.adapters.memory.tables import KeyRow, Tables
from tickwheel.adapters.memory.views import job_view
from tickwheel.ports.keys import Key, KeyHolder
from tickwheel.ports.store import Change, Changed, Inserted, InsertStatus, JobView, NewJob


def insert_jobs(tables: Tables, jobs: Sequence[NewJob], now_ms: int) -> list[Inserted]:
    """One answer per job, in order."""
    return [_insert(tables, new, now_ms) for new in jobs]


def find_keys(tables: Tables, keys: Sequence[Key]) -> list[KeyHolder | None]:
    """See `KeyedStore.find_keys`."""
    rows = [tables.keys.get(key) for key in keys]
    return [
        None if row is None else KeyHolder(row.job_id, row.request_hash, row.next_ms, row.created_ms)
        for row in rows
    ]


def put_named(
    tables: Tables,
    tenant_id: str,
    name: str,
    decide: Callable[[JobView | None, int], NewJob | Change],
    now_ms: int,
) -> Changed:
    """See `JobStore.put_named`."""
    job_id = tables.named.get((tenant_id, name))
    job = None if job_id is None else tables.jobs[job_id]
    decision = decide(None if job is None else job_view(tables, job), now_ms)
    if isinstance(decision, Change):
        if job is None:
            raise ValueError("there is no job of that name to change")
        return apply(tables, job, decision, now_ms)
    if job is not None:
        raise ValueError("there is a live job of that name already")
    insert_job(tables, decision, now_ms)
    timers = () if decision.timer is None else (decision.timer,)
    return Changed(job_view(tables, decision.job), timers)


def _insert(tables: Tables, new: NewJob, now_ms: int) -> Inserted:
    job = new.job
    next_ms = None if new.timer is None else new.timer.due_ms
    if job.idempotency_key is not None:
        first = tables.keys.setdefault(
            (job.tenant_id, job.idempotency_key),
            KeyRow(job.job_id, new.request_hash, next_ms, job.created_ms),
        )
        if first.request_hash != new.request_hash:
            return Inserted(InsertStatus.KEY_CONFLICT, first.job_id)
        if first.job_id != job.job_id:
            return Inserted(InsertStatus.REPLAYED, first.job_id, first.next_ms, first.created_ms)
    if job.job_id in tables.jobs:  # the same batch again, after its answer was lost
        return Inserted(InsertStatus.REPLAYED, job.job_id, next_ms, job.created_ms)
    insert_job(tables, new, now_ms)
    return Inserted(InsertStatus.CREATED, job.job_id, next_ms, job.created_ms)
