"""Jobs that are created in a transaction of yours, on the PostgreSQL database that Tickwheel uses.

    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO orders ...")
        enqueue(connection, handler="send_invoice", payload={"order": 7})

If the transaction commits, the job runs; if it is rolled back, there never was one. No server is asked: the row
goes through your own connection, and the node that holds the job's shard sees it a tenth of a second after the
commit.

`enqueue` takes a connection or cursor of psycopg 3, or a connection or session of SQLAlchemy; `enqueue_async`
takes the async kinds of these, and asyncpg's connections. Nothing of a driver is imported here.
"""

import secrets
from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Unpack

import msgspec

from tickwheel.domain.errors import IdempotencyConflict, TickwheelError
from tickwheel.domain.ids import RANDOM_BYTES, SHARD_COUNT, job_id_text
from tickwheel.domain.job import encode_spec
from tickwheel.domain.requests.definition import with_stored_headers
from tickwheel.domain.requests.job_request import JobRequest, request_hash
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.interfaces.client.job_fields import JobFields, job_json
from tickwheel.ports.store import NewJob
from tickwheel.services.new_jobs import new_job

__all__ = ["Enqueued", "NoRoomAhead", "enqueue", "enqueue_async"]

CLOCK: Final = "SELECT tickwheel.clock_ms()"
ENQUEUE: Final = "SELECT outcome, stored_id, stored_next_ms FROM tickwheel.enqueue({job})"

Row = tuple[Any, ...]
_encode: Final = msgspec.json.Encoder().encode


class Enqueued(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is there once your transaction has committed. `replayed`: an earlier one, of the same request."""

    job_id: str
    next_run_at: datetime | None
    replayed: bool


class NoRoomAhead(TickwheelError):
    """The job is due on a day that the database has no room for yet; nothing was written."""

    code = "no_room_ahead"


def enqueue(connection: Any, job: JobFields | None = None, /, **fields: Unpack[JobFields]) -> Enqueued:
    """Insert a job in the open transaction of `connection`; the fields are those of `Client.schedule`.

    Raises `InvalidRequest` (nothing was sent), `IdempotencyConflict` and `NoRoomAhead` (nothing was written); the
    transaction can go on after any of them. Errors of the driver are passed on as they are.
    """
    ask = _blocking(connection)
    steps = _steps({**(job or {}), **fields})
    row: Row | None = None
    while True:
        try:
            statement, value = steps.send(row)
        except StopIteration as done:
            enqueued: Enqueued = done.value
            return enqueued
        row = ask(statement, value)


async def enqueue_async(connection: Any, job: JobFields | None = None, /, **fields: Unpack[JobFields]) -> Enqueued:
    """The same with a connection of asyncpg, or an async one of psycopg or SQLAlchemy."""
    ask = _awaiting(connection)
    steps = _steps({**(job or {}), **fields})
    row: Row | None = None
    while True:
        try:
            statement, value = steps.send(row)
        except StopIteration as done:
            enqueued: Enqueued = done.value
            return enqueued
        row = await ask(statement, value)


def _steps(fields: Mapping[str, Any]) -> Generator[tuple[str, str | None], Row | None, Enqueued]:
    """What to ask the database, in order; it is sent the first row of each answer."""
    request = parse_job_request(job_json(fields, None))
    if request.spec.target.headers:
        with_stored_headers(request.spec, None)  # refuses values that stand for no stored one
    clock = yield CLOCK, None
    assert clock is not None
    row = yield ENQUEUE, _encode(_columns(_new_job(request, clock[0]))).decode()
    assert row is not None
    outcome, stored_id, next_ms = row
    if outcome == "key_conflict":
        key = request.idempotency_key
        raise IdempotencyConflict(f"the idempotency key {key!r} was used for another request; nothing was written")
    if outcome == "no_room":
        raise NoRoomAhead(
            "the database has no partition for the day that the job is due on: nodes make them two months ahead, "
            "in a new database some seconds after their first start. Schedule it over the API, which makes "
            "room, or later"
        )
    next_at = None if next_ms is None else datetime.fromtimestamp(next_ms / 1000, UTC)
    job_id = job_id_text(bytes.fromhex(stored_id.replace("-", "")))
    return Enqueued(job_id=job_id, next_run_at=next_at, replayed=outcome == "replayed")


def _new_job(request: JobRequest, now_ms: int) -> NewJob:
    key_hash = b"" if request.idempotency_key is None else request_hash(request)
    shard, random48 = secrets.randbelow(SHARD_COUNT), secrets.token_bytes(RANDOM_BYTES)
    return new_job(request, now_ms, shard, random48, key_hash, False)


def _columns(new: NewJob) -> dict[str, Any]:
    job, timer = new.job, new.timer
    assert timer is not None
    return {
        "job_id": job.job_id.hex(),
        "lane": int(job.lane),
        "flags": job.timer_flags,
        "created_ms": job.created_ms,
        "scheduled_ms": job.scheduled_ms,
        "due_ms": timer.due_ms,
        "instant_ms": timer.scheduled_ms,
        "tenant_id": job.tenant_id,
        "name": job.name,
        "schedule_type": job.schedule_type.value,
        "idempotency_key": job.idempotency_key,
        "request_hash": new.request_hash.hex(),
        "tags": list(job.tags) or None,
        "spec": encode_spec(job.spec).decode(),
        "payload": job.payload,
    }


def _library(connection: Any) -> str:
    """The first part of the module of its class, or of one that it is derived from."""
    known = ("psycopg", "asyncpg", "sqlalchemy")
    for kind in type(connection).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in known:
            return name
    raise TypeError(
        f"{type(connection).__name__} is no connection that is known here: give one of psycopg 3 or asyncpg, or a "
        "connection or session of SQLAlchemy"
    )


def _is_async(connection: Any) -> bool:
    return any(kind.__name__.startswith(("Async", "async_")) for kind in type(connection).__mro__)


def _blocking(connection: Any) -> Any:
    library = _library(connection)
    if library == "asyncpg" or _is_async(connection):
        raise TypeError(f"{type(connection).__name__} is an async connection: await enqueue_async(...)")
    if library == "sqlalchemy":
        return lambda statement, value: tuple(connection.execute(*_for_sqlalchemy(statement, value)).one())

    def ask(statement: str, value: str | None) -> Row:
        with _cursor_of(connection) as cursor:
            cursor.execute(*_for_psycopg(statement, value))
            row: Row = cursor.fetchone()
        return row

    return ask


def _awaiting(connection: Any) -> Any:
    library = _library(connection)
    if library != "asyncpg" and not _is_async(connection):
        raise TypeError(f"{type(connection).__name__} is no async connection: use enqueue(...)")

    async def of_asyncpg(statement: str, value: str | None) -> Row:
        values = () if value is None else (value,)
        return tuple(await connection.fetchrow(statement.format(job="$1::text"), *values))

    async def of_sqlalchemy(statement: str, value: str | None) -> Row:
        return tuple((await connection.execute(*_for_sqlalchemy(statement, value))).one())

    async def of_psycopg(statement: str, value: str | None) -> Row:
        async with _cursor_of(connection) as cursor:
            await cursor.execute(*_for_psycopg(statement, value))
            row: Row = await cursor.fetchone()
        return row

    return {"asyncpg": of_asyncpg, "sqlalchemy": of_sqlalchemy, "psycopg": of_psycopg}[library]


def _for_psycopg(statement: str, value: str | None) -> tuple[str, tuple[str, ...] | None]:
    return statement.format(job="%s::text"), None if value is None else (value,)


def _for_sqlalchemy(statement: str, value: str | None) -> tuple[Any, dict[str, str]]:
    from sqlalchemy import text  # it is there, for the connection is its

    return text(statement.format(job="CAST(:job AS text)")), {} if value is None else {"job": value}


def _cursor_of(connection: Any) -> Any:
    """A cursor of its own, also where a cursor was given, whose rows may be of another kind."""
    from psycopg.rows import tuple_row  # as above

    return getattr(connection, "connection", connection).cursor(row_factory=tuple_row)
