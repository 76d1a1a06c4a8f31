"""The filters of the list of jobs."""

from typing import Final

from tickwheel.domain.job import JobState, Lane, ScheduleType
from tickwheel.domain.limits import NAME_CHARS, TAG_CHARS
from tickwheel.domain.run import RunState
from tickwheel.interfaces.http.paging import paging
from tickwheel.interfaces.http.resource import Call
from tickwheel.interfaces.http.tenants import tenant_of
from tickwheel.ports.store import JobOrder, JobQuery

STATUSES: Final = (*(state.name for state in RunState), JobState.COMPLETED.name)
_STATUS_CHOICES: Final = {name: name for name in STATUSES}
_SCHEDULE_TYPES: Final = {kind.value: kind for kind in ScheduleType}
_LANES: Final = {lane.name: lane for lane in Lane}
_ORDERS: Final = {order.value: order for order in JobOrder}


def job_query(call: Call) -> JobQuery:
    """What is asked for. Raises `InvalidRequest` with every wrong parameter."""
    query = call.query
    limit, after = paging(query)
    wanted = JobQuery(
        tenant_id=tenant_of(call),
        limit=limit,
        order=query.choice("order", _ORDERS) or JobOrder.CREATED,
        status=query.choice("status", _STATUS_CHOICES),
        name_prefix=query.text("name_prefix", NAME_CHARS),
        schedule_type=query.choice("schedule_type", _SCHEDULE_TYPES),
        lane=query.choice("priority", _LANES),
        tag=query.text("tag", TAG_CHARS),
        due_from_ms=query.instant("due_from"),
        due_to_ms=query.instant("due_to"),
        after=after,
    )
    query.done()
    return wanted
