"""Between the values of the port and what goes into, or comes out of, a batch statement."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from tickwheel.domain.columns import Rows
from tickwheel.domain.job import Job, JobState, Lane, ScheduleType, decode_spec, encode_spec
from tickwheel.ports import run_views
from tickwheel.ports.store import FirstTimer, Run

ID_BYTES: Final = 16

_TAGS: Final = msgspec.json.Decoder(tuple[str, ...])
_encode_json: Final = msgspec.json.Encoder().encode


def pack_rows(rows: Sequence[Sequence[Any]]) -> str:
    """The `:rows` binding. Raises `UnicodeEncodeError` for text that is not Unicode."""
    return _encode_json(rows).decode()


def pack_ids(ids: Iterable[bytes]) -> bytes:
    """The `:ids` binding."""
    return b"".join(ids)


def pack_columns(batch: Rows, names: list[str]) -> str:
    """The `:rows` binding of some integer columns of a structured array."""
    return _encode_json(batch[names].tolist()).decode()


def pack_id_column(batch: Rows) -> bytes:
    """The `:ids` binding of a structured array."""
    return np.ascontiguousarray(batch["job_id"]).tobytes()


def job_values(job: Job, timer: FirstTimer | None) -> tuple[Any, ...]:
    """The columns of `insert_jobs` and `update_job`, but for the id."""
    due_ms, instant_ms, gen = (None, None, None)
    if timer is not None:
        due_ms, instant_ms, gen = timer.due_ms, timer.scheduled_ms, timer.gen
    return (
        job.tenant_id,
        job.name,
        job.schedule_type.value,
        int(job.lane),
        job.timer_flags,
        int(job.state),
        job.version,
        job.created_ms,
        job.updated_ms,
        job.effective_ms,
        job.scheduled_ms,
        due_ms,
        instant_ms,
        gen,
        int(job.named),
        job.idempotency_key,
        _encode_json(job.tags).decode() if job.tags else None,
        encode_spec(job.spec).decode(),
        job.payload,
    )


def read_job(values: Sequence[Any]) -> Job:
    """A job from the columns that the `jobs` statements give, in their order."""
    return Job(
        job_id=bytes.fromhex(values[0]),
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
        named=bool(values[11]),
        idempotency_key=values[12],
        tags=_TAGS.decode(values[13]) if values[13] else (),
        spec=decode_spec(values[14]),
        payload=values[15],
    )


def read_run(values: Sequence[Any]) -> Run:
    """A run from the columns that the `runs` statements give, in their order."""
    return run_views.read_run(bytes.fromhex(values[0]), values[1], values[2:])
