"""The queue on PostgreSQL: many takers at once, a server that misbehaves, a pooler in between, and its plans."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import psycopg
import pytest

from tickwheel.adapters.postgresql import queue as queue_module
from tickwheel.adapters.postgresql.floors import PERIOD_MS
from tickwheel.adapters.postgresql.migrate import migrate
from tickwheel.adapters.postgresql.queue import DIRECT_SETTINGS, QUEUE, PostgresQueue, open_postgresql_queue
from tickwheel.adapters.postgresql.session import Session, SessionKind, connect
from tickwheel.adapters.system import SystemClock
from tickwheel.domain.job import Lane
from tickwheel.ports.queue import WEBHOOKS, Delivery, Topic

from ...conformance.queue.hints import HOOKS, MAIL, fences, hints, taken
from ...servers.pgbouncer import NoPgBouncer, PgBouncer
from ...servers.postgresql import PostgresServer
from ...servers.postgresql_databases import emptied_store, shared_server
from .plans import accesses, indexes_of

PATIENCE_S = 30
DIRECT = SessionKind("queue", (DIRECT_SETTINGS,))
NAMES = {"lanes": [0, 1, 2, 3], "routes": [WEBHOOKS, "handler:a", WEBHOOKS, "handler:b"]}
TOPICS = {**NAMES, "floors": [0, 0, 0, 0]}
SETTLED = {**NAMES, "numbers": [1, 2, 3, 4], "deliveries": [1, 1, 1, 1], "now_ms": None}
STATEMENTS = {
    "take": {**TOPICS, "now_ms": None, "again_ms": 5_000, "width": 34, "packs": 64, "room": 512},
    "ack": SETTLED,
    "nack": SETTLED,
    "depth": {**TOPICS, "now_ms": None, "width": 34, "packs": 1_000},
    "filled": {**TOPICS, "now_ms": None},
    "floors": TOPICS,
}


def opened(url: str, visible_again_ms: int = 60_000) -> PostgresQueue:
    return open_postgresql_queue(url, SystemClock(), visible_again_ms=visible_again_ms)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that these tests may break."""
    with PostgresServer() as server:
        migrate(server.url())
        yield server


@pytest.fixture
async def breakable(server: PostgresServer) -> AsyncIterator[PostgresQueue]:
    async with aclosing(opened(server.url())) as queue:
        yield queue


async def published(queue: PostgresQueue, topic: Topic, *numbers: int) -> None:
    """Until it works: a connection that was lost is replaced by the call after the one that failed."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await queue.publish(topic, hints(*numbers))
        except ConnectionError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def test_takers_of_the_same_moment_get_different_packs_and_all_of_them(url: str) -> None:
    queues = [opened(url) for _ in range(4)]
    try:
        for fence in range(200):
            await queues[0].publish(HOOKS, hints(fence))

        async def drain(queue: PostgresQueue) -> list[int]:
            seen: list[int] = []
            empty = 0
            while empty < 3:  # what others are taking at this moment is skipped
                deliveries = await queue.take([HOOKS], 7)
                empty = 0 if deliveries else empty + 1
                seen += [fence for delivery in deliveries for fence in fences(delivery.rows)]
                await queue.ack([delivery.receipt for delivery in deliveries])
            return seen

        parts = await asyncio.gather(*(drain(queue) for queue in queues))
        assert sorted(fence for part in parts for fence in part) == list(range(200))
    finally:
        for queue in queues:
            await queue.aclose()


async def test_the_real_clock_shows_what_nobody_acked_again(url: str) -> None:
    async with aclosing(opened(url, visible_again_ms=50)) as queue:
        await queue.publish(HOOKS, hints(1))
        assert await taken(queue) == [1]
        await queue.wait([HOOKS], PATIENCE_S * 1000)
        assert await taken(queue) == [1]


async def test_publications_of_the_same_moment_share_a_statement(url: str) -> None:
    async with aclosing(opened(url)) as queue:
        topics = [HOOKS, MAIL, Topic(Lane.LOW, WEBHOOKS)]
        await asyncio.gather(*(queue.publish(topics[n % 3], hints(n)) for n in range(60)))
        assert await queue.depth(topics) == [20, 20, 20]
        assert await taken(queue, MAIL) == list(range(1, 60, 3))


async def test_nobody_polls_while_nobody_waits(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    polls = 0
    async with aclosing(opened(url)) as queue:
        filled = queue._filled

        async def counted(topics: "list[Topic]") -> object:
            nonlocal polls
            polls += 1
            return await filled(topics)

        monkeypatch.setattr(queue._waiting, "_filled", counted)
        await asyncio.gather(*(queue.wait([HOOKS], 100) for _ in range(20)))
        of_all = polls
        assert 2 <= of_all <= 15, "one poll serves everybody"
        await asyncio.sleep(0.1)
        assert polls == of_all


async def test_a_crash_of_the_server_empties_it_and_it_goes_on(
    server: PostgresServer, breakable: PostgresQueue
) -> None:
    await published(breakable, HOOKS, 1)
    [held] = await breakable.take([HOOKS], 10)
    await published(breakable, HOOKS, 2)
    server.kill()
    with pytest.raises(ConnectionError):
        await breakable.take([HOOKS], 10)
    server.start()
    await published(breakable, HOOKS, 3)
    assert await taken(breakable) == [3]
    await breakable.ack([held.receipt])


async def test_a_server_that_hangs_holds_nobody_for_long(server: PostgresServer, breakable: PostgresQueue) -> None:
    await published(breakable, HOOKS, 1)
    server.freeze()
    try:
        for verb in (breakable.take([HOOKS], 1), breakable.depth([HOOKS]), breakable.publish(HOOKS, hints(2))):
            begun = time.monotonic()
            with pytest.raises(ConnectionError):
                await verb
            assert time.monotonic() - begun < 5, "bounded, on a busy machine too"
    finally:
        server.thaw()
    await published(breakable, MAIL, 3)
    assert await taken(breakable, MAIL) == [3]


async def test_a_database_without_the_table_says_what_to_do(server: PostgresServer) -> None:
    server.create_database("empty_queue")
    async with aclosing(opened(server.url("empty_queue"))) as queue:
        with pytest.raises(ConnectionError, match="tickwheel migrate"):
            await queue.depth([HOOKS])


async def test_it_works_through_a_pooler_in_transaction_mode_and_sets_nothing_there(url: str) -> None:
    database = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    try:
        pooler = PgBouncer(shared_server()).__enter__()
    except NoPgBouncer as error:
        pytest.skip(str(error))
    try:
        async with aclosing(opened(pooler.url(str(database)))) as queue:
            for turn in range(1, 8):  # beyond the number of repeats from which a driver prepares statements
                await queue.publish(MAIL, hints(turn))
                await queue.wait([HOOKS, MAIL], PATIENCE_S * 1000)
                [delivery] = await queue.take([HOOKS, MAIL], 10)
                assert fences(delivery.rows) == [turn]
                await queue.ack([delivery.receipt])
            assert await queue.depth([HOOKS, MAIL]) == [0, 0]
        with psycopg.connect(pooler.url(str(database)), prepare_threshold=None) as connection:
            [(scans, prepared)] = connection.execute(
                "SELECT current_setting('enable_seqscan'), (SELECT count(*) FROM pg_prepared_statements)"
            ).fetchall()
        assert (scans, prepared) == ("on", 0)
    finally:
        pooler.__exit__(None, None, None)


class Hurried:
    """A clock that shows the time when floors are learned, whenever it is looked at."""

    def __init__(self) -> None:
        self._passed_ms = 0

    def now_ms(self) -> int:
        return self._passed_ms

    def monotonic_ms(self) -> int:
        self._passed_ms += PERIOD_MS
        return self._passed_ms

    async def sleep_ms(self, length_ms: int) -> None:
        await asyncio.sleep(length_ms / 1000)


async def test_what_has_left_is_not_walked_over_again(url: str) -> None:
    """Beside a transaction that still sees it all, such as a dump."""
    async with aclosing(PostgresQueue(url, Hurried(), visible_again_ms=60_000)) as queue:
        with psycopg.connect(url) as dump, psycopg.connect(url, autocommit=True) as observer:
            dump.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            dump.execute("SELECT count(*) FROM tickwheel.queue_packs")
            held: list[Delivery] = []
            for turn in range(60):
                await queue.publish(HOOKS, hints(*range(10)))
                await queue.publish(MAIL, hints(turn))
                [delivery] = await queue.take([HOOKS, MAIL], 10)
                await queue.ack([delivery.receipt])
                held += await queue.take([MAIL], 10)
            floors = [found for floors in queue._floors.values() for found in floors._floors.items()]
            [(last,)] = observer.execute("SELECT last_value FROM tickwheel.queue_packs_number_seq").fetchall()
            assert max(number for topic, number in floors if topic == HOOKS) > last - 10
            first_held = int(held[0].receipt.split()[0])
            assert max(number for topic, number in floors if topic == MAIL) <= first_held, "it may come again"
            await queue.nack([delivery.receipt for delivery in held])
            assert await taken(queue, MAIL) == list(range(60))


async def test_numbers_that_were_drawn_and_not_committed_are_still_looked_for(url: str) -> None:
    async with aclosing(PostgresQueue(url, Hurried(), visible_again_ms=60_000)) as queue:
        await queue.depth([HOOKS])
        with psycopg.connect(url) as slow:
            slow.execute(
                """INSERT INTO tickwheel.queue_packs (lane, route, visible_ms, delivery, hints)
                   VALUES (2, %s, 0, 0, %s)""",
                (WEBHOOKS, hints(7).tobytes()),
            )
            await queue.publish(HOOKS, hints(8))
            assert await taken(queue) == [8]
            slow.commit()
            assert await taken(queue) == [7]


@pytest.fixture(params=["own session", "behind a pooler"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    session = connect(emptied_store(), DIRECT if request.param == "own session" else QUEUE)
    session.connection.execute("SET statement_timeout = '60s'", prepare=False)  # for filling it on a busy machine
    yield session
    session.close()


@pytest.mark.parametrize("rows", [0, 5_000])
@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_packs_are_read_by_topic_and_number(session: Session, name: str, rows: int) -> None:
    session.connection.execute(
        """INSERT INTO tickwheel.queue_packs (lane, route, visible_ms, delivery, hints)
           SELECT n %% 4, 'handler:a', 0, 0, decode(repeat('00', 2176), 'hex')
             FROM generate_series(1, %s) AS n""",
        (rows,),
    )
    found = accesses(session, queue_module._SQL[name], STATEMENTS[name])
    nodes = {access.node for access in found if access.relation == "queue_packs" and access.node != "Tid Scan"}
    if session.connection.prepare_threshold is None:  # where nothing can be set, the planner chooses, each time
        assert not rows or nodes <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}
    else:
        by_index = [access for access in found if access.relation == "queue_packs" and access.node != "Tid Scan"]
        assert indexes_of(by_index, "queue_packs") == {"queue_packs": "queue_packs_pkey"}


def test_a_take_is_a_hot_update(session: Session) -> None:
    """Else the index would grow by each take."""
    session.connection.execute(
        """INSERT INTO tickwheel.queue_packs (lane, route, visible_ms, delivery, hints)
           SELECT 0, %s, 0, 0, decode(repeat('00', 2176), 'hex') FROM generate_series(1, 300) AS n""",
        (WEBHOOKS,),
    )
    before = updates(session)
    for _ in range(20):
        session.write(queue_module._SQL["take"], STATEMENTS["take"])
    after = updates(session)
    assert after[0] - before[0] >= 160
    assert after[1] - before[1] >= 0.95 * (after[0] - before[0])


def updates(session: Session) -> tuple[int, int]:
    """All so far, and those of them that touched no index."""
    session.connection.execute("SELECT pg_stat_force_next_flush()")
    [(every, hot)] = session.connection.execute(
        """SELECT pg_stat_get_tuples_updated(c), pg_stat_get_tuples_hot_updated(c)
             FROM (SELECT 'tickwheel.queue_packs'::regclass::oid AS c) AS x"""
    ).fetchall()
    return every, hot
