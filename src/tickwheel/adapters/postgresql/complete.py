"""Completions and heartbeats: what the holder of a token may still write.

Plain successes, nearly all there are, take one guarded UPDATE in autocommit: of short attempts without looking
for a lease that has to go with them (`succeed_shortly`). Everything else, and every success that met something
else, is looked at under locks in a short transaction and decided row by row (`domain.completion_decisions`).
All statements lock in the order of the ledger's key, so that none waits in a circle. An unknown outcome is
harmless: the same statement again finds its rows as it wants them, or stale.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tickwheel.adapters.postgresql.arrays import int2s, int4s, int8s, texts, uuids
from tickwheel.adapters.postgresql.batches import (
    Bindings,
    bounds,
    decided,
    home_of,
    in_key_order,
    run_keys,
    storable,
)
from tickwheel.adapters.postgresql.leaves import with_leaves
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import in_leaves, load_statements
from tickwheel.domain.claim_decisions import NewTimer
from tickwheel.domain.columns import TIMER, Bools, CompletionCause, Rows, empty
from tickwheel.domain.completion_decisions import (
    Burial,
    CompletionDecisions,
    CompletionWrites,
    End,
    Record,
    Result,
    Row,
    WaitAgain,
    Words,
)
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ledger_moves import LONG_MS, Completion
from tickwheel.domain.outcome import OutcomeClass, ProgressNote
from tickwheel.domain.run import RunState
from tickwheel.domain.tenants import bucket_flags
from tickwheel.ports.store import AttemptNote, Completed

SQL: Final = load_statements("complete")
SHORT_MS: Final = 200
"""Attempts that took less have hardly ever been renewed. Where one was, its row says so."""
ARM_TIMERS: Final = load_statements("claim")["insert_timers"] + b" RETURNING job_id, scheduled_ms, due_ms"


def complete(
    session: Session, batch: Rows, notes: Mapping[int, AttemptNote], pin_ms: int | None = None, now_ms: int = 0
) -> Completed:
    """See `Ledger.complete`."""
    applied: Bools = np.zeros(len(batch), dtype=np.bool_)
    order = in_key_order(batch)
    plain = _is_plain(batch, notes)
    short = plain & (batch["started_ms"] > 0) & (batch["finished_ms"] - batch["started_ms"] < SHORT_MS)
    numbers = order[short[order]]
    if len(numbers):
        applied[numbers] = _succeed_shortly(session, batch[numbers], pin_ms, now_ms)
    numbers = order[(plain & ~applied)[order]]
    if len(numbers):
        applied[numbers] = _guarded(session, SQL["succeed"], success_bindings(batch[numbers], pin_ms))
    numbers = order[~applied[order]]
    if not len(numbers):
        return Completed(applied, empty(TIMER))
    part = {place: notes[number] for place, number in enumerate(numbers.tolist()) if number in notes}
    ended = _complete_carefully(session, batch[numbers], part, pin_ms)
    applied[numbers] = ended.applied
    return Completed(applied, ended.follow_ups)


def _is_plain(batch: Rows, notes: Mapping[int, AttemptNote]) -> Bools:
    long = (batch["started_ms"] > 0) & (batch["finished_ms"] - batch["started_ms"] > LONG_MS)
    clean = (batch["outcome"] == OutcomeClass.SUCCESS) & (batch["cause"] == CompletionCause.WORKER)
    plain: Bools = (batch["state"] == RunState.SUCCEEDED) & clean & ~long
    if notes:
        plain[list(notes)] = False
    return plain


def _succeed_shortly(session: Session, batch: Rows, pin_ms: int | None, now_ms: int) -> Bools:
    """Which rows were written."""
    bindings, instants = success_bindings(batch, pin_ms), batch["scheduled_ms"]
    runs = session.near_leaves.relation("runs", int(instants.min()), int(instants.max()), now_ms)
    count = session.write_count(in_leaves(SQL["succeed_shortly"], ("runs", runs)), bindings)
    written: Bools = np.full(len(batch), count == len(batch))
    if 0 < count < len(batch):
        written[[number - 1 for (number,) in session.rows(SQL["succeeded"], bindings)]] = True
    return written


def _guarded(session: Session, statement: bytes, bindings: Bindings) -> Bools:
    """Which rows a guarded statement wrote."""
    [[count, numbers]] = session.write(statement, bindings)
    written: Bools = np.full(bindings["total"], count == bindings["total"])
    if numbers:
        written[np.asarray(numbers) - 1] = True
    return written


def _key_bindings(batch: Rows) -> Bindings:
    return {
        "total": len(batch),
        "shard": int2s(shards_of(batch["job_id"])),
        "scheduled": int8s(batch["scheduled_ms"]),
        "id": uuids(batch["job_id"]),
        "fence": int8s(batch["fence"]),
        **bounds("scheduled", batch["scheduled_ms"]),
    }


def success_bindings(batch: Rows, pin_ms: int | None) -> Bindings:
    """The parameters of `succeed` for COMPLETION rows in key order."""
    return {
        **_key_bindings(batch),
        "pin": pin_ms,
        "lost": int4s(batch["lost_count"]),
        "started": int8s(batch["started_ms"]),
        "finished": int8s(batch["finished_ms"]),
        "http": int2s(batch["http_status"]),
    }


def renewal_bindings(batch: Rows) -> Bindings:
    """The parameters of `renew` for RENEWAL rows in key order."""
    return {
        **_key_bindings(batch),
        "started": int8s(batch["started_ms"]),
        "lease": int8s(batch["lease_ms"]),
        "beat": int8s(batch["beat_ms"]),
        "running": int2s(batch["mark_running"] != 0),
    }


def renew(session: Session, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
    """See `Ledger.renew`. What attempts say of themselves is written after it: losing it loses nothing."""
    held: Bools = np.zeros(len(batch), dtype=np.bool_)
    if len(batch):
        order = in_key_order(batch)
        held[order] = _guarded(session, SQL["renew"], renewal_bindings(batch[order]))
        said = [number for number in order.tolist() if held[number] and notes and number in notes]
        if notes and said:
            _note_progress(session, batch[said], [notes[number] for number in said])
    return held


def _note_progress(session: Session, batch: Rows, notes: Sequence[ProgressNote]) -> None:
    progress = [None if note.progress is None else str(note.progress) for note in notes]
    words = {"progress": texts(progress), "note": texts([storable(note.note) for note in notes])}
    session.run(SQL["note_progress"], {**_key_bindings(batch), **words})


def _complete_carefully(
    session: Session, batch: Rows, notes: Mapping[int, AttemptNote], pin_ms: int | None
) -> Completed:
    ends = [Completion(*values) for values in batch.tolist()]
    words = {
        n: Words(note.error, note.excerpt, note.result, note.dropped, note.buries) for n, note in notes.items()
    }
    wanted: dict[str, list[int]] = {}

    def decide() -> Completed:
        with session.transaction():
            [[now_ms]] = session.rows(SQL["clock"], {"pin": pin_ms})
            decisions = CompletionDecisions(now_ms)
            applied = decisions.decide(ends, _observe(session, ends), words)
            writes = decisions.writes
            wanted["timers"] = [max(wait.due_ms, now_ms) for wait in writes.waits]
            wanted["attempts"] = [record.scheduled_ms for record in writes.records]
            wanted["results"] = [result.scheduled_ms for result in writes.results]
            _write(session, writes, decisions.follow_ups, pin_ms)
            return Completed(applied, decisions.follow_ups)

    return with_leaves(session, decide, lambda: wanted, pin_ms)


def _observe(session: Session, ends: Sequence[Completion]) -> dict[tuple[bytes, int], Row]:
    keys = list(dict.fromkeys((end.job_id, end.scheduled_ms) for end in ends))
    homes = [home_of(job_id) for job_id, _ in keys]
    bindings = {**run_keys(keys), "homes": int4s(homes), "home_set": int4s(sorted(set(homes)))}
    return {
        keys[number - 1]: Row._make((*seen, flags | bucket_flags(tenant_id), tenant_id))
        for number, *seen, flags, tenant_id in session.rows(SQL["lock_runs"], bindings)
    }


def _write(session: Session, writes: CompletionWrites, follow_ups: Rows, pin_ms: int | None) -> None:
    ended = [(row.job_id, row.scheduled_ms) for row in writes.ends]
    ended += [(row.job_id, row.scheduled_ms) for row in writes.waits]
    _run(session, "record_attempts", writes.records, Record._fields)
    _run(session, "end_runs", writes.ends, End._fields)
    _run(session, "bury", writes.burials, Burial._fields)
    _run(session, "note_drops", writes.drops, Burial._fields)
    _run(session, "wait_again", _armed(session, writes.waits, follow_ups, pin_ms), WaitAgain._fields)
    _run(session, "record_results", writes.results, Result._fields)
    _run(session, "drop_leases", ended, ("job_id", "scheduled_ms"))


def _armed(
    session: Session, waits: Sequence[WaitAgain], follow_ups: Rows, pin_ms: int | None
) -> Sequence[WaitAgain]:
    """Insert their timers; the rows are to name the very due times, which are moved up to the clock there."""
    if not waits:
        return waits
    lanes = {(row[1], row[2]): row[4] for row in follow_ups.tolist()}
    timers = [
        NewTimer(wait.job_id, wait.due_ms, wait.scheduled_ms, -wait.gen, lanes[wait.job_id, wait.scheduled_ms])
        for wait in waits
    ]
    inserted = session.rows(ARM_TIMERS, {**decided(timers, NewTimer._fields), "pin": pin_ms})
    due = {(job_id.bytes, scheduled_ms): due_ms for job_id, scheduled_ms, due_ms in inserted}
    return [wait._replace(due_ms=due.get((wait.job_id, wait.scheduled_ms), wait.due_ms)) for wait in waits]


def _run(session: Session, name: str, rows: Sequence[tuple[Any, ...]], fields: Sequence[str]) -> None:
    if rows:
        session.run(SQL[name], decided(rows, fields))
