"""Writes what a decision wants, in the transaction in which the decision was made.

The job's row is locked, so no claim of a recurring job and no other change comes between. Runs that are in flight,
and the first claim of a one-off, do not take that lock: their rows are written only from the state that the
decision saw, and where that fails, `RunMoved` has everything done again from the look at the job on.
"""

from typing import Any, Final, NamedTuple

from tickwheel.adapters.postgresql.records import cold_statements, home_of, job_bindings, uuid_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.views import Found, find_views
from tickwheel.domain.columns import FLAG_LANE_MASK
from tickwheel.domain.errors import Conflict
from tickwheel.domain.ids import shard_of
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.ledger_moves import CHANGE_MOVES
from tickwheel.domain.run import TERMINAL, IllegalTransition, RunState
from tickwheel.ports.store import Change, Changed, FirstTimer, LedgerWrite, NewJob

SQL: Final = cold_statements("change")


class RunMoved(Exception):
    """A run of the job was claimed, ended or moved while the change was being made: look again."""


class Moment(NamedTuple):
    """The store's clock as the decision saw it; `pinned_ms` stands in for the server's in statements."""

    now_ms: int
    pinned_ms: int | None


class _Row(NamedTuple):
    """A ledger row as the decision saw it; what is written is written to this row or not at all."""

    state: RunState
    gen: int
    fence: int
    lane: int
    timer_due_ms: int | None  # with -gen: the follow-up timer that it waits for


def insert_job(session: Session, new: NewJob, moment: Moment) -> Changed:
    """Write a definition with its first timer, under a name that nobody else has; raises `RunMoved` if one has."""
    job, timer = new.job, new.timer
    if job.named:
        _take_name(session, job)
    stored = None
    if timer is not None:
        session.rows(SQL["draw_xid"])
        stored = _insert_timer(session, job, timer, int(job.lane), moment)
    first: tuple[int | None, int | None, int | None] = (None, None, None)
    if not job.recurring:
        first = (None, job.scheduled_ms, None)
        if stored is not None:
            first = (stored.due_ms, stored.scheduled_ms, stored.gen)
    names = ("first_due_ms", "first_instant_ms", "first_gen")
    session.run(SQL["insert_job"], {**job_bindings(job), **dict(zip(names, first, strict=True))})
    _insert_tags(session, job)
    return Changed(find_views(session, [job.job_id])[0].view, () if stored is None else (stored,))


class Application:
    """One change of one job that is locked."""

    def __init__(self, session: Session, found: Found, moment: Moment) -> None:
        self._session, self._view, self._live, self._first = session, found.view, found.live, found.first
        self._moment = moment
        self._job = found.view.job
        self._seen: dict[int, _Row | None] = {
            run.scheduled_ms: _Row(run.state, run.gen, run.fence, int(run.lane), run.retry_ms)
            for run in found.view.open_runs
        }
        self._key: dict[str, Any] = {
            "shard": shard_of(self._job.job_id),
            "home": home_of(self._job.job_id),
            "job_id": uuid_of(self._job.job_id),
        }

    def apply(self, change: Change) -> Changed:
        """Check all of it, write all of it; gives the view after it and the timers to arm."""
        self._check(change)
        before = self._job
        self._run("draw_xid")
        if change.forget_key and before.idempotency_key is not None:
            self._run("forget_key", tenant_id=before.tenant_id, idempotency_key=before.idempotency_key)
        if change.job is not None:
            self._replace_job(change.job)
            if not before.recurring and change.job.scheduled_ms != before.scheduled_ms:
                self._name_run_anew(change.job)
        if change.drop_live:
            for live in self._live:
                self._drop_timer(live.timer)
        if change.cancel_open:
            for run in self._view.open_runs:
                self._write(LedgerWrite(run.scheduled_ms, RunState.CANCELLED))
        timers = [timer for timer in map(self._write, change.runs) if timer is not None]
        if change.timer is not None:
            timers.append(self._put_first_timer(change.timer))
        return Changed(find_views(self._session, [before.job_id])[0].view, tuple(timers))

    def _check(self, change: Change) -> None:
        states = {run.scheduled_ms: run.state for run in self._view.open_runs}
        if change.cancel_open:
            states = dict.fromkeys(states, RunState.CANCELLED)
        for write in change.runs:
            source = states.get(write.scheduled_ms)
            if source is None:
                stored = self._look_at(write.scheduled_ms)
                source = None if stored is None else stored.state
            if (source, write.state) not in CHANGE_MOVES:
                word = "none" if source is None else source.name
                raise IllegalTransition(f"a change may not move a run from {word} to {write.state.name}")
            if (write.state is RunState.SCHEDULED) is not (write.follow_up_ms is not None):
                raise ValueError("a run waits exactly when it has a follow-up timer")
            states[write.scheduled_ms] = write.state

    def _replace_job(self, after: Job) -> None:
        before, self._job = self._job, after
        self._session.run(SQL["update_job"], job_bindings(after))
        had_name, has_name = before.named and before.state is not JobState.DELETED, after.named
        has_name = has_name and after.state is not JobState.DELETED
        if (had_name, before.name) != (has_name, after.name):
            self._run("free_name", tenant_id=before.tenant_id, name=before.name)
            if has_name:
                try:
                    _take_name(self._session, after)
                except RunMoved:
                    raise Conflict(f"there is another job with the name {after.name!r}") from None
        if before.tags != after.tags:
            self._run("drop_tags", tenant_id=before.tenant_id, tags=list(before.tags))
            _insert_tags(self._session, after)

    def _name_run_anew(self, job: Job) -> None:
        """A one-off got another instant, with a timer or paused: its run is now the one of that instant."""
        if self._first.instant_ms is not None:
            self._run("list_run_of_one_off", scheduled_ms=self._first.instant_ms)
        first = {"due_ms": job.scheduled_ms, "scheduled_ms": job.scheduled_ms, "gen": job.version}
        self._run("set_first_timer", **first)
        self._first = self._first._replace(instant_ms=job.scheduled_ms)

    def _put_first_timer(self, timer: FirstTimer) -> FirstTimer:
        stored = _insert_timer(self._session, self._job, timer, int(self._job.lane), self._moment)
        if not self._job.recurring:
            key = {"due_ms": stored.due_ms, "scheduled_ms": stored.scheduled_ms, "gen": stored.gen}
            self._run("set_first_timer", **key)
            self._first = self._first._replace(instant_ms=stored.scheduled_ms)
        return stored

    def _drop_timer(self, timer: FirstTimer) -> None:
        self._run("drop_timer", due_ms=timer.due_ms, scheduled_ms=timer.scheduled_ms, gen=timer.gen)

    def _write(self, write: LedgerWrite) -> FirstTimer | None:
        """Write one ledger row; gives its follow-up timer."""
        instant = {"scheduled_ms": write.scheduled_ms}
        if write.state is not RunState.FAILED:
            self._run("unbury", **instant)
        seen = self._look_at(write.scheduled_ms)
        gen = (0 if seen is None else seen.gen) + (write.follow_up_ms is not None)
        lane = int(self._job.lane) if seen is None else seen.lane
        follow_up = None
        if write.follow_up_ms is not None:
            timer = FirstTimer(write.follow_up_ms, write.scheduled_ms, -gen)
            follow_up = _insert_timer(self._session, self._job, timer, lane, self._moment)
        due_ms = None if follow_up is None else follow_up.due_ms
        values: dict[str, Any] = {
            **instant,
            "gen": gen,
            "state": int(write.state),
            "skip_reason": int(write.skip_reason),
            "due_ms": due_ms,
            "finished_ms": self._moment.now_ms if write.state in TERMINAL else None,
        }
        if seen is None:
            self._insert_run(write.scheduled_ms, values)
        else:
            self._move_run("move_run" if follow_up is None else "let_run_wait", write, seen, values)
        fence = 0 if seen is None else seen.fence
        self._seen[write.scheduled_ms] = _Row(write.state, gen, fence, lane, due_ms)
        return follow_up

    def _insert_run(self, scheduled_ms: int, values: dict[str, Any]) -> None:
        """The row takes the place of the timer, which is taken back."""
        replaced = [live for live in self._live if live.timer.scheduled_ms == scheduled_ms]
        for live in replaced:
            self._drop_timer(live.timer)
        values["armed_ms"] = min((live.armed_ms for live in replaced), default=None)
        values["lane"] = int(self._job.lane)
        values["listed"] = self._job.recurring or self._first.instant_ms != scheduled_ms
        if not self._rows("insert_run", **values):
            raise RunMoved

    def _move_run(self, statement: str, write: LedgerWrite, seen: _Row, values: dict[str, Any]) -> None:
        guard = {"seen_state": int(seen.state), "seen_gen": seen.gen, "seen_fence": seen.fence}
        if not self._rows(statement, reset=write.reset_attempts, **values, **guard):
            raise RunMoved
        if seen.timer_due_ms is not None:
            self._drop_timer(FirstTimer(seen.timer_due_ms, write.scheduled_ms, -seen.gen))
        self._run("drop_lease", scheduled_ms=write.scheduled_ms)

    def _look_at(self, scheduled_ms: int) -> _Row | None:
        """The row of that instant as this change knows it: read once, then as it was written here."""
        if scheduled_ms not in self._seen:
            self._seen[scheduled_ms] = None
            for state, gen, fence, lane in self._rows("run_state", scheduled_ms=scheduled_ms):
                self._seen[scheduled_ms] = _Row(RunState(state), gen, fence, lane, None)
        return self._seen[scheduled_ms]

    def _run(self, statement: str, **bindings: Any) -> None:
        self._session.run(SQL[statement], {**self._key, **bindings})

    def _rows(self, statement: str, **bindings: Any) -> list[tuple[Any, ...]]:
        return self._session.rows(SQL[statement], {**self._key, **bindings})


def _insert_timer(session: Session, job: Job, timer: FirstTimer, lane: int, moment: Moment) -> FirstTimer:
    """Insert a timer, due now at the earliest; gives it as it is stored."""
    bindings = {
        "shard": shard_of(job.job_id),
        "job_id": uuid_of(job.job_id),
        "due_ms": timer.due_ms,
        "scheduled_ms": timer.scheduled_ms,
        "gen": timer.gen,
        "flags": job.timer_flags & ~FLAG_LANE_MASK | lane,
        "now_ms": moment.now_ms,
        "pinned_ms": moment.pinned_ms,
    }
    stored = session.rows(SQL["insert_timer"], bindings)
    return timer if not stored else FirstTimer(stored[0][0], timer.scheduled_ms, timer.gen)


def _take_name(session: Session, job: Job) -> None:
    key = {"tenant_id": job.tenant_id, "name": job.name, "job_id": uuid_of(job.job_id)}
    if not session.rows(SQL["take_name"], key):
        raise RunMoved


def _insert_tags(session: Session, job: Job) -> None:
    if job.tags:
        key = {"tenant_id": job.tenant_id, "job_id": uuid_of(job.job_id), "tags": list(job.tags)}
        session.run(SQL["insert_tags"], key)
