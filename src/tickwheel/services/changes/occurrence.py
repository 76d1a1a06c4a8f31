"""One run: cancel it, or give a failed one another round."""

from msgspec.structs import replace

from tickwheel.domain.errors import Conflict
from tickwheel.domain.job import JobState
from tickwheel.domain.run import TERMINAL, RunState
from tickwheel.ports.store import Change, JobView, LedgerWrite, Run
from tickwheel.services.changes.end import cancel
from tickwheel.services.changes.recurring import active_state, first_timer_after
from tickwheel.services.changes.taken import Taken
from tickwheel.services.job_status import instant_of


def cancel_run(view: JobView, run: Run, now_ms: int, taken: Taken) -> Change:
    """End one run; a recurring job goes on with the next occurrence. Repeatable.

    Raises `Conflict` for a run that ended in another way.
    """
    job = view.job
    if run.state is RunState.CANCELLED:
        return Change()
    if run.state in TERMINAL:
        raise Conflict(f"the run is {run.state.name} already")
    if not job.recurring and instant_of(job) == run.scheduled_ms:
        return cancel(view, now_ms)
    write = LedgerWrite(run.scheduled_ms, RunState.CANCELLED)
    if view.live is None or view.live.scheduled_ms != run.scheduled_ms:
        return Change(runs=(write,))
    # Whoever writes the row of the live occurrence plants the next timer, else the job never fires again.
    instants = taken.of(view, now_ms) | {run.scheduled_ms}
    timer = first_timer_after(job, max(run.scheduled_ms, job.effective_ms), instants)
    changed = replace(job, state=active_state(timer), updated_ms=now_ms) if timer is None else None
    return Change(job=changed, drop_live=True, timer=timer, runs=(write,))


def redrive(view: JobView, run: Run, now_ms: int) -> Change:
    """Give a failed run all its attempts again, the first of them at once; its history stays.

    Raises `Conflict` unless the run is FAILED and its job was not cancelled.
    """
    if run.state is not RunState.FAILED:
        raise Conflict(f"the run is {run.state.name}; only FAILED ones can be redriven")
    if view.job.state is JobState.CANCELLED:
        raise Conflict("the job of the run is CANCELLED; trigger it to run it once more")
    write = LedgerWrite(run.scheduled_ms, RunState.SCHEDULED, follow_up_ms=now_ms, reset_attempts=True)
    return Change(runs=(write,))
