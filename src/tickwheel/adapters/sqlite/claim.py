"""Claims: timers that are due become ledger rows.

Nearly all claims are plain: the first claim of a run that may simply start. One INSERT takes them all,
guarded by the job's state and version and by the key of the ledger, and is all or nothing; the next timers of
recurring jobs go in with it. Whatever is not plain (retries, skips, overlap rules), and every batch in which
a plain claim met something else, is looked at first and decided row by row (`careful_claims`), all in the
writer's one transaction. Example of the difference that makes: 500 one-offs cost one statement, 500 retries
two.
"""

from typing import Final

import apsw
import numpy as np

from tickwheel.adapters.sqlite.careful_claims import claim_carefully
from tickwheel.adapters.sqlite.codec import pack_columns, pack_id_column
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.ownership import Ownership
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import (
    CLAIMED,
    FLAG_RECURRING,
    Bools,
    ClaimAction,
    ClaimVerdict,
    OverlapCode,
    Rows,
    empty,
)

SQL: Final = load_statements("claim")

_FIRST: Final = np.dtype(
    [("job_id", "V16"), *((n, "<i8") for n in ("scheduled_ms", "due_ms", "gen", "fence", "last"))]
)
_TIMER: Final = np.dtype([("job_id", "V16"), *((n, "<i8") for n in ("due_ms", "scheduled_ms", "gen", "flags"))])


def claim(session: Session, ownership: Ownership, batch: Rows, now_ms: int, lease_ms: int) -> Rows:
    """CLAIMED rows for CLAIM rows."""
    answers = empty(CLAIMED, len(batch))
    held = ownership.holds(batch)
    due = held & (batch["due_ms"] <= now_ms)
    answers["verdict"][~held] = ClaimVerdict.DEPOSED
    answers["verdict"][held & ~due] = ClaimVerdict.NOT_DUE
    plain = due & _is_plain(batch)
    rest = due & ~plain
    if plain.any():
        if _start_plain(session, ownership.worker, batch[plain], now_ms, lease_ms):
            _tell_started(answers, plain, batch, lease_ms)
        else:
            rest = due
    if rest.any():
        answers[rest] = claim_carefully(session, ownership.worker, batch[rest], now_ms, lease_ms)
    return answers


def _is_plain(batch: Rows) -> Bools:
    follows: Bools = (batch["flags"] & FLAG_RECURRING == 0) | (batch["next_ms"] >= 0)
    free: Bools = (batch["action"] == ClaimAction.RUN) & (batch["overlap"] == OverlapCode.ALLOW)
    plain: Bools = (batch["gen"] > 0) & free & follows
    return plain


def _start_plain(session: Session, worker: int, batch: Rows, now_ms: int, lease_ms: int) -> bool:
    """Insert all the rows, or none and give False: some of them met another state."""
    rows = empty(_FIRST, len(batch))
    for name in ("job_id", "scheduled_ms", "due_ms", "gen", "fence"):
        rows[name] = batch[name]
    rows["last"] = batch["max_attempts"] <= 1
    bindings = {
        "rows": pack_columns(rows, ["scheduled_ms", "due_ms", "gen", "fence", "last"]),
        "ids": pack_id_column(rows),
        "worker": worker,
        "now_ms": now_ms,
        "lease_ms": lease_ms,
    }
    try:
        session.run(SQL["claim_first"], bindings)
    except apsw.ConstraintError:
        return False
    recurring = batch[batch["flags"] & FLAG_RECURRING != 0]
    if len(recurring):
        _plant_next(session, recurring, now_ms)
    return True


def _plant_next(session: Session, batch: Rows, now_ms: int) -> None:
    timers = empty(_TIMER, len(batch))
    timers["due_ms"] = timers["scheduled_ms"] = batch["next_ms"]
    for name in ("job_id", "gen", "flags"):
        timers[name] = batch[name]
    rows = pack_columns(timers, ["due_ms", "scheduled_ms", "gen", "flags"])
    session.run(SQL["insert_timers"], {"rows": rows, "ids": pack_id_column(timers), "now_ms": now_ms})


def _tell_started(answers: Rows, which: Bools, batch: Rows, lease_ms: int) -> None:
    answers["verdict"][which] = ClaimVerdict.WON
    answers["attempt"][which] = 1
    answers["version"][which] = batch["gen"][which]
    answers["fence"][which] = batch["fence"][which]
    answers["lease_ms"][which] = lease_ms
