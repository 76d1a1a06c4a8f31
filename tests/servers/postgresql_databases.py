"""Databases for tests: one server per test process, started when first asked for, one database per test.

A database with Tickwheel's tables is copied from a template that is made once, which is a good deal quicker than
making the tables again. Nobody breaks this server, so it need not survive anything: its files are in memory where
there is room, and no page goes to the log twice.
"""

import atexit
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, Final

import psycopg
from psycopg import sql

from tickwheel.adapters.postgresql import migrate
from tickwheel.adapters.postgresql.partitions import make_window
from tickwheel.domain.ids import DAY_MS
from tickwheel.testing.virtual_clock import START_MS

from .memory import memory_folder
from .postgresql import PostgresServer

_FLEETING: Final = {"full_page_writes": "off", "max_wal_size": "128MB", "autovacuum": "off"}
"""A vacuum that comes by chance is a transaction that what is sealed and dropped waits for."""
_VACUUM_EVERY: Final = 100
"""Rows that are deleted and never vacuumed make each test slower than the one before it."""
_numbers, _sweeps = count(1), count(1)
_templates: dict[str, str] = {}


@cache
def shared_server() -> PostgresServer:
    """The server of this process; raises `NoPostgres`. Tests that break a server start their own."""
    server = PostgresServer(settings=_FLEETING, parent=memory_folder()).__enter__()
    atexit.register(server.close)
    return server


def stop_shared_server() -> None:
    """End the server of this process, if it was ever started."""
    if shared_server.cache_info().currsize:
        if _broom.cache_info().currsize:
            _broom().close()
        shared_server().close()
        _broom.cache_clear()
        _emptying.cache_clear()
        shared_server.cache_clear()
        _templates.clear()


def blank_database() -> str:
    """The name of a new, empty database on the shared server."""
    name = f"test_{next(_numbers)}"
    shared_server().create_database(name)
    return name


def copied_database(kind: str, prepare: Callable[[str], None]) -> str:
    """The name of a new database; a copy of the template `kind`, which `prepare(url)` has filled."""
    server = shared_server()
    if kind not in _templates:
        prepare(server.create_database(f"template_{kind}"))
        _templates[kind] = f"template_{kind}"
    name = f"test_{next(_numbers)}"
    server.create_database(name, _templates[kind])
    return name


def emptied_store() -> str:
    """The URL of a database with Tickwheel's tables and nothing in them, around the start of virtual time.

    One per process, emptied at each call: making or copying a database for each of many tests would take most of
    their time. The connection that empties it stays, and keeps its plans.
    """
    connection = _broom()
    if next(_sweeps) % _VACUUM_EVERY == 0:
        connection.execute("VACUUM")
    with connection.pipeline():
        for statement in _emptying():
            connection.execute(statement, prepare=True)
    return shared_server().url(_templates["emptied"])


def compacted_store() -> str:
    """The same without the room that earlier tests left in its files, by which plans would be chosen."""
    url = emptied_store()
    _broom().execute("VACUUM FULL")
    return url


@cache
def _broom() -> psycopg.Connection[Any]:
    """To the database that `emptied_store` makes, or has made."""
    server = shared_server()
    _templates["emptied"] = blank_database()
    url = server.url(_templates["emptied"])
    migrate(url)
    connection = psycopg.connect(url, autocommit=True)
    make_window(connection, START_MS - DAY_MS, START_MS + 2 * DAY_MS, START_MS)
    return connection


@cache
def _emptying() -> list[sql.SQL | sql.Composed]:
    filled = [sql.Identifier(name) for (name,) in _broom().execute(_FILLED).fetchall()]
    return [
        *(sql.SQL("DELETE FROM tickwheel.{}").format(name) for name in filled),
        sql.SQL("UPDATE tickwheel.shards SET epoch = 0, owner = NULL"),
        sql.SQL("UPDATE tickwheel.shard_changes SET changes = 1"),
    ]


_FILLED = """SELECT relname FROM pg_class
 WHERE relnamespace = 'tickwheel'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
   AND relname NOT IN ('migrations', 'meta', 'shards', 'shard_changes')"""
