"""Applies what a decision wants written to one job: checked as a whole first, then written as a whole.

Nothing can come between the look at the job and the write, for neither awaits anything. A move that the table of
`domain.run` does not have raises `IllegalTransition` before the first write.
"""

from collections.abc import Callable

from msgspec.structs import replace

from tickwheel.adapters.memory import audit_log
from tickwheel.adapters.memory.tables import LedgerRow, Tables
from tickwheel.adapters.memory.views import job_view
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.ledger_moves import CHANGE_MOVES
from tickwheel.domain.run import TERMINAL, IllegalTransition, RunState
from tickwheel.ports.audit_entries import change_entry, run_entry
from tickwheel.ports.job_views import live_run
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Change, Changed, FirstTimer, JobView, LedgerWrite, NewJob, Run


def change_job(
    tables: Tables,
    tenant_id: str,
    job_id: bytes,
    decide: Callable[[JobView, int], Change],
    now_ms: int,
    act: Act | None = None,
) -> Changed | None:
    """See `JobStore.change_job`."""
    job = find_job(tables, tenant_id, job_id)
    if job is None:
        return None
    view = job_view(tables, job)
    return apply_told(tables, view, decide(view, now_ms), now_ms, act)


def change_run(
    tables: Tables,
    tenant_id: str,
    job_id: bytes,
    scheduled_ms: int,
    decide: Callable[[JobView, Run, int], Change],
    now_ms: int,
    act: Act | None = None,
) -> Changed | None:
    """See `JobStore.change_run`."""
    job = find_job(tables, tenant_id, job_id)
    if job is None:
        return None
    view = job_view(tables, job)
    run = find_run(tables, view, scheduled_ms)
    if run is None:
        return None
    change = decide(view, run, now_ms)
    changed = apply(tables, job, change, now_ms)
    entry = None if act is None else run_entry(act, run, change, now_ms)
    if entry is not None:
        audit_log.append(tables, [entry])
    return changed


def apply_told(tables: Tables, view: JobView, change: Change, now_ms: int, act: Act | None) -> Changed:
    """Write the change of a job, and what the audit log says of it."""
    changed = apply(tables, view.job, change, now_ms)
    entry = None if act is None else change_entry(act, view, changed.view, change, now_ms)
    if entry is not None:
        audit_log.append(tables, [entry])
    return changed


def find_job(tables: Tables, tenant_id: str, job_id: bytes) -> Job | None:
    """The tenant's job unless it is deleted."""
    job = tables.jobs.get(job_id)
    if job is None or job.tenant_id != tenant_id or job.state is JobState.DELETED:
        return None
    return job


def find_run(tables: Tables, view: JobView, scheduled_ms: int) -> Run | None:
    """The ledger row of that instant, or the live occurrence."""
    row = tables.ledger.get((view.job.job_id, scheduled_ms))
    if row is not None:
        return row.run
    live = live_run(view)
    return live if live is not None and live.scheduled_ms == scheduled_ms else None


def insert_job(tables: Tables, new: NewJob, now_ms: int) -> None:
    """Write a definition and its first timer."""
    tables.put_job(new.job)
    if new.timer is not None:
        tables.put_timer(new.job, new.timer, now_ms)


def apply(tables: Tables, job: Job, change: Change, now_ms: int) -> Changed:
    """Write the change; gives the view after it and the timers to arm."""
    _check(tables, job.job_id, change)
    timers: list[FirstTimer] = []
    if change.forget_key:
        tables.forget_key(job)
    if change.job is not None:
        job = change.job
        tables.put_job(job)
    if change.cancel_open:
        for scheduled_ms in _open_instants(tables, job.job_id):
            _write(tables, job, LedgerWrite(scheduled_ms, RunState.CANCELLED), now_ms)
    for write in change.runs:
        follow_up = _write(tables, job, write, now_ms)
        if follow_up is not None:
            timers.append(follow_up)
    if change.drop_live:
        for key in tables.live_timers(job.job_id):
            tables.drop_timer(key)
    if change.timer is not None:
        tables.put_timer(job, change.timer, now_ms)
        timers.append(change.timer)
    return Changed(job_view(tables, job), tuple(timers))


def _open_instants(tables: Tables, job_id: bytes) -> list[int]:
    rows = tables.runs_of.get(job_id, {})
    return [instant for instant, row in sorted(rows.items()) if row.run.state not in TERMINAL]


def _check(tables: Tables, job_id: bytes, change: Change) -> None:
    states: dict[int, RunState | None] = {
        instant: row.run.state for instant, row in tables.runs_of.get(job_id, {}).items()
    }
    if change.cancel_open:
        states.update(dict.fromkeys(_open_instants(tables, job_id), RunState.CANCELLED))
    for write in change.runs:
        source = states.get(write.scheduled_ms)
        if (source, write.state) not in CHANGE_MOVES:
            word = "none" if source is None else source.name
            raise IllegalTransition(f"a change may not move a run from {word} to {write.state.name}")
        if (write.state is RunState.SCHEDULED) is not (write.follow_up_ms is not None):
            raise ValueError("a run waits exactly when it has a follow-up timer")
        states[write.scheduled_ms] = write.state


def _write(tables: Tables, job: Job, write: LedgerWrite, now_ms: int) -> FirstTimer | None:
    row = tables.ledger.get((job.job_id, write.scheduled_ms)) or LedgerRow(_blank(tables, job, write))
    run = replace(
        row.run,
        state=write.state,
        skip_reason=write.skip_reason,
        retry_ms=write.follow_up_ms,
        lease_ms=None,
        finished_ms=now_ms if write.state in TERMINAL else None,
    )
    if write.reset_attempts:
        row.unstarted_count = 0
        run = replace(run, attempt=0, lost_count=0)
    if write.state is not RunState.FAILED:
        tables.dead.pop((job.job_id, write.scheduled_ms), None)
    tables.drop_timers_of_run(job.job_id, write.scheduled_ms)
    if write.follow_up_ms is None:
        tables.put_run(row, run)
        return None
    run = replace(run, gen=run.gen + 1, worker=None, claimed_ms=None, started_ms=None, beat_ms=None)
    tables.put_run(row, run)
    follow_up = FirstTimer(write.follow_up_ms, write.scheduled_ms, -run.gen)
    tables.put_timer(job, follow_up, now_ms, run.lane)
    return follow_up


def _blank(tables: Tables, job: Job, write: LedgerWrite) -> Run:
    keys = tables.timers_of.get(job.job_id, set())
    stored = [tables.timers[key].stored_ms for key in keys if key.scheduled_ms == write.scheduled_ms]
    return Run(
        job_id=job.job_id,
        tenant_id=job.tenant_id,
        scheduled_ms=write.scheduled_ms,
        state=RunState.SCHEDULED,
        gen=0,
        fence=0,
        attempt=0,
        lane=job.lane,
        armed_ms=min(stored) if stored else None,
    )
