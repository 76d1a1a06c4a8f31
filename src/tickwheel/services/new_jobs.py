"""From a request to a job with its first timer: here the clock comes in."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.id_columns import make_job_ids
from tickwheel.domain.ids import RANDOM_BYTES, make_job_id
from tickwheel.domain.job import Job, ScheduleType, Spec
from tickwheel.domain.limits import HORIZON_MS, PAST_CLAMP_MS
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.schedule import first_occurrence
from tickwheel.ports.store import FirstTimer, NewJob

FIRST_VERSION: Final = 1
COLUMNS_FROM: Final = 16
"""Fewer ids are made one by one: columns take a while to set up."""


class Placed(NamedTuple):
    """A request with its times resolved. `scheduled_ms` names the run of a one-off; None for recurring jobs."""

    spec: Spec
    scheduled_ms: int | None
    first_ms: int


def place(request: JobRequest, now_ms: int) -> Placed:
    """Resolve the times of `request`.

    An instant that is long past is moved up to `PAST_CLAMP_MS` before now; its deadline stays where it was. Raises
    `InvalidRequest`: over ten years ahead, or recurring without any occurrence left.
    """
    spec = request.spec
    if request.schedule_type is ScheduleType.CRON:
        return _place_cron(spec, now_ms)
    if request.at_ms is None:
        scheduled_ms = now_ms + (request.delay_ms or 0)
        return Placed(spec, scheduled_ms, scheduled_ms)
    if request.at_ms > now_ms + HORIZON_MS:
        raise _too_far("execute_at")
    scheduled_ms = max(request.at_ms, now_ms - PAST_CLAMP_MS)
    if spec.deadline_ms is not None and scheduled_ms != request.at_ms:
        spec = replace(spec, deadline_ms=max(0, request.at_ms + spec.deadline_ms - scheduled_ms))
    return Placed(spec, scheduled_ms, scheduled_ms)


def new_job(request: JobRequest, now_ms: int, shard: int, random48: bytes, key_hash: bytes, named: bool) -> NewJob:
    """The job to insert for `request`; `key_hash` is compared under its idempotency key.

    Raises `InvalidRequest` as `place` does.
    """
    placed = place(request, now_ms)
    job_id = make_job_id(created_ms=now_ms, shard=shard, due_ms=placed.scheduled_ms, random48=random48)
    return _new(request, placed, job_id, now_ms, key_hash, named)


def new_jobs(
    wanted: Sequence[tuple[JobRequest, Placed, bytes]], now_ms: int, shards: Sequence[int], randomness: bytes
) -> list[NewJob]:
    """The jobs to insert for many requests that are placed, each with its key hash, on these shards."""
    due_ms = [placed.scheduled_ms for _, placed, _ in wanted]
    if len(wanted) < COLUMNS_FROM:
        ids = [
            make_job_id(
                created_ms=now_ms,
                shard=shards[n],
                due_ms=due,
                random48=randomness[n * RANDOM_BYTES :][:RANDOM_BYTES],
            )
            for n, due in enumerate(due_ms)
        ]
    else:
        ids = make_job_ids(created_ms=now_ms, shards=shards, due_ms=due_ms, randomness=randomness)
    return [
        _new(request, placed, job_id, now_ms, key_hash, named=False)
        for (request, placed, key_hash), job_id in zip(wanted, ids, strict=True)
    ]


def _new(request: JobRequest, placed: Placed, job_id: bytes, now_ms: int, key_hash: bytes, named: bool) -> NewJob:
    spec, scheduled_ms, first_ms = placed
    job = Job(
        job_id,
        request.tenant_id,
        request.name,
        request.schedule_type,
        request.lane,
        spec,
        request.payload,
        now_ms,
        effective_ms=now_ms,
        scheduled_ms=scheduled_ms,
        tags=request.tags,
        idempotency_key=request.idempotency_key,
        named=named,
    )
    return NewJob(job, FirstTimer(first_ms, first_ms, FIRST_VERSION), key_hash)


def _place_cron(spec: Spec, now_ms: int) -> Placed:
    if spec.start_ms is not None and spec.start_ms > now_ms + HORIZON_MS:
        raise _too_far("start_at")
    first_ms = first_occurrence(spec, now_ms)
    if first_ms is None:
        message = "leaves no occurrence between now (or start_at) and it; choose a later one or leave it out"
        raise InvalidRequest([FieldProblem("end_at", message, "conflict")])
    return Placed(spec, None, first_ms)


def _too_far(field: str) -> InvalidRequest:
    message = f"is over {HORIZON_MS // 86_400_000} days (ten years) ahead; choose an earlier instant"
    return InvalidRequest([FieldProblem(field, message)])
