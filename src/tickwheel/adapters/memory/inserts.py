"""Inserts new jobs; an idempotency key is decided at the first insert that carries it, also within a batch."""

from collections.abc import Callable, Sequence

from tickwheel.adapters.memory import audit_log
from tickwheel.adapters.memory.changes import apply_told, insert_job
from tickwheel.adapters.memory.tables import KeyRow, Tables
from tickwheel.adapters.memory.views import job_view
from tickwheel.ports.audit_entries import created_entries, created_entry
from tickwheel.ports.keys import Key, KeyHolder
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Change, Changed, Inserted, InsertStatus, JobView, NewJob


def insert_jobs(tables: Tables, jobs: Sequence[NewJob], now_ms: int, act: Act | None = None) -> list[Inserted]:
    """One answer per job, in order."""
    answers = [_insert(tables, new, now_ms) for new in jobs]
    if act is not None:
        audit_log.append(tables, created_entries(jobs, answers, [(act, len(jobs))], now_ms))
    return answers


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
    act: Act | None = None,
) -> Changed:
    """See `JobStore.put_named`."""
    job_id = tables.named.get((tenant_id, name))
    view = None if job_id is None else job_view(tables, tables.jobs[job_id])
    decision = decide(view, now_ms)
    if isinstance(decision, Change):
        if view is None:
            raise ValueError("there is no job of that name to change")
        return apply_told(tables, view, decision, now_ms, act)
    if view is not None:
        raise ValueError("there is a live job of that name already")
    insert_job(tables, decision, now_ms)
    if act is not None:
        audit_log.append(tables, [created_entry(act, decision.job, now_ms)])
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
