"""Workers' sessions: who can take queued runs, and who is over."""

from collections.abc import Sequence

from msgspec.structs import replace

from tickwheel.adapters.memory.tables import Tables
from tickwheel.ports.workers import WorkerNote, WorkerState


def enlist(tables: Tables, incarnation: str, note: WorkerNote, now_ms: int) -> None:
    """See `WorkerStore.enlist_worker`."""
    tables.ownership.enlist(incarnation)
    tables.sessions.setdefault(incarnation, WorkerState(incarnation, note, now_ms, now_ms))


def renew(tables: Tables, incarnation: str, note: WorkerNote, now_ms: int) -> bool:
    """See `WorkerStore.renew_worker`."""
    state = tables.sessions.get(incarnation)
    if state is None:
        return False
    tables.sessions[incarnation] = replace(state, note=note, seen_ms=now_ms)
    return True


def end(tables: Tables, incarnation: str, unseen_since_ms: int | None) -> bool:
    """See `WorkerStore.end_worker`."""
    state = tables.sessions.get(incarnation)
    if state is not None and unseen_since_ms is not None and state.seen_ms > unseen_since_ms:
        return False
    tables.sessions.pop(incarnation, None)
    tables.ownership.depose(incarnation, proved_dead=True)
    return True


def states(tables: Tables) -> Sequence[WorkerState]:
    """See `WorkerStore.workers`."""
    return sorted(tables.sessions.values(), key=lambda state: state.incarnation)
