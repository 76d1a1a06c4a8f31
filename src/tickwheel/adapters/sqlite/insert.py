"""Inserts new jobs with their first timers: a handful of statements for a batch of any size.

An idempotency key is decided at the first insert that carries it, also within a batch. A job whose id is
stored already was sent again because its answer was lost: it counts as a replay.
"""

from collections.abc import Sequence
from typing import Any, Final

import apsw

from tickwheel.adapters.sqlite import audit_log
from tickwheel.adapters.sqlite.alike import write_alike
from tickwheel.adapters.sqlite.codec import job_values, pack_ids, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.job import Job
from tickwheel.ports.alike import alike_stretches
from tickwheel.ports.audit_entries import Call, created_entries
from tickwheel.ports.keys import Key, KeyHolder
from tickwheel.ports.store import Inserted, InsertStatus, NewJob

SQL: Final = load_statements("insert")


def insert_jobs(
    session: Session, jobs: Sequence[NewJob], now_ms: int, calls: Sequence[Call] = ()
) -> list[Inserted]:
    """One answer per job, in order; `calls` are those that the jobs came in, with their acts."""
    keyed = any(new.job.idempotency_key is not None for new in jobs)
    answers = _answer_by_key(session, jobs) if keyed else dict[int, Inserted]()
    fresh = [(number, new) for number, new in enumerate(jobs) if number not in answers]
    _write_keys(session, [new for _, new in fresh])
    try:
        write_jobs(session, [new for _, new in fresh], now_ms)
    except apsw.ConstraintError:
        # The statement undid itself. Ids that are stored already are answered; what is left is tried once more.
        answers.update(_answer_by_id(session, fresh))
        fresh = [(number, new) for number, new in fresh if number not in answers]
        write_jobs(session, [new for _, new in fresh], now_ms)
    for number, new in fresh:
        answers[number] = _answer(InsertStatus.CREATED, new)
    ordered = [answers[number] for number in range(len(jobs))]
    if any(act is not None for act, _ in calls):
        audit_log.append(session, created_entries(jobs, ordered, calls, now_ms))
    return ordered


def _answer(status: InsertStatus, new: NewJob) -> Inserted:
    return Inserted(status, new.job.job_id, _next_ms(new), new.job.created_ms)


def _next_ms(new: NewJob) -> int | None:
    return None if new.timer is None else new.timer.due_ms


def write_jobs(session: Session, jobs: Sequence[NewJob], now_ms: int) -> None:
    """Write definitions, first timers and tags; raises the driver's `ConstraintError` for an id that is stored."""
    stretches = (
        [] if any("\0" in new.job.payload for new in jobs) else alike_stretches(jobs)
    )  # arrays end at a NUL
    if len(stretches) > 1:
        _write_stretches(session, stretches, now_ms)
    elif stretches:
        write_alike(session, jobs, now_ms)
    elif jobs:
        _write_any(session, jobs, now_ms)


def _write_stretches(session: Session, stretches: Sequence[Sequence[NewJob]], now_ms: int) -> None:
    """All of them or, when an id is stored already, none: as one statement does by itself."""
    session.run("SAVEPOINT stretches")
    try:
        for stretch in stretches:
            write_alike(session, stretch, now_ms)
    except apsw.ConstraintError:
        session.run("ROLLBACK TO stretches")
        session.run("RELEASE stretches")
        raise
    session.run("RELEASE stretches")


def _write_any(session: Session, jobs: Sequence[NewJob], now_ms: int) -> None:
    ids = pack_ids(new.job.job_id for new in jobs)
    rows = pack_rows([job_values(new.job, new.timer) for new in jobs])
    session.run(SQL["insert_jobs"], {"rows": rows, "ids": ids})
    session.run(SQL["insert_first_timers"], {"rows": rows, "ids": ids, "now_ms": now_ms})
    write_tags(session, [new.job for new in jobs if new.job.tags])


def write_tags(session: Session, jobs: Sequence[Job]) -> None:
    """Make jobs findable by their tags."""
    tags = [(job.job_id, job.tenant_id, tag) for job in jobs for tag in job.tags]
    if tags:
        rows = pack_rows([(tenant_id, tag) for _, tenant_id, tag in tags])
        session.run(SQL["insert_tags"], {"rows": rows, "ids": pack_ids(job_id for job_id, _, _ in tags)})


def _write_keys(session: Session, jobs: Sequence[NewJob]) -> None:
    keyed = [new for new in jobs if new.job.idempotency_key is not None]
    if not keyed:
        return
    rows: list[tuple[Any, ...]] = [
        (
            new.job.tenant_id,
            new.job.idempotency_key,
            new.request_hash.hex(),
            _next_ms(new),
            new.job.created_ms,
        )
        for new in keyed
    ]
    session.run(SQL["insert_keys"], {"rows": pack_rows(rows), "ids": pack_ids(new.job.job_id for new in keyed)})


def _answer_by_key(session: Session, jobs: Sequence[NewJob]) -> dict[int, Inserted]:
    """Answers for jobs whose key was used before, in the store or earlier in the batch."""
    keyed = [(n, (new.job.tenant_id, new.job.idempotency_key)) for n, new in enumerate(jobs)]
    keyed = [(number, key) for number, key in keyed if key[1] is not None]
    holders = _stored_holders(session, [key for _, key in keyed])
    answers = {}
    for number, key in keyed:
        new = jobs[number]
        holder = holders.get(key)
        if holder is None:
            holders[key] = KeyHolder(new.job.job_id, new.request_hash, _next_ms(new), new.job.created_ms)
        elif holder.request_hash != new.request_hash:
            answers[number] = Inserted(InsertStatus.KEY_CONFLICT, holder.job_id)
        else:
            answers[number] = Inserted(InsertStatus.REPLAYED, holder.job_id, holder.next_ms, holder.created_ms)
    return answers


def _stored_holders(
    session: Session, keys: list[tuple[str, str | None]]
) -> dict[tuple[str, str | None], KeyHolder]:
    found = session.table(SQL["stored_keys"], {"rows": pack_rows(keys)})
    return {
        keys[number]: KeyHolder(bytes.fromhex(job_id), bytes.fromhex(request_hash), next_ms, created_ms)
        for number, job_id, request_hash, next_ms, created_ms in found
    }


def find_keys(session: Session, keys: Sequence[Key]) -> list[KeyHolder | None]:
    """See `KeyedStore.find_keys`."""
    holders = _stored_holders(session, list(keys))
    return [holders.get(key) for key in keys]


def _answer_by_id(session: Session, jobs: Sequence[tuple[int, NewJob]]) -> dict[int, Inserted]:
    """Answers for jobs whose id is stored already, or came earlier in the batch."""
    wanted = apsw.carray(tuple(new.job.job_id for _, new in jobs))
    seen = {bytes.fromhex(job_id) for job_id in session.table(SQL["stored_jobs"], {"wanted": wanted})}
    answers = {}
    for number, new in jobs:
        if new.job.job_id in seen:
            answers[number] = _answer(InsertStatus.REPLAYED, new)
        seen.add(new.job.job_id)
    return answers
