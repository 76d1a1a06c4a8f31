"""Changes of one job: decided and written under the lock of its row.

`FOR UPDATE` on the job waits for the claims of its occurrences that are open (they hold `FOR SHARE`). So does the
count of changes of its shard, which every change raises, for claims of one-offs that hold that instead. What is
read after both, in statements of their own, sees what those claims committed. So a cancel that has answered has
cancelled every run that was ever claimed, and an edit never plans an occurrence that an open claim is about to
take.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import psycopg
from psycopg.errors import CheckViolation

from tickwheel.adapters.postgresql import audit_log
from tickwheel.adapters.postgresql.application import SQL, Application, Moment, RunMoved, insert_job
from tickwheel.adapters.postgresql.partitions import make_leaves
from tickwheel.adapters.postgresql.records import home_of, uuid_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.views import SQL as VIEWS
from tickwheel.adapters.postgresql.views import Found, find_runs, find_views
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.ids import shard_of
from tickwheel.domain.job import JobState
from tickwheel.ports.audit_entries import change_entry, created_entry, run_entry
from tickwheel.ports.job_views import live_run
from tickwheel.ports.registry import Act, AuditEntry
from tickwheel.ports.store import Change, Changed, JobDecision, NamedDecision, NewJob, RunDecision

LOOKS: Final = 20
"""How often a change begins anew because its runs moved or a leaf was missing."""

T = TypeVar("T")


def change_job(
    session: Session,
    tenant_id: str,
    job_id: bytes,
    decide: JobDecision,
    pinned_ms: int | None,
    act: Act | None = None,
) -> Changed | None:
    """See `JobStore.change_job`."""

    def change(needs: "_Needs") -> Changed | None:
        moment = _lock(session, tenant_id, job_id, pinned_ms)
        if moment is None:
            return None
        found = find_views(session, [job_id])[0]
        decision = needs.note(decide(found.view, moment.now_ms), moment)
        return _apply_told(session, found, decision, moment, act)

    return _until_settled(session, change)


def change_run(
    session: Session,
    tenant_id: str,
    job_id: bytes,
    scheduled_ms: int,
    decide: RunDecision,
    pinned_ms: int | None,
    act: Act | None = None,
) -> Changed | None:
    """See `JobStore.change_run`."""

    def change(needs: "_Needs") -> Changed | None:
        moment = _lock(session, tenant_id, job_id, pinned_ms)
        if moment is None:
            return None
        found = find_views(session, [job_id])[0]
        key = (job_id, scheduled_ms)
        run = find_runs(session, [key], {job_id: tenant_id}).get(key)
        if run is None:
            run = live_run(found.view)
            if run is None or run.scheduled_ms != scheduled_ms:
                return None
        decision = needs.note(decide(found.view, run, moment.now_ms), moment)
        changed = Application(session, found, moment).apply(decision)
        if act is not None:
            _tell(session, run_entry(act, run, decision, moment.now_ms))
        return changed

    return _until_settled(session, change)


def put_named(
    session: Session,
    tenant_id: str,
    name: str,
    decide: NamedDecision,
    pinned_ms: int | None,
    act: Act | None = None,
) -> Changed:
    """See `JobStore.put_named`. Two who create one name meet at its row: one waits, and looks again."""

    def change(needs: "_Needs") -> Changed:
        holder = _holder(session, tenant_id, name)
        if holder is None:
            moment = _now(session, pinned_ms)
            decision = decide(None, moment.now_ms)
            if isinstance(decision, Change):
                raise ValueError("there is no job of that name to change")
            needs.note_job(decision, moment)
            created = insert_job(session, decision, moment)
            if act is not None:
                _tell(session, created_entry(act, decision.job, moment.now_ms))
            return created
        locked = _lock(session, tenant_id, holder, pinned_ms)
        if locked is None or _holder(session, tenant_id, name) != holder:
            raise RunMoved
        found = find_views(session, [holder])[0]
        decision = decide(found.view, locked.now_ms)
        if not isinstance(decision, Change):
            raise ValueError("there is a live job of that name already")
        return _apply_told(session, found, needs.note(decision, locked), locked, act)

    return _until_settled(session, change)


def _apply_told(session: Session, found: Found, change: Change, moment: Moment, act: Act | None) -> Changed:
    """Write the change of a job, and what the audit log says of it."""
    changed = Application(session, found, moment).apply(change)
    if act is not None:
        _tell(session, change_entry(act, found.view, changed.view, change, moment.now_ms))
    return changed


def _tell(session: Session, entry: AuditEntry | None) -> None:
    if entry is not None:
        audit_log.append(session, [entry])


class _Needs:
    """The instants that a change writes to, should a leaf be missing."""

    def __init__(self) -> None:
        self.values: dict[str, set[int]] = {"timers": set(), "runs": set(), "attempts": set(), "jobs": set()}
        self.now_ms = 0

    def note(self, change: Change, moment: Moment) -> Change:
        """Remember what the change writes; gives it back."""
        self.now_ms = moment.now_ms
        for table in ("runs", "attempts"):
            self.values[table].update(write.scheduled_ms for write in change.runs)
        due = [write.follow_up_ms for write in change.runs if write.follow_up_ms is not None]
        due += [] if change.timer is None else [change.timer.due_ms]
        self.values["timers"].update(max(due_ms, moment.now_ms) for due_ms in due)
        return change

    def note_job(self, new: NewJob, moment: Moment) -> None:
        """The same for a new job."""
        self.note(Change(timer=new.timer), moment)
        self.values["jobs"].add(home_of(new.job.job_id))

    def make(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Make the leaves that are missing. What was dropped is opened again for a run that a person asks for."""
        for table, values in self.values.items():
            make_leaves(connection, table, values, self.now_ms, reopen=table in ("runs", "attempts"))


def _until_settled(session: Session, change: Callable[[_Needs], T]) -> T:
    for _ in range(LOOKS):
        needs = _Needs()
        try:
            with session.transaction():
                return change(needs)
        except RunMoved:
            continue
        except CheckViolation:  # a row found no leaf
            needs.make(session.connection)
    raise StoreUnavailable("the job's runs moved again and again while it was being changed")


def _lock(session: Session, tenant_id: str, job_id: bytes, pinned_ms: int | None) -> Moment | None:
    """Lock the job; None if there is none."""
    place = {"shard": shard_of(job_id), "home": home_of(job_id)}
    key = {**place, "job_id": uuid_of(job_id), "tenant_id": tenant_id}
    rows = session.rows(VIEWS["lock_job"], key)
    if not rows or rows[0][0] == JobState.DELETED:
        return None
    return _now(session, pinned_ms)


def _now(session: Session, pinned_ms: int | None) -> Moment:
    return Moment(session.rows(SQL["clock"], {"pinned_ms": pinned_ms})[0][0], pinned_ms)


def _holder(session: Session, tenant_id: str, name: str) -> bytes | None:
    rows = session.rows(VIEWS["named_job"], {"tenant_id": tenant_id, "name": name})
    return rows[0][0].bytes if rows else None
