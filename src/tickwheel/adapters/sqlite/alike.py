"""Inserts plain jobs that differ in id, instants and payload only: for half of what the general statement costs.

The general statement takes each column of each row out of a JSON text. Here, what all rows have in common is
bound once, the payloads are an array that the engine walks (its `rowid` counts from 1), and ids and instants are
cut out of blobs by the row's number: instants as decimal digits, `INSTANT_CHARS` each.
"""

from collections.abc import Sequence
from typing import Final

import apsw

from tickwheel.adapters.sqlite.codec import pack_ids
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.job import encode_spec
from tickwheel.ports.store import NewJob

SQL: Final = load_statements("alike")
INSTANT_CHARS: Final = 16


def write_alike(session: Session, jobs: Sequence[NewJob], now_ms: int) -> None:
    """Write one stretch of `ports.alike`; raises the driver's `ConstraintError` for an id that is stored."""
    first, timer = jobs[0].job, jobs[0].timer
    assert timer is not None
    timers = [new.timer for new in jobs if new.timer is not None]
    bindings = {
        "ids": pack_ids([new.job.job_id for new in jobs]),
        "payloads": apsw.carray(tuple([new.job.payload for new in jobs])),
        "created": _instants([new.job.created_ms for new in jobs]),
        "effective": _instants([new.job.effective_ms for new in jobs]),
        "scheduled": _instants([new.job.scheduled_ms or 0 for new in jobs]),
        "due": _instants([each.due_ms for each in timers]),
        "instant": _instants([each.scheduled_ms for each in timers]),
        "tenant_id": first.tenant_id,
        "name": first.name,
        "schedule_type": first.schedule_type.value,
        "lane": int(first.lane),
        "flags": first.timer_flags,
        "state": int(first.state),
        "version": first.version,
        "updated_ms": first.updated_ms,
        "gen": timer.gen,
        "spec": encode_spec(first.spec).decode(),
        "now_ms": now_ms,
    }
    session.run(SQL["insert_alike_jobs"], bindings)
    session.run(SQL["insert_alike_timers"], bindings)


def _instants(values: Sequence[int]) -> bytes:
    return (f"%0{INSTANT_CHARS}d" * len(values) % tuple(values)).encode()
