"""Inserts many plain new jobs through COPY: about half of what the general statement costs, here and there.

Plain: one-off jobs with a timer, without an idempotency key, tags, or a name that is theirs alone. They conflict
with nothing but a job that is stored already (its answer was lost, and it was sent again): then nothing is
written, `UniqueViolation` is raised, and the general statement sorts it out.

COPY can't compute, so the clock is read first, after the transaction drew its xid, and due times are moved up to
it here (A2). The two COPYs follow at once: the session's timeouts end a transaction that stands still.

A row of COPY's binary form is a count of its fields, then each as a length and a value. What has a fixed size
comes first and is made by numpy for the whole batch; the texts of a row are appended to its slice. NULL is the
length -1.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tickwheel.adapters.postgresql.audit_log import SQL, entry_bindings
from tickwheel.adapters.postgresql.batches import Bindings
from tickwheel.adapters.postgresql.session import Session
from tickwheel.domain.columns import FLAG_KIND_MASK
from tickwheel.domain.job import Job, Spec, encode_spec
from tickwheel.ports.alike import alike_stretches
from tickwheel.ports.audit_entries import Call, created_entries
from tickwheel.ports.store import NewJob

COPY_JOBS_FROM: Final = 64
"""Fewer jobs are cheaper by one statement: a COPY takes turns with the server."""

_CLOCK: Final = b"""SELECT coalesce(%(pin)s::int8, tickwheel.clock_ms())
  FROM (SELECT pg_current_xact_id() AS xid OFFSET 0) AS drawn WHERE xid IS NOT NULL"""
_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL: Final = b"\xff\xff"
_LENGTH: Final = struct.Struct(">i").pack
_NULL: Final = _LENGTH(-1)

_JOB_NUMBERS: Final = (
    ("job_id", "V16"),
    ("home", ">i4"),
    ("lane", ">i2"),
    ("flags", ">i2"),
    ("state", ">i2"),
    ("version", ">i4"),
    ("created_ms", ">i8"),
    ("updated_ms", ">i8"),
    ("effective_ms", ">i8"),
    ("scheduled_ms", ">i8"),
    ("first_due_ms", ">i8"),
    ("first_instant_ms", ">i8"),
    ("first_gen", ">i4"),
    ("named", "?"),
)
_JOB_TEXTS: Final = ("tenant_id", "name", "schedule_type", "idempotency_key", "tags", "spec", "payload")
_TIMER_NUMBERS: Final = (
    ("due_ms", ">i8"),
    ("job_id", "V16"),
    ("scheduled_ms", ">i8"),
    ("armed_ms", ">i8"),
    ("gen", ">i4"),
    ("shard", ">i2"),
    ("flags", ">i2"),
)


def _row_type(numbers: Sequence[tuple[str, str]]) -> np.dtype[Any]:
    fields = [("fields", ">i2")]
    for name, kind in numbers:
        fields += [(f"length of {name}", ">i4"), (name, kind)]
    return np.dtype(fields)


def _copy(table: str, names: Sequence[str]) -> bytes:
    return f"COPY tickwheel.{table} ({', '.join(names)}) FROM STDIN (FORMAT binary)".encode()


_JOB_ROW: Final = _row_type(_JOB_NUMBERS)
_TIMER_ROW: Final = _row_type(_TIMER_NUMBERS)
_COPY_JOBS: Final = _copy("jobs", [*(name for name, _ in _JOB_NUMBERS), *_JOB_TEXTS])
_COPY_TIMERS: Final = _copy("timers", [name for name, _ in _TIMER_NUMBERS])


def copy_jobs(session: Session, jobs: Sequence[NewJob], pin_ms: int | None, calls: Sequence[Call] = ()) -> None:
    """Write plain jobs with their timers in one transaction. Raises `psycopg.errors.UniqueViolation`.

    `calls` are those that the jobs came in, with their acts, if there are any.
    """
    alike = len(alike_stretches(jobs)) == 1
    clock: bytes = _CLOCK
    bindings: Bindings = {"pin": pin_ms}
    if calls:
        told = entry_bindings(created_entries(jobs, None, calls, 0))
        clock, bindings = SQL["clock_and_entries"], bindings | told
    jobs = sorted(jobs, key=_id)  # of one instant that is shard by shard: neighbours in all indexes
    columns = _columns(jobs, alike=alike)
    with session.transaction():
        [(now_ms,)] = session.rows(clock, bindings)
        columns["first_due_ms"] = columns["due_ms"] = np.maximum(columns["due_ms"], now_ms)
        columns["armed_ms"] = np.full(len(jobs), now_ms)
        kinds = {"flags": np.bitwise_and(columns["flags"], FLAG_KIND_MASK)}
        session.copy_in(_COPY_JOBS, _job_rows(jobs, columns | kinds, alike=alike))
        timers = _rows(_TIMER_NUMBERS, _TIMER_ROW, columns, field_count=len(_TIMER_NUMBERS))
        session.copy_in(_COPY_TIMERS, b"".join((_HEAD, timers.tobytes(), _TAIL)))


def _id(new: NewJob) -> bytes:
    return new.job.job_id


def _columns(jobs: Sequence[NewJob], *, alike: bool) -> dict[str, Any]:
    """By name: an array or, where they are alike, a value for all rows."""
    ids = np.frombuffer(b"".join([new.job.job_id for new in jobs]), "V16")
    words = ids.view(">u2").reshape(-1, 8)
    definitions = [new.job for new in jobs]
    timers = [new.timer for new in jobs if new.timer is not None]
    kinds = definitions[:1] if alike else definitions
    gen = [timer.gen for timer in timers[: len(kinds)]]
    return {
        "job_id": ids,
        "shard": words[:, 3],
        "home": words[:, 4],
        "lane": [int(job.lane) for job in kinds],
        "flags": [job.timer_flags for job in kinds],
        "state": [int(job.state) for job in kinds],
        "version": [job.version for job in kinds],
        "updated_ms": [job.updated_ms for job in kinds],
        "named": False,
        "gen": gen,
        "first_gen": gen,
        "created_ms": [job.created_ms for job in definitions],
        "effective_ms": [job.effective_ms for job in definitions],
        "scheduled_ms": [job.scheduled_ms for job in definitions],
        "due_ms": np.array([timer.due_ms for timer in timers]),
        "first_instant_ms": [timer.scheduled_ms for timer in timers],
    }


def _rows(
    numbers: Sequence[tuple[str, str]], row_type: np.dtype[Any], columns: dict[str, Any], field_count: int
) -> Any:
    rows = np.empty(len(columns["job_id"]), row_type)
    rows["fields"] = field_count
    for name, kind in numbers:
        rows[f"length of {name}"] = np.dtype(kind).itemsize
        rows[name] = columns[name]
    return rows


def _job_rows(jobs: Sequence[NewJob], columns: dict[str, Any], *, alike: bool) -> bytes:
    field_count = len(_JOB_NUMBERS) + len(_JOB_TEXTS)
    numbers, size = _rows(_JOB_NUMBERS, _JOB_ROW, columns, field_count).tobytes(), _JOB_ROW.itemsize
    parts = [_HEAD]
    start = 0
    texts = _texts(jobs[0].job)
    for new in jobs:
        if not alike:
            texts = _texts(new.job)
        payload = new.job.payload.encode()
        parts += (numbers[start : start + size], texts, _LENGTH(len(payload)), payload)
        start += size
    parts.append(_TAIL)
    return b"".join(parts)


def _texts(job: Job) -> bytes:
    """The texts of a row but for the payload, which is last."""
    return _common(job.tenant_id, job.name, job.schedule_type.value) + _spec(job.spec)


@lru_cache(maxsize=1024)
def _common(tenant_id: str, name: str, schedule_type: str) -> bytes:
    """The texts that many jobs have in common; no idempotency key and no tags follow them."""
    return _text(tenant_id) + _text(name) + _text(schedule_type) + _NULL + _NULL


def _spec(spec: Spec) -> bytes:
    encoded = encode_spec(spec)
    return _LENGTH(len(encoded)) + encoded


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _LENGTH(len(encoded)) + encoded
