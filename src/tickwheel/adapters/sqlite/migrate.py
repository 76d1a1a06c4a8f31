"""Brings the schema to the version that this program knows; forwards only.

Files are `migrations/NNNN_pre_name.sql` (additive: the program before it still works) or `NNNN_post_name.sql`
(takes away what only the program before it needed). A database that has a version unknown here was written by
a newer program and is refused, because writing to it could lose what that program keeps there.
"""

from importlib.resources import files
from pathlib import Path

import apsw
import msgspec

from tickwheel.adapters.sqlite.connection import DATABASE_NAME
from tickwheel.adapters.sqlite.errors import translate
from tickwheel.domain.errors import ConfigError, FieldProblem

_VERSIONS = """CREATE TABLE IF NOT EXISTS migrations (
  version    INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  applied_ms INTEGER NOT NULL
) STRICT"""


class Migration(msgspec.Struct, frozen=True):
    """One file; `phase` is `pre` or `post`."""

    version: int
    phase: str
    name: str
    sql: str


def known_migrations() -> list[Migration]:
    """All that ship with this program, in order."""
    found = []
    for file in (files(__package__) / "migrations").iterdir():
        if file.name.endswith(".sql"):
            number, phase, name = file.name.removesuffix(".sql").split("_", 2)
            found.append(Migration(int(number), phase, name, file.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.version)


def pending_migrations(folder: Path) -> list[Migration]:
    """What `open_sqlite_store` would apply to that data folder; changes nothing.

    Raises `ConfigError` when a newer program wrote it, `StoreUnavailable` when it can't be read.
    """
    if not (folder / DATABASE_NAME).exists():
        return known_migrations()
    try:
        connection = apsw.Connection(str(folder / DATABASE_NAME), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return _pending(connection)
        finally:
            connection.close()
    except apsw.Error as error:
        raise translate(error) from error


def migrate(connection: apsw.Connection, now_ms: int) -> list[Migration]:
    """Apply what is pending, each file in one transaction; gives what was applied."""
    pending = _pending(connection)
    if pending:
        connection.execute(_VERSIONS)
    for migration in pending:
        with connection:
            connection.execute(
                "INSERT INTO migrations (version, name, applied_ms) VALUES (?, ?, ?)",
                (migration.version, f"{migration.phase}_{migration.name}", now_ms),
            )
            for _ in connection.execute(migration.sql):
                pass
    return pending


def _pending(connection: apsw.Connection) -> list[Migration]:
    known = known_migrations()
    applied = _applied(connection)
    newest = known[-1].version
    if any(version > newest for version in applied):
        message = (
            f"the database has schema version {max(applied)}, this program knows {newest} at most; "
            "run the newer program that wrote it"
        )
        raise ConfigError([FieldProblem("data", message, "newer_schema")])
    return [migration for migration in known if migration.version not in applied]


def _applied(connection: apsw.Connection) -> set[int]:
    if not connection.table_exists("main", "migrations"):
        return set()
    return {int(str(row[0])) for row in connection.execute("SELECT version FROM migrations")}
