"""Claims: timers that are due become ledger rows.

Nearly all claims are plain: the first claim of a run that may simply start. One INSERT takes them all,
guarded by the job's state and version and by the key of the ledger, and is all or nothing; the next timers of
recurring jobs go in with it. One-offs whose definitions were read while the count of changes was what it still is
(`change_count`) are inserted without that look at their jobs. Whatever is not plain (retries, skips, overlap
rules), and every batch in which a plain claim met something else, is looked at first and decided row by row
(`careful_claims`), all in the writer's one transaction. Example of the difference that makes: 500 one-offs cost
one statement, 500 retries two.
"""

from typing import Final

import apsw
import numpy as np

from tickwheel.adapters.sqlite.careful_claims import Start, claim_carefully
from tickwheel.adapters.sqlite.codec import pack_columns, pack_id_column
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.ownership import Ownership
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import (
    CLAIMED,
    FLAG_LANE_MASK,
    FLAG_RECURRING,
    Bools,
    ClaimAction,
    ClaimVerdict,
    OverlapCode,
    Rows,
    empty,
)
from tickwheel.domain.run import RunState

SQL: Final = load_statements("claim")

_FIRST_COLUMNS: Final = ["scheduled_ms", "due_ms", "gen", "fence", "last", "lane"]
_FIRST: Final = np.dtype([("job_id", "V16"), *((n, "<i8") for n in _FIRST_COLUMNS)])
_TIMER: Final = np.dtype([("job_id", "V16"), *((n, "<i8") for n in ("due_ms", "scheduled_ms", "gen", "flags"))])


def start_of(worker: int, now_ms: int, lease_ms: int, *, queued: bool) -> Start:
    """`Ledger.claim` with or without `queued`."""
    if queued:
        return Start(RunState.CLAIMED, None, None, now_ms)
    return Start(RunState.DISPATCHED, worker, lease_ms, now_ms)


def claim(
    session: Session,
    ownership: Ownership,
    batch: Rows,
    now_ms: int,
    lease_ms: int,
    *,
    changes: int,
    queued: bool = False,
) -> Rows:
    """CLAIMED rows for CLAIM rows; `changes` is the count now."""
    start = start_of(ownership.worker, now_ms, lease_ms, queued=queued)
    answers = empty(CLAIMED, len(batch))
    held = ownership.holds(batch)
    due = held & (batch["due_ms"] <= now_ms)
    answers["verdict"][~held] = ClaimVerdict.DEPOSED
    answers["verdict"][held & ~due] = ClaimVerdict.NOT_DUE
    plain = due & _is_plain(batch)
    rest = due & ~plain
    seen = batch["changes"] == changes
    for statement, which in (("claim_seen", plain & seen), ("claim_first", plain & ~seen)):
        if which.any():
            if _start_plain(session, statement, start, batch[which]):
                _tell_started(answers, which, batch, start.lease_ms or 0)
            else:
                rest |= which
    if rest.any():
        answers[rest] = claim_carefully(session, ownership.worker, start, batch[rest])
    return answers


def _is_plain(batch: Rows) -> Bools:
    follows: Bools = (batch["flags"] & FLAG_RECURRING == 0) | (batch["next_ms"] >= 0)
    free: Bools = (batch["action"] == ClaimAction.RUN) & (batch["overlap"] == OverlapCode.ALLOW)
    plain: Bools = (batch["gen"] > 0) & free & follows & (batch["limited"] == 0)
    return plain


def _start_plain(session: Session, statement: str, start: Start, batch: Rows) -> bool:
    """Insert all the rows, or none and give False: some of them met another state."""
    rows = empty(_FIRST, len(batch))
    for name in ("job_id", "scheduled_ms", "due_ms", "gen", "fence"):
        rows[name] = batch[name]
    rows["last"] = batch["max_attempts"] <= 1
    rows["lane"] = batch["flags"] & FLAG_LANE_MASK
    bindings = {
        "rows": pack_columns(rows, _FIRST_COLUMNS),
        "ids": pack_id_column(rows),
        **start._asdict(),
    }
    try:
        session.run(SQL[statement], bindings)
    except apsw.ConstraintError:
        return False
    recurring = batch[batch["flags"] & FLAG_RECURRING != 0]
    if len(recurring):
        _plant_next(session, recurring, start.now_ms)
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
