"""What is special to guards in a database: whose transaction it is, waiting for one another, and forgetting."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from tickwheel.receiver import SQLITE_SCHEMA, AsyncSqlGuard, SqlGuard

from .conftest import make_place
from .places import AsyncPsycopgPlace, BlockingPlace, PsycopgPlace, SqlitePlace
from .signing import NOW_S, delivery, instant, run_id

guard = SqlGuard()


@pytest.fixture
def sqlite(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


@pytest.fixture
def postgresql_place(blank_postgresql: str) -> PsycopgPlace:
    return PsycopgPlace(blank_postgresql)


@pytest.mark.parametrize("kind", ["sqlite", "psycopg"])
def test_in_an_open_transaction_the_commit_is_the_callers(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = "" if kind == "sqlite" else request.getfixturevalue("blank_postgresql")
    place = make_place(kind, tmp_path, url)
    assert isinstance(place, BlockingPlace)
    for end in ("rollback", "commit"):
        with place.connect() as connection:
            connection.execute("INSERT INTO effects (run_id) VALUES ('of the caller')")
            with guard.once(connection, delivery()) as first:
                assert first
                place.make_now(connection, run_id(1))
            with guard.once(connection, delivery(token=6)) as again:
                assert not again, "seen within the transaction"
            getattr(connection, end)()
        expected = int(end == "commit")
        assert (place.effects(run_id(1)), place.effects("of the caller")) == (expected, expected)


@pytest.mark.parametrize("kind", ["sqlite", "psycopg"])
def test_a_failed_effect_that_the_caller_forgives_is_undone_all_the_same(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = "" if kind == "sqlite" else request.getfixturevalue("blank_postgresql")
    place = make_place(kind, tmp_path, url)
    assert isinstance(place, BlockingPlace)
    with place.connect() as connection:
        connection.execute("INSERT INTO effects (run_id) VALUES ('of the caller')")
        for token in (5, 6):
            with pytest.raises(ZeroDivisionError), guard.once(connection, delivery(token=token)):  # noqa: PT012 - the effect is what fails
                place.make_now(connection, run_id(1))
                raise ZeroDivisionError
        connection.commit()
    assert (place.effects(run_id(1)), place.effects("of the caller")) == (0, 1)
    with place.connect() as connection, guard.once(connection, delivery(token=6)) as first:
        assert first


@pytest.mark.parametrize("way", ["commit", "rollback", "executescript"])
def test_an_effect_on_sqlite_that_commits_by_itself_is_told_so(sqlite: SqlitePlace, way: str) -> None:
    with sqlite.connect() as connection:
        turn = guard.once(connection, delivery())
        turn.__enter__()
        sqlite.make_now(connection, run_id(1))
        connection.executescript("SELECT 1") if way == "executescript" else getattr(connection, way)()
        with pytest.raises(RuntimeError, match="may not commit"):
            turn.__exit__(None, None, None)
    with sqlite.connect() as connection, guard.once(connection, delivery()) as again:
        assert again, "it is not taken for recorded"


@pytest.mark.parametrize("way", ["commit", "rollback", "COMMIT", "ROLLBACK"])
def test_an_effect_on_postgresql_that_commits_by_itself_is_told_so(
    postgresql_place: PsycopgPlace, way: str
) -> None:
    with (  # noqa: PT012 - the effect is what fails
        postgresql_place.connect() as connection,
        pytest.raises(psycopg.Error),
        guard.once(connection, delivery()),
    ):
        postgresql_place.make_now(connection, run_id(1))
        connection.execute(way) if way.isupper() else getattr(connection, way)()
    with postgresql_place.connect() as connection, guard.once(connection, delivery()) as again:
        assert again, "it is not taken for recorded"


def test_the_objects_of_a_session_are_part_of_the_effect(blank_postgresql: str) -> None:
    PsycopgPlace(blank_postgresql)
    engine = sqlalchemy.create_engine(
        blank_postgresql.replace("postgresql:", "postgresql+psycopg:"), poolclass=sqlalchemy.NullPool
    )

    class Base(sqlalchemy.orm.DeclarativeBase):
        pass

    class Effect(Base):
        __tablename__ = "effects"
        run_id: sqlalchemy.orm.Mapped[str] = sqlalchemy.orm.mapped_column(primary_key=True)

    with Session(engine) as session:
        with pytest.raises(ZeroDivisionError), guard.once(session, delivery()):  # noqa: PT012 - the effect is what fails
            session.add(Effect(run_id=run_id(1)))
            raise ZeroDivisionError
        assert session.query(Effect).all() == [], "what was not yet flushed is undone as well"
    with Session(engine) as session:
        with guard.once(session, delivery()) as first:
            assert first
            session.add(Effect(run_id=run_id(1)))
        session.rollback()  # changes nothing: the guard has committed
    with Session(engine) as session:
        assert [effect.run_id for effect in session.query(Effect).all()] == [run_id(1)]


def test_a_second_delivery_waits_and_finds_the_record(sql_place: BlockingPlace) -> None:
    entered, verdicts = threading.Event(), list[bool]()

    def second() -> None:
        with sql_place.connect() as connection:
            entered.set()
            with sql_place.guard.once(connection, delivery(token=6)) as first:
                verdicts.append(bool(first))

    thread = threading.Thread(target=second)
    with sql_place.connect() as connection, sql_place.guard.once(connection, delivery()) as first:
        assert first
        thread.start()
        entered.wait(10)
        sql_place.make_now(first.connection, run_id(1))
    thread.join(30)
    # A machine that stands still for the whole patience gets the other answer: refused, to be sent again.
    assert verdicts in ([False], [])
    assert sql_place.effects(run_id(1)) == 1


async def test_a_cancelled_effect_leaves_nothing(blank_postgresql: str) -> None:
    place = AsyncPsycopgPlace(PsycopgPlace(blank_postgresql))

    async def stalled(made: asyncio.Event) -> None:
        async with place.once(delivery()) as first:
            await place.make(first, run_id(1))
            made.set()
            await asyncio.Event().wait()

    made = asyncio.Event()
    work = asyncio.create_task(stalled(made))
    await made.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    async with place.once(delivery()) as again:
        assert again
    assert place.effects(run_id(1)) == 0


def test_runs_of_old_deliveries_are_forgotten(sql_place: BlockingPlace) -> None:
    for number, sent_s in ((1, NOW_S - 100), (2, NOW_S)):
        with (
            sql_place.connect() as connection,
            guard.once(connection, delivery(number, sent_s=sent_s)) as first,
        ):
            assert first
    with sql_place.connect() as connection:
        guard.forget_before(connection, instant(NOW_S))
    for number, forgotten in ((1, True), (2, False)):
        with sql_place.connect() as connection, guard.once(connection, delivery(number)) as first:
            assert bool(first) is forgotten


async def test_coroutines_forget_too(blank_postgresql: str) -> None:
    place = AsyncPsycopgPlace(PsycopgPlace(blank_postgresql))
    async with place.once(delivery()):
        pass
    async with place.connect() as connection:
        await AsyncSqlGuard().forget_before(connection, instant(NOW_S + 1))
    async with place.once(delivery()) as again:
        assert again


def test_connections_that_do_not_fit_are_named(postgresql_place: PsycopgPlace) -> None:
    class Always(sqlite3.Connection):
        autocommit = False

    async def of_psycopg() -> Any:
        return await psycopg.AsyncConnection.connect(postgresql_place.url)

    with pytest.raises(TypeError, match="is no connection that is known here"):
        guard.once(object(), delivery()).__enter__()
    with closing(sqlite3.connect(":memory:", factory=Always)) as connection:
        with pytest.raises(TypeError, match="autocommit=False"):
            guard.once(connection, delivery()).__enter__()
        with pytest.raises(TypeError, match="use SqlGuard"):
            asyncio.run(AsyncSqlGuard().once(connection, delivery()).__aenter__())

    async def wrong() -> None:
        async with await psycopg.AsyncConnection.connect(postgresql_place.url) as connection:
            with pytest.raises(TypeError, match="use AsyncSqlGuard"):
                guard.once(connection, delivery()).__enter__()

    asyncio.run(wrong())


def test_a_missing_table_is_the_drivers_error() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            guard.once(connection, delivery()).__enter__()
        assert not connection.in_transaction
        connection.executescript(SQLITE_SCHEMA)
        with guard.once(connection, delivery()) as first:
            assert first
