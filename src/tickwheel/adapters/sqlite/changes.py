"""Applies what a decision wants written to one job, inside the writer's transaction.

The writer is alone, so nothing comes between the look at the job, the decision and the writes. A move that
the table of `domain.run` does not have raises `IllegalTransition` before the first write.
"""

from typing import Any, Final

import msgspec

from tickwheel.adapters.sqlite import audit_log
from tickwheel.adapters.sqlite.codec import job_values, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.insert import write_jobs, write_tags
from tickwheel.adapters.sqlite.runs import find_row
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.adapters.sqlite.views import Live, find_job, find_named, read_live, read_views
from tickwheel.domain.job import Job
from tickwheel.domain.ledger_moves import CHANGE_MOVES
from tickwheel.domain.run import TERMINAL, IllegalTransition, RunState
from tickwheel.ports.audit_entries import change_entry, created_entry, run_entry
from tickwheel.ports.job_views import live_run
from tickwheel.ports.registry import Act, AuditEntry
from tickwheel.ports.store import (
    Change,
    Changed,
    FirstTimer,
    JobDecision,
    JobView,
    LedgerWrite,
    NamedDecision,
    RunDecision,
)

SQL: Final = load_statements("change")
CLAIM_SQL: Final = load_statements("claim")


def change_job(
    session: Session, tenant_id: str, job_id: bytes, decide: JobDecision, now_ms: int, act: Act | None = None
) -> Changed | None:
    """See `JobStore.change_job`."""
    if not find_job(session, tenant_id, job_id):
        return None
    view = read_views(session, [job_id])[0]
    return _apply_told(session, view, decide(view, now_ms), now_ms, act)


def change_run(
    session: Session,
    tenant_id: str,
    job_id: bytes,
    scheduled_ms: int,
    decide: RunDecision,
    now_ms: int,
    act: Act | None = None,
) -> Changed | None:
    """See `JobStore.change_run`."""
    if not find_job(session, tenant_id, job_id):
        return None
    view = read_views(session, [job_id])[0]
    run = find_row(session, tenant_id, job_id, scheduled_ms)
    if run is None:
        run = live_run(view)
        if run is None or run.scheduled_ms != scheduled_ms:
            return None
    change = decide(view, run, now_ms)
    changed = _Application(session, view, now_ms).apply(change)
    if act is not None:
        _tell(session, run_entry(act, run, change, now_ms))
    return changed


def put_named(
    session: Session, tenant_id: str, name: str, decide: NamedDecision, now_ms: int, act: Act | None = None
) -> Changed:
    """See `JobStore.put_named`."""
    job_id = find_named(session, tenant_id, name)
    view = None if job_id is None else read_views(session, [job_id])[0]
    decision = decide(view, now_ms)
    if isinstance(decision, Change):
        if view is None:
            raise ValueError("there is no job of that name to change")
        return _apply_told(session, view, decision, now_ms, act)
    if view is not None:
        raise ValueError("there is a live job of that name already")
    write_jobs(session, [decision], now_ms)
    if act is not None:
        _tell(session, created_entry(act, decision.job, now_ms))
    timers = () if decision.timer is None else (decision.timer,)
    return Changed(read_views(session, [decision.job.job_id])[0], timers)


def _apply_told(session: Session, view: JobView, change: Change, now_ms: int, act: Act | None) -> Changed:
    """Write the change of a job, and what the audit log says of it."""
    changed = _Application(session, view, now_ms).apply(change)
    if act is not None:
        _tell(session, change_entry(act, view, changed.view, change, now_ms))
    return changed


def _tell(session: Session, entry: AuditEntry | None) -> None:
    if entry is not None:
        audit_log.append(session, [entry])


class _Application:
    """One change of one job."""

    def __init__(self, session: Session, view: JobView, now_ms: int) -> None:
        self._session, self._view, self._now_ms = session, view, now_ms
        self._job_id = view.job.job_id
        self._live: list[Live] = read_live(session, [self._job_id]).get(self._job_id, [])

    def apply(self, change: Change) -> Changed:
        """Check all of it, write all of it; gives the view after it and the timers to arm."""
        self._check(change)
        job = self._view.job
        if change.forget_key and job.idempotency_key is not None:
            key = {"tenant_id": job.tenant_id, "idempotency_key": job.idempotency_key}
            self._run("forget_key", **key)
        if change.job is not None:
            self._replace_job(job, change.job)
            if not job.recurring and change.job.scheduled_ms != job.scheduled_ms:
                self._name_run_anew(change.job)
        if change.drop_live:
            self._drop_live(self._live)
        if change.cancel_open:
            for run in self._view.open_runs:
                self._write(LedgerWrite(run.scheduled_ms, RunState.CANCELLED))
        follow_ups = [self._write(write) for write in change.runs]
        timers = [timer for timer in (*follow_ups, change.timer) if timer is not None]
        if change.timer is not None:
            self._put_first_timer(change.job or job, change.timer)
        return Changed(read_views(self._session, [self._job_id])[0], tuple(timers))

    def _check(self, change: Change) -> None:
        states = {run.scheduled_ms: run.state for run in self._view.open_runs}
        if change.cancel_open:
            states = dict.fromkeys(states, RunState.CANCELLED)
        for write in change.runs:
            if write.scheduled_ms not in states:
                stored = self._stored_state(write.scheduled_ms)
                source = None if stored is None else RunState(stored[0])
            else:
                source = states[write.scheduled_ms]
            if (source, write.state) not in CHANGE_MOVES:
                word = "none" if source is None else source.name
                raise IllegalTransition(f"a change may not move a run from {word} to {write.state.name}")
            if (write.state is RunState.SCHEDULED) is not (write.follow_up_ms is not None):
                raise ValueError("a run waits exactly when it has a follow-up timer")
            states[write.scheduled_ms] = write.state

    def _replace_job(self, before: Job, after: Job) -> None:
        values = {"rows": pack_rows([job_values(after, None)]), "ids": self._job_id}
        self._session.run(SQL["update_job"], values)
        if before.tags != after.tags:
            tags = msgspec.json.encode(before.tags).decode()
            self._run("drop_tags", tenant_id=before.tenant_id, tags=tags)
            write_tags(self._session, [after])

    def _drop_live(self, live: list[Live]) -> None:
        for timer, _ in live:
            rows = pack_rows([(timer.due_ms, timer.scheduled_ms, timer.gen)])
            self._session.run(CLAIM_SQL["drop_timers"], {"rows": rows, "ids": self._job_id})

    def _name_run_anew(self, job: Job) -> None:
        """A one-off got another instant, with a timer or paused: its run is now the one of that instant."""
        self._run("list_run_of_one_off")
        self._run("set_first_timer", due_ms=job.scheduled_ms, scheduled_ms=job.scheduled_ms, gen=job.version)

    def _put_first_timer(self, job: Job, timer: FirstTimer) -> None:
        key = {"due_ms": timer.due_ms, "scheduled_ms": timer.scheduled_ms, "gen": timer.gen}
        if not job.recurring:
            self._run("set_first_timer", **key)
        self._run("insert_timer", now_ms=self._now_ms, **key)

    def _write(self, write: LedgerWrite) -> FirstTimer | None:
        """Write one ledger row; gives its follow-up timer."""
        instant = {"scheduled_ms": write.scheduled_ms}
        if write.state is not RunState.FAILED:
            self._run("unbury", **instant)
        stored = self._stored_state(write.scheduled_ms)
        values: dict[str, Any] = {
            **instant,
            "skip_reason": int(write.skip_reason),
            "due_ms": write.follow_up_ms,
            "finished_ms": self._now_ms if write.state in TERMINAL else None,
            "state": int(write.state),
        }
        gen = (0 if stored is None else stored[1]) + (write.follow_up_ms is not None)
        if stored is None:
            self._insert(write, gen, values)
        elif write.follow_up_ms is None:
            self._run("move_run", **values)
        else:
            self._run("let_run_wait", reset=write.reset_attempts, **values)
        return None if write.follow_up_ms is None else FirstTimer(write.follow_up_ms, write.scheduled_ms, -gen)

    def _insert(self, write: LedgerWrite, gen: int, values: dict[str, Any]) -> None:
        replaced = [live for live in self._live if live.timer.scheduled_ms == write.scheduled_ms]
        self._drop_live(replaced)
        armed_ms = min((live.armed_ms for live in replaced if live.armed_ms is not None), default=None)
        self._run("insert_run", gen=gen, armed_ms=armed_ms, **values)
        if write.follow_up_ms is not None:
            key = {"due_ms": write.follow_up_ms, "scheduled_ms": write.scheduled_ms, "gen": -gen}
            self._run("insert_timer", now_ms=self._now_ms, **key)

    def _stored_state(self, scheduled_ms: int) -> tuple[int, int] | None:
        key = {"scheduled_ms": scheduled_ms, "job_id": self._job_id}
        found: tuple[int, int] | None = self._session.value(SQL["run_state"], key)
        return found

    def _run(self, statement: str, **bindings: Any) -> None:
        self._session.run(SQL[statement], {"job_id": self._job_id, **bindings})
