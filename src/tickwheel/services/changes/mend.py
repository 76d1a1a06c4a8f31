"""Gives an active recurring job whose chain of timers is broken exactly one next timer again."""

from msgspec.structs import replace

from tickwheel.domain.job import JobState
from tickwheel.ports.store import Change, FirstTimer, JobView
from tickwheel.services.changes.recurring import active_state, first_timer_after
from tickwheel.services.changes.taken import Taken


def mend(view: JobView, live_count: int, now_ms: int, taken: Taken) -> Change:
    """The repair of a job that was seen with `live_count` live timers, unless somebody else was faster.

    The new timer has a new version, so that every copy of a double one dies of its age. Of double timers the
    soonest counts. Of none: the first occurrence after the last one that is known, and if that is past, its
    claim catches up by the policy of the job.
    """
    job = view.job
    if job.state is not JobState.ACTIVE or (view.live is not None and not live_count):
        return Change()
    mended = replace(job, version=job.version + 1, updated_ms=now_ms)
    if view.live is not None:
        timer: FirstTimer | None = FirstTimer(view.live.due_ms, view.live.scheduled_ms, mended.version)
    else:
        known_ms = job.effective_ms if view.last_run is None else view.last_run.scheduled_ms
        after_ms = min(now_ms, max(job.effective_ms, known_ms))
        timer = first_timer_after(mended, after_ms, taken.of(view, now_ms))
    return Change(job=replace(mended, state=active_state(timer)), drop_live=True, timer=timer)
