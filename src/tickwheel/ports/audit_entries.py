"""What the audit log says of jobs and runs that were changed. Pure; every secret is taken out.

A job is told as its definition with header values hidden, without the payload (its size instead), and with its
status and version. Of a change only the members that differ are kept. Where a hidden value changed, the member
that holds it is kept though it looks the same before and after.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from tickwheel.domain.id_columns import joined_job_ids
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.job import Job, JobState, Lane, ScheduleType, Spec
from tickwheel.domain.redaction import redacted
from tickwheel.domain.requests.definition import REDACTED, definition_of, execute_at
from tickwheel.domain.run import RunState
from tickwheel.ports.job_views import job_status
from tickwheel.ports.registry import Act, AuditEntry
from tickwheel.ports.store import Change, Inserted, InsertStatus, JobView, NewJob, Run

Call: TypeAlias = tuple[Act | None, int]
"""Who made a call that is part of a batch, and how many jobs of the batch are its."""

_NOTHING: Final = Change()
_SCHEDULED: Final = RunState.SCHEDULED.name
_encode: Final = msgspec.json.Encoder().encode

COLUMNS_FROM: Final = 32
"""Fewer ids are printed one by one: columns take a while to set up."""


class Draft(NamedTuple):
    """What a call asked for in the name of one tenant: the places of these jobs in the batch."""

    act: Act
    tenant_id: str
    places: Sequence[int]


def drafts_of(jobs: Sequence[NewJob], calls: Sequence[Call]) -> Iterator[Draft]:
    """One for each call that has an act, and for each tenant in it."""
    start = 0
    for act, count in calls:
        if act is not None and count == 1:
            yield Draft(act, jobs[start].job.tenant_id, (start,))
        elif act is not None:
            by_tenant: dict[str, list[int]] = {}
            for place in range(start, start + count):
                by_tenant.setdefault(jobs[place].job.tenant_id, []).append(place)
            for tenant_id, places in by_tenant.items():
                yield Draft(act, tenant_id, places)
        start += count


def created_entries(
    jobs: Sequence[NewJob], answers: Sequence[Inserted] | None, calls: Sequence[Call], at_ms: int
) -> list[AuditEntry]:
    """What a batch of inserts created: an entry for each call and tenant that something was created for.

    `answers` None: all of it was created.
    """
    entries: list[AuditEntry] = []
    alone: list[tuple[Act, Job]] = []
    for act, tenant_id, places in drafts_of(jobs, calls):
        created = [jobs[n].job for n in places if answers is None or answers[n].status is InsertStatus.CREATED]
        if created and len(places) == 1:
            alone.append((act, created[0]))
        elif created:
            entries.append(_several_entry(act, tenant_id, created, at_ms))
    return alone_entries(alone, at_ms) + entries


def created_entry(act: Act, job: Job, at_ms: int) -> AuditEntry:
    """A job was created by itself."""
    return alone_entries([(act, job)], at_ms)[0]


def change_entry(act: Act, before: JobView, after: JobView, change: Change, at_ms: int) -> AuditEntry | None:
    """A job was changed; None where nothing was. A job that was deleted has nothing afterwards."""
    if change == _NOTHING:
        return None
    job = before.job
    was = _members(job, job_status(before))
    if after.job.state is JobState.DELETED:
        return _entry(act, at_ms, job.tenant_id, job_id_text(job.job_id), was, None)
    now = _members(after.job, job_status(after))
    names = [name for name in (was | now) if was.get(name) != now.get(name)]
    if job.spec.target != after.job.spec.target and "target" not in names:
        names.append("target")
    if job.payload != after.job.payload and "payload_bytes" not in names:
        names.append("payload_bytes")
    was, now = ({name: side[name] for name in names if name in side} for side in (was, now))
    return _entry(act, at_ms, job.tenant_id, job_id_text(job.job_id), was, now)


def run_entry(act: Act, run: Run, change: Change, at_ms: int) -> AuditEntry | None:
    """A run was moved; None where nothing was changed."""
    if change == _NOTHING:
        return None
    state = RunState.CANCELLED if change.cancel_open else run.state
    for write in change.runs:
        if write.scheduled_ms == run.scheduled_ms:
            state = write.state
    was, now = {"status": run.state.name}, {"status": state.name}
    return _entry(act, at_ms, run.tenant_id, run_id_text(run.job_id, run.scheduled_ms), was, now)


def dropped_entry(act: Act, tenant_id: str, job_id: bytes, scheduled_ms: int, at_ms: int) -> AuditEntry:
    """A run was taken out of the dead-letter queue."""
    subject = run_id_text(job_id, scheduled_ms)
    return _entry(act, at_ms, tenant_id, subject, {"dead_letter": True}, {"dead_letter": False})


def record_entry(
    act: Act, kind: str, tenant_id: str, name: str, before: str | None, after: str | None, at_ms: int
) -> AuditEntry:
    """A record was put or deleted; `before` and `after` are what is shown of it."""
    return AuditEntry(0, at_ms, tenant_id, act.actor, act.source, act.action, f"{kind}:{name}", before, after)


def told_job(job: Job) -> str:
    """What is said of a job that was just created: the members that a change compares, made in less time.

    What many jobs have in common is written once.
    """
    own: dict[str, Any] = {}
    if job.name:
        own["job_name"] = job.name
    if job.tags:
        own["tags"] = job.tags
    if job.idempotency_key is not None:
        own["idempotency_key"] = job.idempotency_key
    instant = execute_at(job)
    if instant is not None:
        own["execute_at"] = instant
    own["payload_bytes"] = _payload_bytes(job)
    own["status"] = _SCHEDULED if job.state is JobState.ACTIVE else job.state.name
    own["version"] = job.version
    spec, target = job.spec, job.spec.target
    if target.headers:  # their values differ from job to job, sealed ones always
        hidden = tuple([(name, REDACTED) for name, _ in target.headers])
        spec = replace(spec, target=replace(target, headers=hidden))
    return _common(job.tenant_id, job.schedule_type, job.lane, spec) + _encode(own)[1:].decode()


@lru_cache(maxsize=1_024)
def _common(tenant_id: str, schedule_type: ScheduleType, lane: Lane, spec: Spec) -> str:
    """The first members of a job, with a comma after them."""
    blank = Job(b"", tenant_id, "", schedule_type, lane, spec, "", 0)
    return _encode(_definition(blank))[:-1].decode() + ","


def alone_entries(created: Sequence[tuple[Act, Job]], at_ms: int) -> list[AuditEntry]:
    """Jobs were created each by itself."""
    return [
        AuditEntry(0, at_ms, job.tenant_id, act.actor, act.source, act.action, subject, None, told_job(job))
        for (act, job), subject in zip(created, printed_ids([job for _, job in created]), strict=True)
    ]


def printed_ids(jobs: Sequence[Job]) -> list[str]:
    """The printed ids of jobs."""
    if len(jobs) < COLUMNS_FROM:
        return [job_id_text(job.job_id) for job in jobs]
    return joined_job_ids([job.job_id for job in jobs], " ").split()


def _several_entry(act: Act, tenant_id: str, jobs: Sequence[Job], at_ms: int) -> AuditEntry:
    ids = joined_job_ids([job.job_id for job in jobs], '","')
    subject = ids if len(jobs) == 1 else f"{len(jobs)} jobs"
    after = f'{{"job_count":{len(jobs)},"job_ids":["{ids}"]}}'
    return AuditEntry(0, at_ms, tenant_id, act.actor, act.source, act.action, subject, None, after)


def _members(job: Job, status: str) -> dict[str, Any]:
    return _definition(job) | {"payload_bytes": _payload_bytes(job), "status": status, "version": job.version}


def _definition(job: Job) -> dict[str, Any]:
    members = definition_of(job)
    members.pop("payload", None)
    target = members["target"]
    if "endpoint" in target:
        target["endpoint"] = redacted(target["endpoint"])
    return members


def _payload_bytes(job: Job) -> int:
    return len(job.payload) if job.payload.isascii() else len(job.payload.encode())


def _entry(
    act: Act, at_ms: int, tenant_id: str, subject: str, before: dict[str, Any], after: dict[str, Any] | None
) -> AuditEntry:
    return AuditEntry(
        0,
        at_ms,
        tenant_id,
        act.actor,
        act.source,
        act.action,
        subject,
        _encode(before).decode(),
        None if after is None else _encode(after).decode(),
    )
