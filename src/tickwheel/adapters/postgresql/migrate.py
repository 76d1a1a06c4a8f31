"""Brings the schema to the version that this program knows; forwards only.

Files are `migrations/NNNN_pre_name.sql` (additive: the program before it still works) or `NNNN_post_name.sql`
(takes away what only the program before it needed). Two programs may start at once: each migrates in one
transaction under an advisory lock, and the second one finds nothing to do. A database with a version unknown here
whose phase is `post` was changed in a way that this program cannot know, and is refused; a newer `pre` one is not.

Nodes may be at work. A change of a table waits for open transactions, those of users that enqueue jobs too, and
whoever comes to the table later waits behind it. So it waits for a moment only, and is tried again a little later.
"""

from importlib.resources import files
from typing import Any, Final

import msgspec
import psycopg
from psycopg import sql

from tickwheel.adapters.postgresql.errors import translate
from tickwheel.domain.errors import ConfigError, FieldProblem

Connection = psycopg.Connection[Any]

CONNECT_SECONDS: Final = 5
LOCK_WAIT_MS: Final = 1_500
"""Longer than the server's `deadlock_timeout`, after which an autovacuum makes way."""
PAUSE_MS: Final = 2_000
TRIES: Final = 150
_LOCK: Final = 0x7469_636B_0000
_VERSIONS: Final = """CREATE TABLE tickwheel.migrations (
  version    int4 PRIMARY KEY,
  phase      text NOT NULL,
  name       text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)"""


class Migration(msgspec.Struct, frozen=True):
    """One file; `phase` is `pre` or `post`."""

    version: int
    phase: str
    name: str
    sql: str

    @property
    def label(self) -> str:
        """How it is shown: `0001 pre first_schema`."""
        return f"{self.version:04d} {self.phase} {self.name}"


def known_migrations() -> list[Migration]:
    """All that ship with this program, in order."""
    found = []
    for file in (files(__package__) / "migrations").iterdir():
        if file.name.endswith(".sql"):
            number, phase, name = file.name.removesuffix(".sql").split("_", 2)
            found.append(Migration(int(number), phase, name, file.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.version)


def pending_migrations(url: str) -> list[Migration]:
    """What `migrate` would apply to that database; changes nothing.

    Raises `ConfigError` when a newer program changed it, `StoreUnavailable` when it can't be reached.
    """
    try:
        with _connect(url) as connection:
            return unapplied(connection)
    except psycopg.Error as error:
        raise translate(error) from error


def migrate(url: str) -> list[Migration]:
    """Apply what is pending, all in one transaction; gives what was applied. Two may call it at once."""
    try:
        with _connect(url) as connection, connection.transaction():
            return migrate_within(connection)
    except psycopg.Error as error:
        raise translate(error) from error


def migrate_within(connection: Connection) -> list[Migration]:
    """The same in the caller's transaction."""
    if not unapplied(connection):
        return []
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    for _ in range(TRIES - 1):
        try:
            return _apply_pending(connection)
        except psycopg.errors.LockNotAvailable:
            connection.execute("SELECT pg_sleep(%s)", (PAUSE_MS / 1_000,))
    return _apply_pending(connection)


def _apply_pending(connection: Connection) -> list[Migration]:
    """All of it, or nothing: what was locked until then is free again."""
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{LOCK_WAIT_MS}ms",))
        return _apply(connection)


def _apply(connection: Connection) -> list[Migration]:
    pending = unapplied(connection)
    if pending and not _exists(connection):
        if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'tickwheel'").fetchone() is None:
            connection.execute("CREATE SCHEMA tickwheel")  # asked for only then: it takes a right on the database
        connection.execute(_VERSIONS)
    for migration in pending:
        connection.execute(
            "INSERT INTO tickwheel.migrations (version, phase, name) VALUES (%s, %s, %s)",
            (migration.version, migration.phase, migration.name),
        )
        connection.execute(sql.SQL(migration.sql))
    return pending


def _connect(url: str) -> Connection:
    return psycopg.connect(
        url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="tickwheel migrate"
    )


def unapplied(connection: Connection) -> list[Migration]:
    """What is to be done, in order; raises `ConfigError` for a schema that a newer program changed."""
    known = known_migrations()
    applied = _applied(connection)
    newest = known[-1].version
    breaking = [version for version, phase in applied.items() if version > newest and phase == "post"]
    if breaking:
        message = (
            f"the database has schema version {max(applied)}, this program knows {newest} at most; "
            "run the newer program that changed it"
        )
        raise ConfigError([FieldProblem("store", message, "newer_schema")])
    return [migration for migration in known if migration.version not in applied]


def _applied(connection: Connection) -> dict[int, str]:
    if not _exists(connection):
        return {}
    return dict(connection.execute("SELECT version, phase FROM tickwheel.migrations").fetchall())


def _exists(connection: Connection) -> bool:
    # Not to_regclass: it answers from a cache that a wait for an advisory lock does not renew.
    row = connection.execute(
        """SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname = 'tickwheel' AND c.relname = 'migrations'"""
    ).fetchone()
    return row is not None
