"""Edits: the definition of a job is replaced by what a request says.

| state of the run or job | another instant | anything else |
|---|---|---|
| recurring, active | due occurrences are settled first, then the next one after now | the same |
| recurring, paused | what came due in the pause is recorded as skipped; stays paused | the same |
| one-off, not started | the old instant ends as SKIPPED (superseded), a new timer | applies to the first attempt |
| one-off, paused | the same, and the new instant is paused | applies after the resume |
| one-off, running or waiting for a retry | Conflict | applies from the next attempt |
| one-off, over | Conflict | Conflict |

A run that waits keeps the lane that it began with. Which executor serves it is written into its timer, so the
type of the target (webhook or handler) can't change while any run is open.

A request that changes nothing writes nothing: no new version, no occurrence lost or doubled.
"""

from collections.abc import Set

from msgspec.structs import replace

from tickwheel.domain.errors import Conflict, FieldProblem, InvalidRequest
from tickwheel.domain.job import Job, JobState, Spec
from tickwheel.domain.limits import PAST_CLAMP_MS
from tickwheel.domain.requests.definition import with_stored_headers
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.run import IN_FLIGHT, TERMINAL, RunState, SkipReason
from tickwheel.ports.store import Change, FirstTimer, JobView, LedgerWrite, Run
from tickwheel.services.changes.recurring import active_state, first_timer_after, settle_due, skip_pause
from tickwheel.services.changes.taken import Taken
from tickwheel.services.job_status import instant_of, job_run
from tickwheel.services.new_jobs import place


def edit(view: JobView, request: JobRequest, now_ms: int, taken: Taken) -> Change:
    """Give the job the definition that `request` has (a request of the same kind: recurring or not).

    Raises `Conflict` by the table above, `InvalidRequest` for times that can't be.
    """
    job = view.job
    if job.named and request.name != job.name:
        raise InvalidRequest(
            [FieldProblem("job_name", "is what the job was put by and can't be changed", "conflict")]
        )
    if job.state is JobState.CANCELLED:
        raise Conflict("the job is CANCELLED; make another one instead")
    if job.recurring:
        return edit_recurring(view, request, now_ms, taken)
    return edit_once(view, request, now_ms, taken)


def edit_recurring(view: JobView, request: JobRequest, now_ms: int, taken: Taken) -> Change:
    """The first two rows of the table; a job that was over or cancelled begins anew."""
    job = view.job
    _refuse_another_executor(view, request)
    changed = redefined(job, request, now_ms)
    if changed is None and job.state is not JobState.CANCELLED:
        return Change()
    changed = changed or replace(job, version=job.version + 1, updated_ms=now_ms)
    changed = replace(changed, effective_ms=now_ms)
    place(request, now_ms)
    instants = taken.of(view, now_ms)
    if job.state is JobState.PAUSED:
        return Change(job=changed, drop_live=True, runs=skip_pause(job, now_ms, instants))
    writes = settle_due(view, now_ms, instants)
    timer = first_timer_after(changed, now_ms, instants)
    return Change(job=replace(changed, state=active_state(timer)), drop_live=True, timer=timer, runs=writes)


def redefined(job: Job, request: JobRequest, now_ms: int) -> Job | None:
    """`job` with the definition of `request` and the next version, its instant kept; None if it is the same."""
    spec = with_stored_headers(request.spec, job.spec)
    if was_moved_up(job, request) and request.at_ms is not None and spec.deadline_ms is not None:
        spec = replace(spec, deadline_ms=max(0, request.at_ms + spec.deadline_ms - instant_of(job)))
    changed = replace(
        job,
        name=request.name,
        schedule_type=request.schedule_type,
        lane=request.lane,
        spec=_of_trace(spec, job.spec.trace),
        payload=request.payload,
        tags=request.tags,
    )
    if changed == job:
        return None
    kept = _of_trace(spec, spec.trace or job.spec.trace)
    return replace(changed, spec=kept, version=job.version + 1, updated_ms=now_ms)


def _of_trace(spec: Spec, trace: str) -> Spec:
    return spec if spec.trace == trace else replace(spec, trace=trace)


def was_moved_up(job: Job, request: JobRequest) -> bool:
    """Whether the job's instant is what the long past one of `request` was moved up to when it was set."""
    return (
        request.at_ms is not None
        and job.scheduled_ms == job.effective_ms - PAST_CLAMP_MS
        and request.at_ms < job.scheduled_ms
    )


def retimed(job: Job, request: JobRequest) -> bool:
    """Whether `request` asks for another instant than the job has."""
    if request.delay_ms is not None:
        return True
    return request.at_ms is not None and request.at_ms != job.scheduled_ms and not was_moved_up(job, request)


def moved(job: Job, request: JobRequest, now_ms: int, taken: Set[int]) -> Job:
    """The job at the instant of `request`, or at the first millisecond after it that names no run yet."""
    placed = place(request, now_ms)
    scheduled_ms = placed.first_ms
    while scheduled_ms in taken or scheduled_ms == job.scheduled_ms:
        scheduled_ms += 1
    changed = redefined(job, request, now_ms) or replace(job, version=job.version + 1, updated_ms=now_ms)
    deadline_ms = placed.spec.deadline_ms
    return replace(
        changed,
        spec=replace(changed.spec, deadline_ms=deadline_ms),
        scheduled_ms=scheduled_ms,
        effective_ms=now_ms,
        state=job.state,
    )


def timer_of(job: Job) -> FirstTimer:
    """The timer of a one-off at its instant, under its version."""
    return FirstTimer(instant_of(job), instant_of(job), job.version)


def edit_once(view: JobView, request: JobRequest, now_ms: int, taken: Taken) -> Change:
    """The other rows of the table."""
    job, run = view.job, job_run(view)
    if run is not None and run.state in TERMINAL:
        raise Conflict(f"the job's run is {run.state.name}; trigger the job to run it once more")
    _refuse_another_executor(view, request)
    if retimed(job, request):
        return _move(view, run, request, now_ms, taken)
    changed = redefined(job, request, now_ms)
    if changed is None:
        return Change()
    if run is not None or view.live is None:
        return Change(job=changed)
    # The row makes every copy of the old timer void, so nothing can start what was asked for before.
    write = LedgerWrite(view.live.scheduled_ms, RunState.SCHEDULED, follow_up_ms=view.live.due_ms)
    return Change(job=changed, drop_live=True, runs=(write,))


def _refuse_another_executor(view: JobView, request: JobRequest) -> None:
    if view.open_runs and request.spec.target.type is not view.job.spec.target.type:
        raise Conflict(
            "target.type can't change while a run of the job is open; cancel the run or wait for its end"
        )


def _move(view: JobView, run: Run | None, request: JobRequest, now_ms: int, taken: Taken) -> Change:
    if run is not None and (run.state in IN_FLIGHT or run.fence > 0):
        word = "running" if run.state in IN_FLIGHT else "waiting for a retry"
        raise Conflict(f"the job is {word}: its instant can't be changed any more, the rest of it can")
    changed = moved(view.job, request, now_ms, taken.of(view, now_ms))
    old = LedgerWrite(instant_of(view.job), RunState.SKIPPED, SkipReason.SUPERSEDED)
    if run is not None and run.state is RunState.PAUSED:
        return Change(job=changed, runs=(old, LedgerWrite(instant_of(changed), RunState.PAUSED)))
    return Change(job=changed, drop_live=True, timer=timer_of(changed), runs=(old,))
