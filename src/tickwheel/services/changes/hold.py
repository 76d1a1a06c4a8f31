"""Pause and resume. Both are repeatable: doing it twice changes nothing the second time."""

from msgspec.structs import replace

from tickwheel.domain.errors import Conflict
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import IN_FLIGHT, RunState, SkipReason
from tickwheel.domain.schedule import deadline_passed
from tickwheel.ports.store import Change, JobView, LedgerWrite
from tickwheel.services.changes.recurring import active_state, first_timer_after, settle_due, settle_pause
from tickwheel.services.changes.taken import Taken
from tickwheel.services.job_status import instant_of, job_run, job_status


def pause(view: JobView, now_ms: int, taken: Taken) -> Change:
    """No new run begins until the job is resumed; runs of a recurring job that are under way go on.

    A recurring job's due occurrences are settled first. Raises `Conflict` for a job that is over, and for a
    one-off that is running.
    """
    job = view.job
    if job.state is JobState.PAUSED:
        return Change()
    paused = _next_version(job, JobState.PAUSED, now_ms)
    if not job.recurring:
        return _pause_once(view, paused)
    _refuse_unless_active(view)
    writes = settle_due(view, now_ms, taken.of(view, now_ms))
    return Change(job=replace(paused, effective_ms=now_ms), drop_live=True, runs=writes)


def resume(view: JobView, now_ms: int, taken: Taken) -> Change:
    """Go on. What came due in the pause is settled by the catch-up policy; a one-off that is past runs at once.

    Raises `Conflict` for a job that is over.
    """
    job = view.job
    if job.state is not JobState.PAUSED:
        _refuse_unless_active(view)
        return Change()
    resumed = _next_version(job, JobState.ACTIVE, now_ms)
    if not job.recurring:
        return Change(job=resumed, runs=(_resumed_run(job, now_ms),))
    instants = taken.of(view, now_ms)
    writes = settle_pause(job, now_ms, instants)
    timer = first_timer_after(resumed, now_ms, instants)
    resumed = replace(resumed, effective_ms=now_ms, state=active_state(timer))
    return Change(job=resumed, drop_live=True, timer=timer, runs=writes)


def _pause_once(view: JobView, paused: Job) -> Change:
    run = job_run(view)
    if run is not None and run.state in IN_FLIGHT:
        raise Conflict("the job is running; cancel it, or wait for its end")
    if run is not None and run.state is not RunState.SCHEDULED:
        raise Conflict(f"the job's run is {run.state.name} already")
    return Change(job=paused, drop_live=True, runs=(LedgerWrite(instant_of(paused), RunState.PAUSED),))


def _resumed_run(job: Job, now_ms: int) -> LedgerWrite:
    scheduled_ms = instant_of(job)
    if deadline_passed(job.spec, scheduled_ms, now_ms):
        return LedgerWrite(scheduled_ms, RunState.SKIPPED, SkipReason.DEADLINE)
    return LedgerWrite(scheduled_ms, RunState.SCHEDULED, follow_up_ms=max(scheduled_ms, now_ms))


def _refuse_unless_active(view: JobView) -> None:
    run = job_run(view)
    over = run is not None and run.state not in IN_FLIGHT | {RunState.SCHEDULED}
    if over or view.job.state is not JobState.ACTIVE:
        raise Conflict(f"the job is {job_status(view)} already")


def _next_version(job: Job, state: JobState, now_ms: int) -> Job:
    return replace(job, state=state, version=job.version + 1, updated_ms=now_ms)
