"""Reads waiting timers and what their claims need."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import numpy as np

from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import TIMER, Ints, Rows, empty
from tickwheel.domain.job import JobState
from tickwheel.ports.store import BrokenChain, ChainPage, WorkDefinition

SQL: Final = load_statements("load")


def load_timers(session: Session, from_ms: int, until_ms: int, limit: int) -> Rows:
    """See `TimerStore.load_timers`; one snapshot."""
    bounds = {"from_ms": from_ms, "until_ms": until_ms}
    last_ms = session.value(SQL["page_end"], {**bounds, "limit": max(1, limit)})
    if last_ms is not None:
        bounds["until_ms"] = last_ms + 1
    count, due, job_ids, scheduled, gens, flags = session.value(SQL["load_timers"], bounds)
    rows = empty(TIMER, count)
    if count:
        rows["job_id"] = np.frombuffer(bytes.fromhex(job_ids), dtype="V16")
        for name, text in (("due_ms", due), ("scheduled_ms", scheduled), ("gen", gens), ("flags", flags)):
            rows[name] = _parse(text)
    return rows


def _parse(text: str) -> Ints:
    return np.fromstring(text, dtype=np.int64, sep=",")


def broken_chains(session: Session, after: bytes, limit: int) -> ChainPage:
    """See `TimerStore.broken_chains`."""
    rows = session.table(SQL["chains"], {"after": after, "limit": limit})
    broken = [(tenant_id, bytes.fromhex(job_id), count) for job_id, tenant_id, count in rows if count != 1]
    last = bytes.fromhex(rows[-1][0]) if len(rows) == limit else None
    return ChainPage(tuple(BrokenChain(*values) for values in broken), last)


def load_work(session: Session, job_ids: Sequence[bytes]) -> list[WorkDefinition | None]:
    """In the order given; None where there is no such job."""
    if not job_ids:
        return []
    wanted = apsw.carray(tuple(dict.fromkeys(job_ids)))
    found = {
        bytes.fromhex(values[0]): _work(values) for values in session.table(SQL["load_work"], {"wanted": wanted})
    }
    return [found.get(job_id) for job_id in job_ids]


def _work(values: Sequence[Any]) -> WorkDefinition:
    _, tenant_id, name, state, version, spec, payload, idempotency_key, effective_ms, taken_ms = values
    return WorkDefinition(
        tenant_id=tenant_id,
        name=name,
        state=JobState(state),
        version=version,
        spec=spec.encode(),
        payload=payload,
        idempotency_key=idempotency_key,
        effective_ms=effective_ms,
        taken_ms=() if taken_ms is None else tuple(map(int, taken_ms.split(","))),
    )
