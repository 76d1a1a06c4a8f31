"""Workers in other processes: their sessions, and the begin of queued runs under their names."""

from typing import Final

import msgspec

from tickwheel.adapters.postgresql.arrays import int2s, int8s, uuids
from tickwheel.adapters.postgresql.batches import bounds
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.columns import BEGUN, Rows, empty
from tickwheel.domain.id_columns import shards_of
from tickwheel.ports.workers import WorkerNote, WorkerState

SQL: Final = load_statements("sessions")


def enlist(session: Session, name: str, note: WorkerNote, pin_ms: int | None) -> None:
    """See `WorkerStore.enlist_worker`."""
    session.write(SQL["enlist"], {"me": name, "note": _encode(note), "pin": pin_ms})


def renew(session: Session, name: str, note: WorkerNote, pin_ms: int | None) -> bool:
    """See `WorkerStore.renew_worker`."""
    return bool(session.write(SQL["renew"], {"me": name, "note": _encode(note), "pin": pin_ms}))


def end(session: Session, name: str, unseen_since_ms: int | None) -> bool:
    """See `WorkerStore.end_worker`."""
    if session.write(SQL["end"], {"me": name, "unseen": unseen_since_ms}):
        return True
    [[count]] = session.rows(SQL["is_open"], {"me": name})
    return not count


def states(session: Session) -> list[WorkerState]:
    """See `WorkerStore.workers`."""
    return [
        WorkerState(name, msgspec.json.decode(note, type=WorkerNote), enlisted_ms, seen_ms)
        for name, note, enlisted_ms, seen_ms in session.rows(SQL["states"])
    ]


def begin(session: Session, hints: Rows, name: str, lease_ms: int, pin_ms: int | None) -> Rows:
    """See `Ledger.begin`."""
    begun = empty(BEGUN, len(hints))
    if len(hints):
        for number, attempt, lost_count in session.write(
            SQL["begin"], begin_bindings(hints, name, lease_ms, pin_ms)
        ):
            begun[number - 1] = (1, attempt, lost_count)
    return begun


def begin_bindings(hints: Rows, name: str, lease_ms: int, pin_ms: int | None) -> dict[str, object]:
    """The parameters of `begin` for HINT rows."""
    return {
        "me": name,
        "pin": pin_ms,
        "lease": lease_ms,
        "shard": int2s(shards_of(hints["job_id"])),
        "scheduled": int8s(hints["scheduled_ms"]),
        "id": uuids(hints["job_id"]),
        "fence": int8s(hints["fence"]),
        **bounds("scheduled", hints["scheduled_ms"]),
    }


def _encode(note: WorkerNote) -> str:
    return msgspec.json.encode(note).decode()
