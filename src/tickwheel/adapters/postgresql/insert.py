"""Inserts new jobs with their first timers: one statement for a batch of any size, or COPY for many plain ones.

An idempotency key is decided at the first insert that carries it, also within a batch. A key that another
transaction is inserting right now is waited for, a bounded time: then `KeyInFlight`. A job whose id is stored
already was sent again because its answer was lost: it counts as a replay.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import psycopg

from tickwheel.adapters.postgresql import audit_log
from tickwheel.adapters.postgresql.arrays import byteas, int2s, int4s, int8s, texts, uuids_of
from tickwheel.adapters.postgresql.batches import NONE, Bindings, home_of
from tickwheel.adapters.postgresql.copy_in import COPY_JOBS_FROM, copy_jobs
from tickwheel.adapters.postgresql.leaves import Needs, with_leaves
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.errors import KeyInFlight
from tickwheel.domain.ids import shard_of
from tickwheel.domain.job import encode_spec
from tickwheel.ports.alike import is_plain
from tickwheel.ports.audit_entries import Call
from tickwheel.ports.keys import Key, KeyHolder
from tickwheel.ports.store import Inserted, InsertStatus, NewJob

SQL: Final = load_statements("insert")
_LOCK_NOT_AVAILABLE: Final = "55P03"
_ANSWER: Final = b"SELECT job_id FROM j"


def _telling(entries: bytes) -> bytes:
    """`insert_jobs` with entries of the audit log."""
    return SQL["insert_jobs"].removesuffix(_ANSWER) + b", e AS (" + entries + b")\n" + _ANSWER


INSERT_TELLING: Final = _telling(audit_log.SQL["created_entries"])
INSERT_TELLING_EACH: Final = _telling(audit_log.SQL["created_each"])
_NOTHING_TOLD: Final[Bindings] = {}


def insert_jobs(
    session: Session, jobs: Sequence[NewJob], pin_ms: int | None = None, calls: Sequence[Call] = ()
) -> list[Inserted]:
    """One answer per job, in order; `calls` are those that the jobs came in, with their acts."""
    if all(act is None for act, _ in calls):
        calls = ()
    if len(jobs) >= COPY_JOBS_FROM and all(map(is_plain, jobs)):
        try:
            with_leaves(
                session,
                partial(copy_jobs, session, jobs, pin_ms, calls),
                partial(_needs, session, jobs, pin_ms),
                pin_ms,
            )
        except psycopg.errors.UniqueViolation:  # nothing is written
            session.committing = False
        else:
            return [_created(new) for new in jobs]
    first_of = _first_of_keys(jobs)
    fresh = [number for number, new in enumerate(jobs) if first_of.get(_key(new), number) == number]
    fresh = list({jobs[number].job.job_id: number for number in reversed(fresh)}.values())[::-1]
    written = write_jobs(session, [jobs[number] for number in fresh], pin_ms, *_told(jobs, calls, fresh))
    lost = [_key(new) for new in jobs if _key(new) is not None and new.job.job_id not in written]
    holders = _stored_holders(session, [key for key in dict.fromkeys(lost) if key is not None])
    sent = set(fresh)
    return [_answer(new, written, holders, number in sent) for number, new in enumerate(jobs)]


def _told(jobs: Sequence[NewJob], calls: Sequence[Call], sent: Sequence[int]) -> tuple[bytes, Bindings]:
    """The statement that inserts jobs and tells of them, and what it needs to tell."""
    if not calls:
        return SQL["insert_jobs"], {}
    each = audit_log.each_bindings(jobs, calls, sent)
    if each is not None:
        return INSERT_TELLING_EACH, each
    return INSERT_TELLING, audit_log.draft_bindings(jobs, calls, sent)


def write_jobs(
    session: Session,
    jobs: Sequence[NewJob],
    pin_ms: int | None = None,
    statement: bytes = SQL["insert_jobs"],
    told: Bindings = _NOTHING_TOLD,
) -> set[bytes]:
    """Write definitions, keys, first timers, names and tags, in one transaction; gives the ids written.

    `statement` and `told` are those of `_told`: what the audit log says of them.
    """
    if not jobs:
        return set()
    bindings = new_job_bindings(jobs, pin_ms) | told
    try:
        rows = with_leaves(
            session,
            lambda: session.write(statement, bindings),
            lambda: _needs(session, jobs, pin_ms),
            pin_ms,
        )
    except psycopg.errors.LockNotAvailable as error:
        if any(new.job.idempotency_key is not None for new in jobs):
            raise KeyInFlight("a request with this idempotency key is still being stored") from error
        raise
    return {job_id.bytes for (job_id,) in rows}


def _needs(session: Session, jobs: Sequence[NewJob], pin_ms: int | None) -> Needs:
    [[now_ms]] = session.rows(b"SELECT coalesce(%s::int8, tickwheel.clock_ms())", (pin_ms,))
    return {
        "jobs": [home_of(new.job.job_id) for new in jobs],
        "timers": [now_ms, *(max(now_ms, new.timer.due_ms) for new in jobs if new.timer is not None)],
    }


def new_job_bindings(jobs: Sequence[NewJob], pin_ms: int | None) -> Bindings:
    """The parameters of `insert_jobs`."""
    ids = [new.job.job_id for new in jobs]
    definitions = [new.job for new in jobs]
    timers = [new.timer for new in jobs]
    return {
        "pin": pin_ms,
        "job_id": uuids_of(ids),
        "home": int4s([home_of(job_id) for job_id in ids]),
        "shard": int2s([shard_of(job_id) for job_id in ids]),
        "lane": int2s([job.lane for job in definitions]),
        "flags": int2s([job.timer_flags for job in definitions]),
        "state": int2s([job.state for job in definitions]),
        "version": int4s([job.version for job in definitions]),
        "created_ms": int8s([job.created_ms for job in definitions]),
        "updated_ms": int8s([job.updated_ms for job in definitions]),
        "effective_ms": int8s([job.effective_ms for job in definitions]),
        "scheduled_ms": int8s([NONE if job.scheduled_ms is None else job.scheduled_ms for job in definitions]),
        "due_ms": int8s([NONE if timer is None else timer.due_ms for timer in timers]),
        "instant_ms": int8s([NONE if timer is None else timer.scheduled_ms for timer in timers]),
        "gen": int4s([0 if timer is None else timer.gen for timer in timers]),
        "named": int2s([job.named for job in definitions]),
        "tenant_id": texts([job.tenant_id for job in definitions]),
        "name": texts([job.name for job in definitions]),
        "schedule_type": texts([job.schedule_type.value for job in definitions]),
        "idempotency_key": texts([job.idempotency_key for job in definitions]),
        "request_hash": byteas([new.request_hash for new in jobs]),
        "spec": texts([encode_spec(job.spec).decode() for job in definitions]),
        "payload": texts([job.payload for job in definitions]),
        "tagged": uuids_of([job.job_id for job in definitions for _ in job.tags]),
        "tags": texts([tag for job in definitions for tag in job.tags]),
    }


def _key(new: NewJob) -> Key | None:
    key = new.job.idempotency_key
    return None if key is None else (new.job.tenant_id, key)


def _first_of_keys(jobs: Sequence[NewJob]) -> dict[Key | None, int]:
    """By key, the first job of the batch that carries it."""
    first: dict[Key | None, int] = {}
    for number, new in enumerate(jobs):
        key = _key(new)
        if key is not None:
            first.setdefault(key, number)
    return first


def _created(new: NewJob) -> Inserted:
    next_ms = None if new.timer is None else new.timer.due_ms
    return Inserted(InsertStatus.CREATED, new.job.job_id, next_ms, new.job.created_ms)


def _answer(new: NewJob, written: set[bytes], holders: dict[Key, KeyHolder], sent: bool) -> Inserted:
    if sent and new.job.job_id in written:
        return _created(new)
    next_ms = None if new.timer is None else new.timer.due_ms
    key = _key(new)
    holder = None if key is None else holders.get(key)
    if holder is None:  # the id is stored already
        return Inserted(InsertStatus.REPLAYED, new.job.job_id, next_ms, new.job.created_ms)
    if holder.request_hash != new.request_hash:
        return Inserted(InsertStatus.KEY_CONFLICT, holder.job_id)
    return Inserted(InsertStatus.REPLAYED, holder.job_id, holder.next_ms, holder.created_ms)


def find_keys(session: Session, keys: Sequence[Key]) -> list[KeyHolder | None]:
    """What is committed under these, in the order given."""
    holders = _stored_holders(session, keys)
    return [holders.get(key) for key in keys]


def _stored_holders(session: Session, keys: Sequence[Key]) -> dict[Key, KeyHolder]:
    if not keys:
        return {}
    bindings = {"tenants": texts([tenant for tenant, _ in keys]), "keys": texts([key for _, key in keys])}
    return {
        keys[row[0] - 1]: KeyHolder(row[1].bytes, *row[2:]) for row in session.rows(SQL["stored_keys"], bindings)
    }
