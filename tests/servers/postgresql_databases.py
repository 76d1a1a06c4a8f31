"""Databases for tests: one server per test process, started when first asked for, one database per test.

A database with Tickwheel's tables is copied from a template that is made once, which is a good deal quicker than
making the tables again. Nobody breaks this server, so it need not survive anything: its files are in memory where
there is room, and no page goes to the log twice.
"""

import atexit
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Final

import psycopg
from psycopg import sql

from tickwheel.adapters.postgresql import migrate
from tickwheel.adapters.postgresql.partitions import make_window
from tickwheel.domain.ids import DAY_MS
from tickwheel.testing.virtual_clock import START_MS

from .memory import memory_folder
from .postgresql import PostgresServer

_FLEETING: Final = {"full_page_writes": "off", "max_wal_size": "128MB"}
_numbers = count(1)
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
        shared_server().close()
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
    their time.
    """
    server = shared_server()
    if "emptied" not in _templates:
        _templates["emptied"] = blank_database()
        url = server.url(_templates["emptied"])
        migrate(url)
        with psycopg.connect(url, autocommit=True) as connection:
            make_window(connection, START_MS - DAY_MS, START_MS + 2 * DAY_MS, START_MS)
    url = server.url(_templates["emptied"])
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(_FILLED).fetchall()
        connection.execute(
            sql.SQL("; ").join(
                sql.SQL("DELETE FROM tickwheel.{}").format(sql.Identifier(name)) for (name,) in tables
            )
        )
        connection.execute("UPDATE tickwheel.shards SET epoch = 0, owner = NULL")
        connection.execute("UPDATE tickwheel.shard_changes SET changes = 1")
    return url


_FILLED = """SELECT relname FROM pg_class
 WHERE relnamespace = 'tickwheel'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
   AND relname NOT IN ('migrations', 'meta', 'shards', 'shard_changes')"""
