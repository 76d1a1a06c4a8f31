"""Between rows of the cold statements and the values of the port."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from tickwheel.adapters.postgresql.arrays import int2s, int4s, int8s, uuids_of
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.columns import FLAG_KIND_MASK
from tickwheel.domain.ids import shard_of
from tickwheel.domain.job import Job, JobState, Lane, ScheduleType, decode_spec, encode_spec
from tickwheel.ports import run_views
from tickwheel.ports.store import FirstTimer, Run

FRAGMENTS: Final = {
    b"{job}": (
        b"j.job_id, j.tenant_id, j.name, j.schedule_type, j.lane, j.state, j.version, j.created_ms, j.updated_ms, "
        b"j.effective_ms, j.scheduled_ms, j.named, j.idempotency_key, j.tags, j.spec, j.payload"
    ),
    b"{run}": (
        b"r.job_id, r.scheduled_ms, r.state, r.gen, r.fence, r.attempt, r.lane, r.skip_reason, r.lost_count, "
        b"n.incarnation, r.armed_ms, r.claimed_ms, r.started_ms, r.finished_ms, r.lease_ms, r.beat_ms, r.due_ms, "
        b"r.http_status, r.error"
    ),
}
"""Column lists that several statements share, in the order in which they are read here."""


class FirstKey(NamedTuple):
    """What a one-off knows of its latest first timer and its run; `None` for recurring jobs."""

    due_ms: int | None
    instant_ms: int | None
    gen: int | None


def cold_statements(area: str) -> Mapping[str, bytes]:
    """The statements of `sql/<area>.sql` with their column lists filled in."""
    statements = dict(load_statements(area))
    for name, text in statements.items():
        for mark, columns in FRAGMENTS.items():
            text = text.replace(mark, columns)
        statements[name] = text
    return statements


def home_of(job_id: bytes) -> int:
    """The home that is written into an id: it names the leaf of `jobs`."""
    return int.from_bytes(job_id[8:10], "big")


def uuid_of(job_id: bytes) -> UUID:
    """An id as a single parameter."""
    return UUID(bytes=job_id)


def job_keys(job_ids: Sequence[bytes]) -> dict[str, Any]:
    """The bindings of a statement that looks jobs up by id; at least one."""
    homes = [home_of(job_id) for job_id in job_ids]
    return {"homes": int4s(homes), "ids": uuids_of(job_ids), "home_set": int4s(sorted(set(homes)))}


def run_keys(keys: Sequence[tuple[bytes, int]]) -> dict[str, Any]:
    """The bindings of a statement that looks runs up by (job_id, scheduled_ms); at least one."""
    return {
        "shards": int2s([shard_of(job_id) for job_id, _ in keys]),
        "instants": int8s([scheduled_ms for _, scheduled_ms in keys]),
        "ids": uuids_of([job_id for job_id, _ in keys]),
    }


def read_job(values: Sequence[Any]) -> tuple[Job, FirstKey]:
    """From the columns `{job}` and those of the first key."""
    job = Job(
        job_id=values[0].bytes,
        tenant_id=values[1],
        name=values[2],
        schedule_type=ScheduleType(values[3]),
        lane=Lane(values[4]),
        state=JobState(values[5]),
        version=values[6],
        created_ms=values[7],
        updated_ms=values[8],
        effective_ms=values[9],
        scheduled_ms=values[10],
        named=values[11],
        idempotency_key=values[12],
        tags=tuple(values[13] or ()),
        spec=decode_spec(values[14]),
        payload=values[15],
    )
    return job, FirstKey(*values[16:19])


def job_bindings(job: Job) -> dict[str, Any]:
    """The columns of a definition by name, but for its first key."""
    return {
        "home": home_of(job.job_id),
        "job_id": uuid_of(job.job_id),
        "tenant_id": job.tenant_id,
        "name": job.name,
        "schedule_type": job.schedule_type.value,
        "lane": int(job.lane),
        "flags": job.timer_flags & FLAG_KIND_MASK,  # versions without buckets have one byte for them
        "state": int(job.state),
        "version": job.version,
        "created_ms": job.created_ms,
        "updated_ms": job.updated_ms,
        "effective_ms": job.effective_ms,
        "scheduled_ms": job.scheduled_ms,
        "named": job.named,
        "idempotency_key": job.idempotency_key,
        "tags": list(job.tags) or None,
        "spec": encode_spec(job.spec).decode(),
        "payload": job.payload,
    }


def read_run(values: Sequence[Any], tenant_id: str) -> Run:
    """From the columns `{run}`; the ledger does not repeat the tenant."""
    return run_views.read_run(values[0].bytes, tenant_id, values[1:])


def read_timer(values: Sequence[Any]) -> FirstTimer:
    """From due_ms, scheduled_ms, gen."""
    return FirstTimer(values[0], values[1], values[2])
