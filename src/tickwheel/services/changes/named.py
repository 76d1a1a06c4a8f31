"""Put by name: afterwards there is a job of that name with that definition, however often it is put.

Deploy scripts put their schedules on every start, so an equal definition changes nothing at all. A cancelled or
finished job of the name begins anew under the same id; a one-off that is over runs again only for a new instant.
"""

from msgspec.structs import replace

from tickwheel.domain.errors import Conflict
from tickwheel.domain.job import JobState, ScheduleType
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.run import TERMINAL
from tickwheel.ports.store import Change, JobView
from tickwheel.services.changes.edit import edit, edit_recurring, moved, redefined, retimed, timer_of
from tickwheel.services.changes.taken import Taken
from tickwheel.services.job_status import job_run


def replace_named(view: JobView, request: JobRequest, now_ms: int, taken: Taken) -> Change:
    """What putting `request` does to the job that has the name already.

    Raises `Conflict` for another kind of schedule, and as `edit` does.
    """
    job, run = view.job, job_run(view)
    stored, wanted = job.schedule_type, request.schedule_type
    if _kind(stored) is not _kind(wanted):
        raise Conflict(f"there is a {stored} job of that name; delete it before putting a {wanted} one")
    if job.recurring:
        return edit_recurring(view, request, now_ms, taken)
    if run is None or run.state not in TERMINAL:
        return edit(view, request, now_ms, taken)
    if retimed(job, request):
        changed = replace(moved(job, request, now_ms, taken.of(view, now_ms)), state=JobState.ACTIVE)
        return Change(job=changed, timer=timer_of(changed))
    return Change(job=redefined(job, request, now_ms))


def _kind(schedule_type: ScheduleType) -> ScheduleType:
    return ScheduleType.ONE_OFF if schedule_type is ScheduleType.DELAYED else schedule_type
