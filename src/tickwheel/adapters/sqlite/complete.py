"""Completions and heartbeats: what the holder of a token may still write.

Plain successes, nearly all there are, take one guarded UPDATE; if it changed as many rows as were asked for,
that is the whole answer. Everything else, and every batch in which a success met something else, is looked at
first and decided row by row (`careful_completions`) in the same transaction. The timer of a run that is over
is deleted, and the follow-up of one that waits again is inserted, by a trigger of the ledger, so neither can
be forgotten.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from tickwheel.adapters.sqlite.careful_completions import complete_carefully
from tickwheel.adapters.sqlite.codec import pack_columns, pack_id_column, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import TIMER, Bools, CompletionCause, Rows, empty
from tickwheel.domain.ledger_moves import LONG_MS
from tickwheel.domain.outcome import OutcomeClass, ProgressNote
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote, Completed

SQL: Final = load_statements("complete")


def complete(
    session: Session, worker: int, batch: Rows, notes: Mapping[int, AttemptNote], now_ms: int
) -> Completed:
    """See `Ledger.complete`."""
    applied: Bools = np.zeros(len(batch), dtype=np.bool_)
    plain = _is_plain(batch, notes)
    rest = ~plain
    if plain.any():
        if _succeed(session, batch[plain], now_ms):
            applied[plain] = True
        else:
            rest[:] = True
    if not rest.any():
        return Completed(applied, empty(TIMER))
    numbers = np.flatnonzero(rest).tolist()
    part = {place: notes[number] for place, number in enumerate(numbers) if number in notes}
    ended = complete_carefully(session, worker, batch[rest], part, now_ms)
    applied[rest] = ended.applied
    return Completed(applied, ended.follow_ups)


def _is_plain(batch: Rows, notes: Mapping[int, AttemptNote]) -> Bools:
    long = (batch["started_ms"] > 0) & (batch["finished_ms"] - batch["started_ms"] > LONG_MS)
    clean = (batch["outcome"] == OutcomeClass.SUCCESS) & (batch["cause"] == CompletionCause.WORKER)
    plain: Bools = (batch["state"] == RunState.SUCCEEDED) & clean & ~long
    if notes:
        plain[list(notes)] = False
    return plain


def _succeed(session: Session, batch: Rows, now_ms: int) -> bool:
    """Write them; False if some met another state (the others are written all the same)."""
    columns = ["scheduled_ms", "fence", "lost_count", "started_ms", "finished_ms", "http_status"]
    bindings = {"rows": pack_columns(batch, columns), "ids": pack_id_column(batch), "now_ms": now_ms}
    return session.run(SQL["succeed"], bindings) == len(batch)


def renew(session: Session, batch: Rows, notes: Mapping[int, ProgressNote] | None = None) -> Bools:
    """See `Ledger.renew`."""
    if notes:
        _note_progress(session, batch, notes)
    columns = ["scheduled_ms", "fence", "started_ms", "lease_ms", "beat_ms", "mark_running"]
    bindings = {"rows": pack_columns(batch, columns), "ids": pack_id_column(batch)}
    held: Bools = np.ones(len(batch), dtype=np.bool_)
    if session.run(SQL["renew"], bindings) < len(batch):
        held[:] = False
        # The same transaction: whoever holds its run now held it in the statement before.
        rows = {"rows": pack_columns(batch, ["scheduled_ms", "fence"]), "ids": bindings["ids"]}
        held[session.table(SQL["held"], rows)] = True
    return held


def _note_progress(session: Session, batch: Rows, notes: Mapping[int, ProgressNote]) -> None:
    numbers = list(notes)
    keys = zip(batch["scheduled_ms"][numbers].tolist(), batch["fence"][numbers].tolist(), strict=True)
    said = (notes[number] for number in numbers)
    rows = pack_rows([(*key, note.progress, note.note) for key, note in zip(keys, said, strict=True)])
    session.run(SQL["note_progress"], {"rows": rows, "ids": pack_id_column(batch[numbers])})
