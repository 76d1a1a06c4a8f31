"""Statements and transactions on the connections that people have: sqlite3, psycopg 3, asyncpg, SQLAlchemy 2.

Statements are written with `?`. A transaction that is opened within another is a savepoint. Nothing of a driver is
imported before a connection of it is here.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from tickwheel.receiver.refusals import DeliveryInProgress

Row = tuple[Any, ...]

_KNOWN: Final = ("sqlite3", "psycopg", "asyncpg", "sqlalchemy")
_BUSY: Final = (5, 6)  # SQLITE_BUSY, SQLITE_LOCKED
_LOST_RACE: Final = frozenset({"55P03", "40001", "40P01"})  # lock_timeout, serialization failure, deadlock


@dataclass(frozen=True, slots=True)
class Blocking:
    """`ask` gives the first row of a statement, None where there is none or none can be."""

    ask: Callable[..., Row | None]
    transaction: Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The same for coroutines."""

    ask: Callable[..., Awaitable[Row | None]]
    transaction: Callable[[], AbstractAsyncContextManager[Any]]


def blocking(connection: Any) -> Blocking:
    """For a connection of sqlite3 or psycopg, or a connection or session of SQLAlchemy. Raises TypeError."""
    library = _library(connection)
    if library == "asyncpg" or _is_async(connection):
        raise TypeError(f"{type(connection).__name__} is an async connection: use AsyncSqlGuard")
    if library == "sqlalchemy":
        return Blocking(_asking_sqlalchemy(connection), lambda: _sqlalchemy_transaction(connection))
    if library == "psycopg":
        return Blocking(_asking_psycopg(connection), connection.transaction)
    if getattr(connection, "autocommit", True) is False:
        raise TypeError(
            "a sqlite3 connection with autocommit=False is always in a transaction, and nobody can see whose it "
            "is: connect without it"
        )
    return Blocking(_asking_sqlite(connection), lambda: _sqlite_transaction(connection))


def awaiting(connection: Any) -> Awaiting:
    """For an async connection of psycopg or SQLAlchemy, or one of asyncpg. Raises TypeError."""
    library = _library(connection)
    if library == "asyncpg":
        return Awaiting(_awaiting_asyncpg(connection), connection.transaction)
    if not _is_async(connection):
        raise TypeError(f"{type(connection).__name__} is no async connection: use SqlGuard")
    if library == "sqlalchemy":
        return Awaiting(_awaiting_sqlalchemy(connection), lambda: _sqlalchemy_transaction(connection))
    return Awaiting(_awaiting_psycopg(connection), connection.transaction)


@contextmanager
def lost_races() -> Iterator[None]:
    """Makes a driver's "somebody else is at it" a `DeliveryInProgress`; other errors are passed on as they are."""
    try:
        yield
    except Exception as error:
        cause = getattr(error, "orig", None) or error  # SQLAlchemy wraps what the driver raised
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        if code in _BUSY or getattr(cause, "sqlstate", None) in _LOST_RACE:
            raise DeliveryInProgress from error
        raise


def _library(connection: Any) -> str:
    """The first part of the module of its class, or of one that it is derived from."""
    for kind in type(connection).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in _KNOWN:
            return name
    raise TypeError(
        f"{type(connection).__name__} is no connection that is known here: give one of sqlite3, psycopg 3 or "
        "asyncpg, or a connection or session of SQLAlchemy"
    )


def _is_async(connection: Any) -> bool:
    return any(kind.__name__.startswith(("Async", "async_")) for kind in type(connection).__mro__)


def _asking_sqlite(connection: Any) -> Callable[..., Row | None]:
    def ask(statement: str, *values: object) -> Row | None:
        cursor = connection.cursor()
        cursor.row_factory = None
        rows: list[Row] = cursor.execute(statement, values).fetchall()
        return rows[0] if rows else None

    return ask


@contextmanager
def _sqlite_transaction(connection: Any) -> Iterator[None]:
    if connection.in_transaction:
        begin, commit, undo = (
            "SAVEPOINT tickwheel",
            "RELEASE tickwheel",
            ["ROLLBACK TO tickwheel", "RELEASE tickwheel"],
        )
    else:
        # The write lock from the start: who reads first and writes later can't wait for another writer.
        begin, commit, undo = "BEGIN IMMEDIATE", "COMMIT", ["ROLLBACK"]
    with lost_races():
        connection.execute(begin)
    try:
        yield
        if not connection.in_transaction:
            raise RuntimeError("the effect has ended the guard's transaction: it may not commit or roll back")
        connection.execute(commit)
    except BaseException:
        if connection.in_transaction:
            for statement in undo:
                connection.execute(statement)
        raise


def _asking_psycopg(connection: Any) -> Callable[..., Row | None]:
    from psycopg.rows import tuple_row  # it is there, for the connection is its

    def ask(statement: str, *values: object) -> Row | None:
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(statement.replace("?", "%s"), values)
            row: Row | None = cursor.fetchone() if cursor.description else None
        return row

    return ask


def _awaiting_psycopg(connection: Any) -> Callable[..., Awaitable[Row | None]]:
    from psycopg.rows import tuple_row  # as above

    async def ask(statement: str, *values: object) -> Row | None:
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(statement.replace("?", "%s"), values)
            row: Row | None = await cursor.fetchone() if cursor.description else None
        return row

    return ask


def _awaiting_asyncpg(connection: Any) -> Callable[..., Awaitable[Row | None]]:
    async def ask(statement: str, *values: object) -> Row | None:
        row = await connection.fetchrow(_numbered(statement, "$"), *values)
        return None if row is None else tuple(row)

    return ask


def _asking_sqlalchemy(connection: Any) -> Callable[..., Row | None]:
    def ask(statement: str, *values: object) -> Row | None:
        return _first(connection.execute(*_for_sqlalchemy(statement, values)))

    return ask


def _awaiting_sqlalchemy(connection: Any) -> Callable[..., Awaitable[Row | None]]:
    async def ask(statement: str, *values: object) -> Row | None:
        return _first(await connection.execute(*_for_sqlalchemy(statement, values)))

    return ask


def _first(result: Any) -> Row | None:
    row = result.first() if result.returns_rows else None
    return None if row is None else tuple(row)


def _sqlalchemy_transaction(connection: Any) -> Any:
    return connection.begin_nested() if connection.in_transaction() else connection.begin()


def _for_sqlalchemy(statement: str, values: tuple[object, ...]) -> tuple[Any, dict[str, object]]:
    from sqlalchemy import text  # as above

    named = {f"p{number}": value for number, value in enumerate(values, 1)}
    return text(_numbered(statement, ":p")), named


def _numbered(statement: str, mark: str) -> str:
    numbers = count(1)
    return "".join(f"{mark}{next(numbers)}" if part == "?" else part for part in statement)
