"""The standing check; see `ports.audit`."""

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from itertools import islice

from tickwheel.adapters.memory.tables import LedgerRow, RunKey, Tables
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import IN_FLIGHT, TERMINAL, RunState
from tickwheel.ports.audit import EXAMPLE_COUNT, OVERDUE_MS, AuditPiece, Standing

_OVER = (JobState.CANCELLED, JobState.COMPLETED, JobState.DELETED)


def audit_jobs(tables: Tables, after: str, limit: int, now_ms: int) -> AuditPiece:
    """See `Audited.audit_jobs`."""
    ids = list(islice((job_id for job_id in sorted(tables.jobs) if job_id.hex() > after), limit))
    judged = [((job_id, 0), _of_job(tables, tables.jobs[job_id], now_ms)) for job_id in ids]
    return _piece(judged, ids[-1].hex() if len(ids) == limit else None)


def audit_runs(tables: Tables, after: str, limit: int, now_ms: int, open_only: bool) -> AuditPiece:
    """See `Audited.audit_runs`."""
    listed = (key for key in sorted(tables.ledger) if _cursor(key) > after and _is_listed(tables, key, open_only))
    keys = list(islice(listed, limit))
    judged = [(key, _of_run(tables, tables.ledger[key], now_ms)) for key in keys]
    return _piece(judged, _cursor(keys[-1]) if len(keys) == limit else None)


def audit_slots(tables: Tables) -> int:
    """See `Audited.audit_slots`."""
    running = sum(used.running for used in tables.slots.values())
    known = sum(len(names) for names in tables.slots_of.values())
    waiting = [key for used in tables.slots.values() for key in used.waiting]
    strays = sum(not _is(tables, key, {RunState.SCHEDULED}) for key in waiting)
    for key, names in tables.slots_of.items():
        flying = [name for name in names if key not in tables.slots[name].waiting]
        strays += 0 if _is(tables, key, IN_FLIGHT) else len(flying)
    return strays + abs(running + len(waiting) - known)


def _is(tables: Tables, key: RunKey, states: Set[RunState]) -> bool:
    row = tables.ledger.get(key)
    return row is not None and row.run.state in states


def _of_job(tables: Tables, job: Job, now_ms: int) -> Standing:
    if job.state in _OVER:
        return Standing.ENDED
    live = tables.live_timers(job.job_id)
    if not job.recurring:
        row = tables.ledger.get((job.job_id, job.scheduled_ms or 0))
        if row is not None:
            return _of_run(tables, row, now_ms)
    elif job.state is JobState.PAUSED:
        return Standing.PAUSED
    return _of_timers([timer.due_ms for timer in live], now_ms)


def _of_run(tables: Tables, row: LedgerRow, now_ms: int) -> Standing:
    run = row.run
    if run.state in TERMINAL:
        return Standing(run.state.name.lower())
    if run.state in IN_FLIGHT:
        return Standing.PAST_LEASE if (run.lease_ms or 0) <= now_ms else Standing.IN_FLIGHT
    if run.state is RunState.PAUSED:
        return Standing.PAUSED
    follow_ups = [
        timer.due_ms
        for timer in tables.timers_of.get(run.job_id, ())
        if timer.scheduled_ms == run.scheduled_ms and timer.gen == -run.gen
    ]
    return _of_timers(follow_ups, now_ms)


def _of_timers(due_ms: Sequence[int], now_ms: int) -> Standing:
    if not due_ms:
        return Standing.UNACCOUNTED
    return Standing.OVERDUE if min(due_ms) <= now_ms - OVERDUE_MS else Standing.WAITING


def _is_listed(tables: Tables, key: RunKey, open_only: bool) -> bool:
    job = tables.jobs.get(key[0])
    if job is not None and not job.recurring and job.scheduled_ms == key[1]:
        return False
    return not open_only or tables.ledger[key].run.state not in TERMINAL


def _cursor(key: RunKey) -> str:
    return f"{key[0].hex()}{key[1] + (1 << 62):020d}"


def _piece(judged: Iterable[tuple[RunKey, Standing]], after: str | None) -> AuditPiece:
    judged = list(judged)
    lost = tuple(key for key, standing in judged if standing is Standing.UNACCOUNTED)
    return AuditPiece(Counter(standing for _, standing in judged), lost[:EXAMPLE_COUNT], after)
