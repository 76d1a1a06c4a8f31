"""Where effects and their records can be: one class per kind of connection that a guard takes.

Each test gets a place of its own. Waiting for another delivery's lock ends after `PATIENCE_MS`.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    nullcontext,
)
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg
import psycopg
import redis
import redis.asyncio
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import create_async_engine

from tickwheel.receiver import (
    POSTGRESQL_SCHEMA,
    SQLITE_SCHEMA,
    AsyncGuard,
    AsyncRedisGuard,
    AsyncSqlGuard,
    Delivery,
    Guard,
    RedisGuard,
    SqlGuard,
    Turn,
)

from ..servers.redis import shared_redis

PATIENCE_MS: Final = 250
EFFECTS: Final = "CREATE TABLE IF NOT EXISTS effects (run_id TEXT NOT NULL)"
MAKE: Final = "INSERT INTO effects (run_id) VALUES ('{}')"
COUNT: Final = "SELECT count(*) FROM effects WHERE run_id = '{}'"
LOCK_TIMEOUT: Final = f"-c lock_timeout={PATIENCE_MS}"


class Place(ABC):
    """A guard and connections for it. `make` is an effect within a turn, `effects` what has happened of a run."""

    @abstractmethod
    def once(self, delivery: Delivery) -> AbstractAsyncContextManager[Turn]:
        """The guard's verdict on a connection of its own."""

    @abstractmethod
    async def make(self, turn: Turn, run_id: str) -> None: ...

    @abstractmethod
    def effects(self, run_id: str) -> int: ...


class BlockingPlace(Place):
    """For guards that are no coroutines; `connect` may be called by any thread."""

    guard: Guard = SqlGuard()

    @abstractmethod
    def connect(self) -> AbstractContextManager[Any]: ...

    @asynccontextmanager
    async def once(self, delivery: Delivery) -> AsyncIterator[Turn]:
        with self.connect() as connection, self.guard.once(connection, delivery) as turn:
            yield turn

    async def make(self, turn: Turn, run_id: str) -> None:
        self.make_now(turn.connection, run_id)

    def make_now(self, connection: Any, run_id: str) -> None:
        connection.execute(MAKE.format(run_id))

    def effects(self, run_id: str) -> int:
        with self.connect() as connection:
            return int(connection.execute(COUNT.format(run_id)).fetchone()[0])


class SqlitePlace(BlockingPlace):
    def __init__(self, folder: Path) -> None:
        self.path = folder / "effects.db"
        with self.connect() as connection:
            connection.executescript(f"PRAGMA journal_mode = WAL; {EFFECTS}; {SQLITE_SCHEMA}")

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=PATIENCE_MS / 1000)) as connection:
            connection.row_factory = sqlite3.Row  # a user's, which must not matter
            yield connection


class PsycopgPlace(BlockingPlace):
    def __init__(self, url: str, *, autocommit: bool = False) -> None:
        self.url, self._autocommit = url, autocommit
        prepare(url)

    def connect(self) -> AbstractContextManager[Any]:
        return closing(psycopg.connect(self.url, autocommit=self._autocommit, options=LOCK_TIMEOUT))


class PsycopgOfDicts(PsycopgPlace):
    """With a row factory that rows of ours must not go through."""

    @contextmanager
    def connect(self) -> Iterator[Any]:
        with super().connect() as connection:
            connection.row_factory = dict_row
            yield connection

    def effects(self, run_id: str) -> int:
        with closing(psycopg.connect(self.url)) as connection:
            row = connection.execute(COUNT.format(run_id).encode()).fetchone()
        assert row is not None
        return int(row[0])


class AlchemyPlace(BlockingPlace):
    def __init__(self, url: str) -> None:
        options = {"timeout": PATIENCE_MS / 1000} if url.startswith("sqlite") else {"options": LOCK_TIMEOUT}
        self.engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, connect_args=options)
        schema = SQLITE_SCHEMA if url.startswith("sqlite") else POSTGRESQL_SCHEMA
        with self.engine.begin() as connection:
            for statement in f"{EFFECTS};{schema}".split(";")[:-1]:
                connection.execute(sqlalchemy.text(statement))

    def connect(self) -> AbstractContextManager[Any]:
        return self.engine.connect()

    def make_now(self, connection: Any, run_id: str) -> None:
        connection.execute(sqlalchemy.text(MAKE.format(run_id)))

    def effects(self, run_id: str) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(sqlalchemy.text(COUNT.format(run_id))).scalar_one())


class RedisPlace(BlockingPlace):
    def __init__(self, **options: Any) -> None:
        self.prefix = f"t{uuid4().hex[:12]}:"
        self.client: Any = redis.Redis(port=shared_redis().port, **options)
        self.guard = RedisGuard(prefix=self.prefix)

    def connect(self) -> AbstractContextManager[Any]:
        return nullcontext(self.client)

    def make_now(self, connection: Any, run_id: str) -> None:
        connection.incr(f"{self.prefix}effects:{run_id}")

    def effects(self, run_id: str) -> int:
        return int(self.client.get(f"{self.prefix}effects:{run_id}") or 0)


class AwaitingPlace(Place):
    """For guards of coroutines, beside a blocking one on the same database that tells what has happened."""

    guard: AsyncGuard = AsyncSqlGuard()

    def __init__(self, beside: BlockingPlace) -> None:
        self.beside = beside

    @abstractmethod
    def connect(self) -> AbstractAsyncContextManager[Any]: ...

    @asynccontextmanager
    async def once(self, delivery: Delivery) -> AsyncIterator[Turn]:
        async with self.connect() as connection, self.guard.once(connection, delivery) as turn:
            yield turn

    async def make(self, turn: Turn, run_id: str) -> None:
        await turn.connection.execute(MAKE.format(run_id))

    def effects(self, run_id: str) -> int:
        return self.beside.effects(run_id)


class AsyncPsycopgPlace(AwaitingPlace):
    def __init__(self, beside: PsycopgPlace) -> None:
        super().__init__(beside)
        self.url = beside.url

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        connection = await psycopg.AsyncConnection.connect(self.url, options=LOCK_TIMEOUT)
        try:
            yield connection
        finally:
            await connection.close()


class AsyncpgPlace(AsyncPsycopgPlace):
    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.url, server_settings={"lock_timeout": str(PATIENCE_MS)})
        try:
            yield connection
        finally:
            await connection.close()


class AsyncAlchemyPlace(AsyncPsycopgPlace):
    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        engine = create_async_engine(
            self.url.replace("postgresql:", "postgresql+psycopg:"), connect_args={"options": LOCK_TIMEOUT}
        )
        try:
            async with engine.connect() as connection:
                yield connection
        finally:
            await engine.dispose()

    async def make(self, turn: Turn, run_id: str) -> None:
        await turn.connection.execute(sqlalchemy.text(MAKE.format(run_id)))


class AsyncRedisPlace(AwaitingPlace):
    def __init__(self, beside: RedisPlace) -> None:
        super().__init__(beside)
        self.prefix = beside.prefix
        self.guard = AsyncRedisGuard(prefix=self.prefix)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        async with redis.asyncio.Redis(port=shared_redis().port) as client:
            yield client

    async def make(self, turn: Turn, run_id: str) -> None:
        turn.connection.incr(f"{self.prefix}effects:{run_id}")


def prepare(url: str) -> None:
    """Make the tables, twice, as each start of a program would."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(2):
            connection.execute(f"{EFFECTS}; {POSTGRESQL_SCHEMA}".encode())
