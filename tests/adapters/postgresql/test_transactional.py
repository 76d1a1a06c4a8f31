"""Jobs that are created in the caller's own transaction, through the drivers that people use."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tickwheel import Handlers, IdempotencyConflict, InvalidRequest
from tickwheel.adapters.postgresql import migrate, open_postgresql_store
from tickwheel.adapters.postgresql.upkeep import make_room
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.ids import parse_job_id, shard_of
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.interfaces.client.job_fields import job_json
from tickwheel.services.new_jobs import new_job
from tickwheel.transactional import Enqueued, NoRoomAhead, enqueue, enqueue_async

from ...cluster.nodes import Nodes, eventually
from ...servers.postgresql import PostgresServer
from ...servers.postgresql_databases import copied_database

HELD_OPEN_S: Final = 2
handlers = Handlers()
called: list[Any] = []


@handlers.handler("note")
async def note(payload: Any) -> None:
    called.append(payload)


def _prepare(url: str) -> None:
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        make_room(connection, int(time.time() * 1000))


@pytest.fixture
def url(postgresql: PostgresServer) -> Iterator[str]:
    name = copied_database("today", _prepare)
    yield postgresql.url(name)
    postgresql.drop_database(name)


def rows(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement, values or None).fetchall()


def count(url: str) -> tuple[int, int]:
    """Jobs and timers."""
    [(jobs, timers)] = rows(
        url, "SELECT (SELECT count(*) FROM tickwheel.jobs), (SELECT count(*) FROM tickwheel.timers)"
    )
    return jobs, timers


class Desk:
    """A transaction of one kind of connection; `ask` enqueues in it."""

    def __init__(
        self, ask: Callable[..., Awaitable[Enqueued]], commit: Callable[[], Any], rollback: Callable[[], Any]
    ) -> None:
        self.ask, self._commit, self._rollback = ask, commit, rollback

    async def commit(self) -> None:
        await self._end(self._commit)

    async def rollback(self) -> None:
        await self._end(self._rollback)

    async def _end(self, end: Callable[[], Any]) -> None:
        done = end()
        if done is not None:
            await done


Open = Callable[[str], AbstractAsyncContextManager[Desk]]


def _blocking(connection: Any) -> Callable[..., Awaitable[Enqueued]]:
    async def ask(**fields: Any) -> Enqueued:
        return enqueue(connection, **fields)

    return ask


def _awaiting(connection: Any) -> Callable[..., Awaitable[Enqueued]]:
    async def ask(**fields: Any) -> Enqueued:
        return await enqueue_async(connection, **fields)

    return ask


@asynccontextmanager
async def of_psycopg(url: str) -> AsyncIterator[Desk]:
    with psycopg.connect(url) as connection:
        yield Desk(_blocking(connection), connection.commit, connection.rollback)


@asynccontextmanager
async def of_a_cursor(url: str) -> AsyncIterator[Desk]:
    with psycopg.connect(url, row_factory=dict_row) as connection, connection.cursor() as cursor:
        yield Desk(_blocking(cursor), connection.commit, connection.rollback)


@asynccontextmanager
async def of_async_psycopg(url: str) -> AsyncIterator[Desk]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Desk(_awaiting(connection), connection.commit, connection.rollback)


@asynccontextmanager
async def of_asyncpg(url: str) -> AsyncIterator[Desk]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield Desk(_awaiting(connection), transaction.commit, transaction.rollback)
    finally:
        await connection.close()


@asynccontextmanager
async def of_a_pool_of_asyncpg(url: str) -> AsyncIterator[Desk]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Desk(_awaiting(connection), transaction.commit, transaction.rollback)


@asynccontextmanager
async def of_sqlalchemy(url: str) -> AsyncIterator[Desk]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        yield Desk(_blocking(connection), connection.commit, connection.rollback)
    engine.dispose()


@asynccontextmanager
async def of_a_session(url: str) -> AsyncIterator[Desk]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        yield Desk(_blocking(session), session.commit, session.rollback)
    engine.dispose()


@asynccontextmanager
async def of_async_sqlalchemy(url: str) -> AsyncIterator[Desk]:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.connect() as connection:
        yield Desk(_awaiting(connection), connection.commit, connection.rollback)
    await engine.dispose()


@asynccontextmanager
async def of_an_async_session(url: str) -> AsyncIterator[Desk]:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    async with AsyncSession(engine) as session:
        yield Desk(_awaiting(session), session.commit, session.rollback)
    await engine.dispose()


every_driver = pytest.mark.parametrize(
    "driver",
    [
        of_psycopg,
        of_a_cursor,
        of_async_psycopg,
        of_asyncpg,
        of_a_pool_of_asyncpg,
        of_sqlalchemy,
        of_a_session,
        of_async_sqlalchemy,
        of_an_async_session,
    ],
)


@every_driver
async def test_job_is_there_with_the_commit_and_not_before(url: str, driver: Open) -> None:
    async with driver(url) as desk:
        enqueued = await desk.ask(handler="note", payload={"a": 1}, tags=["x", "y"])
        assert count(url) == (0, 0)
        await desk.commit()
    assert count(url) == (1, 1)
    [(job_id, payload, tags)] = rows(url, "SELECT job_id, payload, tags FROM tickwheel.jobs")
    assert (job_id.bytes, payload, tags) == (parse_job_id(enqueued.job_id), '{"a":1}', ["x", "y"])
    assert not enqueued.replayed


@every_driver
async def test_nothing_is_left_of_a_rollback(url: str, driver: Open) -> None:
    async with driver(url) as desk:
        await desk.ask(handler="note", idempotency_key="k")
        await desk.rollback()
    assert count(url) == (0, 0)
    assert rows(url, "SELECT * FROM tickwheel.idempotency_keys") == []


@every_driver
async def test_refusals_leave_the_transaction_as_it_was(url: str, driver: Open) -> None:
    async with driver(url) as desk:
        first = await desk.ask(handler="note", payload=1, idempotency_key="k")
        again = await desk.ask(handler="note", payload=1, idempotency_key="k")
        assert (again.job_id, again.replayed) == (first.job_id, True)
        with pytest.raises(IdempotencyConflict, match="'k' was used for another request"):
            await desk.ask(handler="note", payload=2, idempotency_key="k")
        with pytest.raises(InvalidRequest, match="delay_seconds"):
            await desk.ask(handler="note", delay_seconds=-1)
        far = datetime.now(UTC) + timedelta(days=400)
        with pytest.raises(NoRoomAhead, match="over the API"):
            await desk.ask(handler="note", execute_at=far, idempotency_key="far", tags=["t"])
        await desk.ask(handler="note", payload=3)
        await desk.commit()
    assert count(url) == (2, 2)
    assert rows(url, "SELECT idempotency_key FROM tickwheel.idempotency_keys") == [("k",)]
    assert rows(url, "SELECT * FROM tickwheel.job_tags") == []


REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "instant": {"handler": "note"},
    "delayed": {"handler": "note", "delay_seconds": timedelta(hours=3), "payload": {"n": "\u2028 é"}},
    "far": {"endpoint": "https://example.com/x", "delay_seconds": 61 * 86_400, "priority": "LOW"},
    "overdue": {"handler": "note", "execute_at": datetime(2020, 1, 1, tzinfo=UTC)},
    "cron": {"handler": "note", "cron_expression": "*/7 * * * *", "timezone": "Europe/Berlin", "tags": ["a"]},
    "keyed": {"handler": "note", "idempotency_key": "k", "tenant_id": "acme", "job_name": "n"},
    "headers": {
        "endpoint": "https://example.com/",
        "target": {"headers": {"X-A": "b"}},
        "payload": [1, "\\u0000"],
    },
}
COLUMNS: Final = (
    "home = 0, home > 0, version, lane, flags, state, named, tenant_id, name, schedule_type, idempotency_key,"
    " tags, spec, payload, scheduled_ms IS NULL, first_due_ms - created_ms, first_instant_ms - created_ms,"
    " first_gen, effective_ms - created_ms, updated_ms"
)


@pytest.mark.parametrize("name", REQUESTS)
async def test_rows_are_what_the_api_writes(url: str, name: str) -> None:
    fields = REQUESTS[name]
    with psycopg.connect(url) as connection:
        enqueued = enqueue(connection, **fields)
    clock = SystemClock()
    store = await open_postgresql_store(url, clock)
    without_key = {key: value for key, value in fields.items() if key != "idempotency_key"}
    request = parse_job_request(job_json(without_key, None))
    made = new_job(request, clock.now_ms(), 7, b"random", b"", False)
    await store.insert_jobs([made])
    await store.aclose()
    ids = [parse_job_id(enqueued.job_id).hex(), made.job.job_id.hex()]
    job = f"SELECT {COLUMNS} FROM tickwheel.jobs WHERE job_id = %s::uuid"
    mine, other = (list(rows(url, job, job_id)[0]) for job_id in ids)
    timer = (
        "SELECT due_ms, gen, flags, shard, scheduled_ms, armed_ms FROM tickwheel.timers WHERE job_id = %s::uuid"
    )
    [my_timer], [other_timer] = (rows(url, timer, job_id) for job_id in ids)
    assert my_timer[1:3] == other_timer[1:3]
    assert (my_timer[3], other_timer[3]) == (shard_of(parse_job_id(enqueued.job_id)), 7)
    assert abs(my_timer[0] - other_timer[0]) < 60_000
    for place in (15, 16):  # instants from the creation on: to some seconds
        mine_ms, other_ms = mine.pop(15), other.pop(15)
        assert (mine_ms is None) == (other_ms is None), place
        assert mine_ms is None or abs(mine_ms - other_ms) < 60_000
    if "idempotency_key" in fields:
        assert mine.pop(10) == "k"
        assert other.pop(10) is None
    assert mine == other
    assert my_timer[0] >= my_timer[4], "never due before it was written"


def test_due_time_is_moved_up_to_the_databases_clock(url: str) -> None:
    with psycopg.connect(url) as connection:
        enqueue(connection, handler="note", execute_at=datetime(2020, 1, 1, tzinfo=UTC))
        [(xid, now_ms)] = connection.execute("SELECT pg_current_xact_id()::text, tickwheel.clock_ms()").fetchall()
    [(timer_xid, due_ms, armed_ms)] = rows(url, "SELECT xid::text, due_ms, armed_ms FROM tickwheel.timers")
    assert timer_xid == xid
    assert due_ms == armed_ms
    assert now_ms - 10_000 < due_ms <= now_ms


def test_key_of_an_open_transaction_is_waited_for(url: str) -> None:
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        enqueue(first, handler="note", idempotency_key="k")
        second.execute("SET LOCAL lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable), second.transaction():
            enqueue(second, handler="note", idempotency_key="k")
        first.rollback()
        assert not enqueue(second, handler="note", idempotency_key="k").replayed
        second.commit()
        assert enqueue(first, handler="note", idempotency_key="k").replayed


def test_an_application_needs_no_right_on_tables(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS shop")
        owner.execute("CREATE ROLE shop")
        owner.execute("GRANT USAGE ON SCHEMA tickwheel TO shop")
        try:
            owner.execute("SET ROLE shop")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                enqueue(owner, handler="note")
            owner.execute("RESET ROLE")
            owner.execute("GRANT EXECUTE ON FUNCTION tickwheel.enqueue(text) TO shop")
            owner.execute("SET ROLE shop")
            enqueue(owner, handler="note")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                owner.execute("SELECT * FROM tickwheel.jobs")
        finally:
            owner.execute("RESET ROLE")
            owner.execute("DROP OWNED BY shop")
            owner.execute("DROP ROLE shop")
    assert count(url) == (1, 1)


def test_connections_of_the_other_kind_are_refused_with_the_remedy(url: str) -> None:
    with (
        pytest.raises(TypeError, match="Connection is no async connection: use enqueue"),
        psycopg.connect(url) as one,
    ):
        asyncio.run(enqueue_async(one, handler="note"))
    with pytest.raises(TypeError, match="object is no connection that is known here"):
        enqueue(object(), handler="note")


async def test_async_connections_are_refused_where_nothing_is_awaited(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        with pytest.raises(TypeError, match=r"await enqueue_async"):
            enqueue(connection, handler="note")


async def test_a_live_node_runs_what_was_committed_late_and_nothing_of_a_rollback(url: str) -> None:
    called.clear()
    async with Nodes(url) as nodes, await psycopg.AsyncConnection.connect(url) as connection:
        await nodes.open(app=f"{__name__}:handlers", handler_slots=4)
        other = await asyncpg.connect(url)
        with contextlib.suppress(RuntimeError):
            async with other.transaction():
                await enqueue_async(other, handler="note", payload="rolled back")
                raise RuntimeError
        await enqueue_async(connection, handler="note", payload="held open")
        async with other.transaction():
            await enqueue_async(other, handler="note", payload="at once")
        began_s = time.monotonic()

        async def ran(payload: str) -> bool:
            return payload in called

        await eventually(lambda: ran("at once"), "the job of the quick transaction runs")
        while time.monotonic() - began_s < HELD_OPEN_S:
            await asyncio.sleep(0.05)
        assert called == ["at once"]
        await connection.commit()
        await eventually(lambda: ran("held open"), "the job of the late commit runs")
        await other.close()
    assert called == ["at once", "held open"]
