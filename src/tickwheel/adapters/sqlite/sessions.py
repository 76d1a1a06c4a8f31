"""Workers in other processes: their sessions, and the begin of queued runs under their names."""

from typing import Final

import msgspec

from tickwheel.adapters.sqlite.codec import pack_columns, pack_id_column
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.columns import BEGUN, Rows, empty
from tickwheel.ports.workers import WorkerNote, WorkerState

SQL: Final = load_statements("sessions")


def enlist(session: Session, name: str, note: WorkerNote, now_ms: int) -> None:
    """See `WorkerStore.enlist_worker`."""
    session.run(SQL["name_worker"], {"name": name})
    session.run(SQL["enlist"], {"name": name, "note": _encode(note), "now_ms": now_ms})


def renew(session: Session, name: str, note: WorkerNote, now_ms: int) -> bool:
    """See `WorkerStore.renew_worker`."""
    return session.run(SQL["renew"], {"name": name, "note": _encode(note), "now_ms": now_ms}) > 0


def end(session: Session, name: str, unseen_since_ms: int | None) -> bool:
    """See `WorkerStore.end_worker`."""
    session.run(SQL["end"], {"name": name, "unseen_since_ms": unseen_since_ms})
    return not session.value(SQL["is_open"], {"name": name})


def states(session: Session) -> list[WorkerState]:
    """See `WorkerStore.workers`."""
    rows = session.table(SQL["states"])
    return sorted(
        (
            WorkerState(name, msgspec.json.decode(note, type=WorkerNote), enlisted_ms, seen_ms)
            for name, note, enlisted_ms, seen_ms in rows
        ),
        key=lambda state: state.incarnation,
    )


def begin(session: Session, hints: Rows, name: str, now_ms: int, lease_ms: int) -> Rows:
    """See `Ledger.begin`; a worker whose session is over begins nothing."""
    begun = empty(BEGUN, len(hints))
    if not len(hints) or not session.value(SQL["is_open"], {"name": name}):
        return begun
    batch = {"rows": pack_columns(hints, ["scheduled_ms", "fence"]), "ids": pack_id_column(hints)}
    seen = set()
    for number, attempt, lost_count in session.table(SQL["queued"], batch):
        key = hints["job_id"][number].tobytes(), int(hints["scheduled_ms"][number])
        if key not in seen:  # the same hint twice in one batch begins once
            begun[number] = (1, attempt, lost_count)
            seen.add(key)
    session.run(SQL["begin"], {**batch, "name": name, "now_ms": now_ms, "lease_ms": lease_ms})
    return begun


def _encode(note: WorkerNote) -> str:
    return msgspec.json.encode(note).decode()
