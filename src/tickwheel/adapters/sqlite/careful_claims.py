"""Reads what the decisions about claims need, and writes what comes out, one statement per kind."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import apsw

from tickwheel.adapters.sqlite.codec import pack_ids, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.slots import open_book, write_slots
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.claim_decisions import ClaimDecisions, ClaimWrites, Open, OpenRuns, Seen
from tickwheel.domain.columns import CLAIMED, OverlapCode, Rows, empty
from tickwheel.domain.ledger_moves import Claim
from tickwheel.domain.run import RunState
from tickwheel.domain.stated_limits import stated_limits

SQL: Final = load_statements("claim")


class Start(NamedTuple):
    """How won rows start: at once, as this worker's under a lease, or queued for a worker elsewhere."""

    state: int
    worker: int | None
    lease_ms: int | None
    now_ms: int


def claim_carefully(session: Session, worker: int, start: Start, batch: Rows) -> Rows:
    """CLAIMED rows for CLAIM rows that are due and ours, decided row by row; `worker` is this process."""
    claims = [Claim(*values) for values in batch.tolist()]
    seen = _observe(session, worker, claims)
    open_runs = _read_open(session, {c.job_id for c in claims if c.overlap != OverlapCode.ALLOW})
    queued = start.state == RunState.CLAIMED
    book = open_book(session, seen)
    decisions = ClaimDecisions(start.worker, start.now_ms, start.lease_ms, open_runs, book, queued=queued)
    answers = empty(CLAIMED, len(claims))
    for number, answer in enumerate(decisions.decide(claims, seen)):
        answers[number] = answer
    _write(session, decisions.writes, **start._asdict())
    return answers


def _observe(session: Session, worker: int, claims: Sequence[Claim]) -> list[Seen]:
    rows = pack_rows([(c.scheduled_ms, c.due_ms, c.gen) for c in claims])
    bindings = {"rows": rows, "ids": pack_ids(c.job_id for c in claims), "worker": worker}
    seen: list[Seen | None] = [None] * len(claims)
    for number, *values, tenant_id, name, spec in session.table(SQL["observe"], bindings):
        seen[number] = Seen._make((*values, stated_limits(tenant_id, name, spec, claims[number].tenant_limit)))
    return [row for row in seen if row is not None]


def _read_open(session: Session, job_ids: Iterable[bytes]) -> OpenRuns:
    wanted, found = tuple(job_ids), OpenRuns()
    if wanted:
        bindings = {"wanted": apsw.carray(wanted)}
        for job_id, scheduled_ms, state, fence in session.table(SQL["open_runs"], bindings):
            found.setdefault(bytes.fromhex(job_id), {})[scheduled_ms] = Open(state, fence)
    return found


def _write(session: Session, writes: ClaimWrites, **bindings: Any) -> None:
    """The columns of the statements are the fields of the rows, in their order."""
    batches: list[tuple[str, Sequence[tuple[Any, ...]]]] = [
        ("drop_timers", writes.dropped),
        ("insert_runs", writes.rows),
        ("start_waiting", writes.starts),
        ("leave_waiting", writes.leaves),
        ("insert_timers", writes.timers),
    ]
    for statement, rows in batches:
        if rows:
            batch = {"rows": pack_rows([row[1:] for row in rows]), "ids": pack_ids(row[0] for row in rows)}
            session.run(SQL[statement], {**batch, **bindings})
    write_slots(session, writes.slots)
    if writes.completed:
        session.run(SQL["complete_jobs"], {"wanted": apsw.carray(tuple(writes.completed))})
