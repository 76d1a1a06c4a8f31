"""What readers see of jobs: the answer's schema, and how it is made from the stored view.

A job is shown with the same field names that a request has and with all defaults written out, so that what was
read can be sent back unchanged; what only the server knows (status, instants of runs) stands beside it under names
of its own. Header values of a target are never shown, the payload is shown byte for byte.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from tickwheel.domain.ids import job_id_text
from tickwheel.domain.job import Job, Target
from tickwheel.domain.requests.definition import definition_of
from tickwheel.interfaces.http.run_views import RunBrief, run_brief
from tickwheel.interfaces.http.wire import iso, iso_text
from tickwheel.ports.store import JobView
from tickwheel.services.job_status import job_status, next_run_ms, overdue_ms

Members: TypeAlias = dict[str, Any]


def _as_requested(name: str) -> Meta:
    return Meta(extra_json_schema={"$ref": f"#/components/schemas/JobRequest/properties/{name}"})


class JobBody(msgspec.Struct):
    """A job. Attempt, lease, heartbeat and token are those of the current run, or of the last one."""

    job_id: str
    tenant_id: str
    status: str
    last_heartbeat_at: str | None
    current_lease_worker_id: str | None
    current_attempt: int
    current_progress: float | None
    current_note: str | None
    fencing_token: int | None
    job_name: str | None
    schedule_type: str
    execute_at: str | None
    cron_expression: str | None
    timezone: str | None
    start_at: str | None
    end_at: str | None
    priority: str
    target: Annotated[Members, _as_requested("target")]
    payload: Any
    retry_policy: Annotated[Members, _as_requested("retry_policy")]
    catch_up: Annotated[Members | None, _as_requested("catch_up")]
    overlap: str | None
    concurrency: Annotated[list[Members] | None, _as_requested("concurrency")]
    deadline_seconds: int | float | None
    tags: list[str]
    idempotency_key: str | None
    next_run_time_epoch_ms: int | None
    next_run_time_iso: str | None
    overdue_seconds: Annotated[
        int | None,
        Meta(
            description="null while all is well. Else how long the next run has been due without a start; it shows"
            " when that is longer than the job's period, a minute at most."
        ),
    ]
    waits_for: Annotated[
        str | None,
        Meta(
            description="Why a due run is not started, as the node that answers sees it; null while it knows of no"
            " reason. `failing`: its host answers nothing and is asked now and then only. `retry_after`: the host"
            " wants to be left alone. `slowed`: the host pushes back and gets less. `full`: all its places are in"
            " use, or all slots of the workers that do it. `rate`: its rate, or its handler's, is used up."
            " `worker`: no worker that lives does it. `disabled`: its tenant is. `due_per_second`,"
            " `concurrency`: that limit of its tenant is used up. Shown for single jobs, not in lists."
        ),
    ]
    last_run: RunBrief | None
    version: int
    created_at: str
    updated_at: str | None


def job_body(
    view: JobView, now_ms: int, waits_for: Callable[[Target, str], str | None] = lambda target, tenant_id: None
) -> JobBody:
    """The whole answer for one job, as it stands at `now_ms`."""
    job = view.job
    shown = view.current or view.last_run
    next_ms, late_ms = next_run_ms(view), overdue_ms(view, now_ms)
    asked = definition_of(job)
    return JobBody(
        job_id=job_id_text(job.job_id),
        tenant_id=job.tenant_id,
        status=job_status(view),
        last_heartbeat_at=iso(shown.beat_ms) if shown else None,
        current_lease_worker_id=shown.worker if shown else None,
        current_attempt=shown.attempt if shown else 0,
        current_progress=shown.progress if shown else None,
        current_note=shown.note if shown else None,
        fencing_token=(shown.fence or None) if shown else None,
        job_name=asked.get("job_name"),
        schedule_type=asked["schedule_type"],
        execute_at=asked.get("execute_at"),
        cron_expression=asked.get("cron_expression"),
        timezone=asked.get("timezone"),
        start_at=asked.get("start_at"),
        end_at=asked.get("end_at"),
        priority=asked["priority"],
        target=asked["target"],
        payload=asked.get("payload"),
        retry_policy=asked["retry_policy"],
        catch_up=asked.get("catch_up"),
        overlap=asked.get("overlap"),
        concurrency=asked.get("concurrency"),
        deadline_seconds=asked.get("deadline_seconds"),
        tags=asked.get("tags", []),
        idempotency_key=asked.get("idempotency_key"),
        next_run_time_epoch_ms=next_ms,
        next_run_time_iso=iso(next_ms),
        overdue_seconds=None if late_ms is None else late_ms // 1000,
        waits_for=waits_for(job.spec.target, job.tenant_id) if next_ms is not None and next_ms <= now_ms else None,
        last_run=run_brief(view.last_run),
        version=job.version,
        created_at=iso_text(job.created_ms),
        updated_at=iso(job.updated_ms or None),
    )


def etag(job: Job) -> bytes:
    """The entity tag of a definition: it changes with every edit, pause and resume."""
    return b'"%d"' % job.version
