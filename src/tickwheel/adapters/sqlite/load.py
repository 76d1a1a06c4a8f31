"""Reads waiting timers and what their claims need."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import apsw
import msgspec
import numpy as np

from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import TIMER, Ints, Rows, empty
from tickwheel.domain.job import JobState
from tickwheel.ports.store import BrokenChain, ChainPage, WorkDefinition

SQL: Final = load_statements("load")

_JOB_STATES: Final = tuple(JobState)
_decode_columns: Final = msgspec.json.Decoder(list[list[Any]]).decode


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


def load_work(session: Session, job_ids: Sequence[bytes], changes: int) -> list[WorkDefinition | None]:
    """In the order given; None where there is no such job. `changes`: the count before this call."""
    if not job_ids:
        return []
    columns, specs, payloads = session.value(SQL["load_work"], {"wanted": apsw.carray(tuple(job_ids))})
    *columns, spec_bytes, payload_bytes, taken = _decode_columns(columns)
    rows = zip(*columns, _cut(specs, spec_bytes), _cut(payloads, payload_bytes), taken, strict=True)
    return [
        None
        if version is None
        else WorkDefinition(
            tenant_id,
            name,
            _JOB_STATES[state],
            version,
            spec,
            payload.decode(),
            key,
            effective_ms,
            tuple(map(int, instants.split(","))) if instants else (),
            changes,
            updated_ms,
        )
        for tenant_id, name, state, version, key, effective_ms, updated_ms, spec, payload, instants in rows
    ]


def _cut(joined: bytes | None, lengths: Sequence[int | None]) -> Iterator[bytes]:
    """The pieces of a text that was joined end to end, empty where nothing was."""
    ends = list(accumulate(length or 0 for length in lengths))
    text = joined or b""
    return (text[start:end] for start, end in zip([0, *ends], ends, strict=False))
