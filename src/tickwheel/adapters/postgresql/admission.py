"""Whether a node may work on a database: everything that would go wrong later is refused at the start.

In an order that puts causes before their consequences: the server can be reached and is what we need (version,
primary, encoding), the schema is there or may be made, the rights suffice, and the database belongs to this
cluster. Each refusal is one paragraph with the remedy. What is merely unwise (fsync off) is a warning.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import psycopg

from tickwheel.adapters.postgresql.migrate import Connection, Migration, migrate_within, unapplied
from tickwheel.domain.errors import ConfigError, FieldProblem, StoreUnavailable
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.redaction import has_odd_user_part, redacted, without_passwords

CONNECT_SECONDS: Final = 5
_ODD_USER_PART: Final = "in a user or password / is written %2F, ? %3F, # %23, @ %40 and a blank %20"
VISITOR: Final = "tickwheel start"
"""The name under which connections that don't stay are shown in pg_stat_activity."""
OLDEST_VERSION: Final = 15
SHOWN_TABLES: Final = 3
_NEEDED: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
_SERVER: Final = """SELECT current_setting('server_version_num')::int, current_setting('server_version'),
  pg_is_in_recovery(), current_setting('transaction_read_only')::bool, current_setting('server_encoding'),
  current_user, current_database(), to_regnamespace('tickwheel') IS NOT NULL,
  has_database_privilege(current_database(), 'CREATE'),
  coalesce(has_schema_privilege(to_regnamespace('tickwheel'), 'CREATE'), false)"""
_LACKING: Final = """SELECT r.needed, c.relname FROM pg_class c, unnest(%s::text[]) AS r(needed)
  WHERE c.relnamespace = to_regnamespace('tickwheel') AND c.relkind IN ('r', 'p') AND c.relname <> 'migrations'
    AND NOT c.relispartition AND NOT has_table_privilege(c.oid, r.needed) ORDER BY 2, 1"""
_NOT_OWNED: Final = """SELECT c.relname FROM pg_class c
  WHERE c.relnamespace = to_regnamespace('tickwheel') AND c.relkind = 'p'
    AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1"""
_UNSAFE: Final = """SELECT name, setting FROM pg_settings
  WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes') AND setting = 'off' ORDER BY name"""
_WARNINGS: Final = {
    "fsync": "fsync is off: a crash of the database's machine can lose or damage everything; set it on",
    "full_page_writes": "full_page_writes is off: a crash of the database's machine can damage tables; set it on",
    "synchronous_commit": "synchronous_commit is off for this user or server: Tickwheel's own writes set it on "
    "for themselves, but standbys and backups may be set up alike; set it on",
}
_REASONS: Final = (
    (
        "password authentication failed",
        "the password or the user is wrong: correct it in --store or in PGPASSWORD",
    ),
    ("no password supplied", "it asks for a password: put it in --store, PGPASSWORD or PGPASSFILE"),
    ("no pg_hba.conf entry", "its pg_hba.conf lets this user in from nowhere here: add a line for it and reload"),
    ("role ", "there is no such user: create it (CREATE ROLE … LOGIN), or correct --store"),
    ("database ", "there is no such database: create it (CREATE DATABASE …), or correct --store"),
    ("starting up", "it is starting: try again in a moment"),
    ("shutting down", "it is being shut down: start it again"),
    ("too many", "it has no connection left: raise max_connections, or use fewer nodes"),
    ("Connection refused", "nothing listens there: start PostgreSQL, or correct host and port in --store"),
    ("failed to resolve", "there is no such host: correct it in --store"),
    ("timeout", "it does not answer: is the host right, and does a firewall stand between?"),
    ("read-write", "it takes no writes: name the primary, or all servers, in --store"),
)
"""What libpq's messages hold (in English; in other languages the message must do by itself), and the remedy."""


class Admitted(msgspec.Struct, frozen=True):
    """A database that may be used: what was migrated, and what is unwise about the server."""

    applied: tuple[str, ...]
    warnings: tuple[str, ...]


def admit(url: str, *, cluster: str, auto_migrate: bool) -> Admitted:
    """Check the database, bring its schema up to date, and enter the cluster's name into a new one.

    Raises `ConfigError` for what must be set right, `StoreUnavailable` when the server can't be reached. Blocks.
    """
    with visit(url) as connection:
        _check_server(connection)
        applied = _bring_up_to_date(connection, auto_migrate)
        _check_rights(connection)
        _check_cluster(connection, cluster)
        return Admitted(applied, unsafe_settings(connection))


def pending_steps(url: str) -> list[Migration]:
    """What is to be done to the schema; changes nothing. Raises as `admit` does."""
    with visit(url) as connection:
        return unapplied(connection)


def migrate_database(url: str) -> list[Migration]:
    """Do it, if the server is what Tickwheel needs; gives what was done. Raises as `admit` does."""
    with visit(url) as connection:
        _check_server(connection)
        with connection.transaction():
            return migrate_within(connection)


@contextmanager
def visit(url: str) -> Iterator[Connection]:
    """A connection in autocommit; what the server refuses is told in words, without passwords."""
    connection = _connect(url)
    try:
        with connection:
            yield connection
    except psycopg.errors.InsufficientPrivilege as error:
        raise _wrong(
            f"the user lacks a right ({_one_line(error)}): connect as the user that made the tables"
        ) from error
    except psycopg.Error as error:
        raise StoreUnavailable(f"{redacted(url)}: {_told(error, url)}") from error


def _connect(url: str) -> Connection:
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name=VISITOR)
    except (psycopg.ProgrammingError, UnicodeError) as error:
        # The driver quotes what it takes for an option or a host, and that may be half of the password.
        said = _ODD_USER_PART if has_odd_user_part(url, "/?#@ ") else _told(error, url)
        raise _wrong(f"{redacted(url)} is no address of a database ({said})") from None
    except psycopg.OperationalError as error:
        said = _told(error, url)
        remedy = next((text for words, text in _REASONS if words in said), "is the address in --store right?")
        # `from None`: the driver's own text may hold the password.
        raise StoreUnavailable(f"{redacted(url)} can't be used; {remedy} ({said})") from None


def unsafe_settings(connection: Connection) -> tuple[str, ...]:
    """What is unwise about the server's durability, in words."""
    return tuple(_WARNINGS[name] for name, _ in connection.execute(_UNSAFE).fetchall())


def _check_server(connection: Connection) -> None:
    number, version, in_recovery, read_only, encoding, user, database, has_schema, may_create, may_fill = _row(
        connection, _SERVER
    )
    if number < OLDEST_VERSION * 10_000:
        raise _wrong(f"the server is PostgreSQL {version}; {OLDEST_VERSION} or newer is needed: upgrade it")
    if in_recovery:
        raise _wrong(
            "the server is a standby and takes no writes: name the primary, or all servers as in "
            "postgresql://HOST1,HOST2/DATABASE?target_session_attrs=read-write",
            "standby",
        )
    if read_only:
        raise _wrong(
            "the database is read-only (default_transaction_read_only): set it to off for the server, the "
            "database and the user",
            "read_only",
        )
    if encoding != "UTF8":
        raise _wrong(
            f"the database {database} has the encoding {encoding}: create one with "
            "ENCODING 'UTF8' TEMPLATE template0"
        )
    if not (may_fill if has_schema else may_create):
        what, where = ("SCHEMA tickwheel", "in it") if has_schema else (f'DATABASE "{database}"', "there")
        raise _wrong(
            f"the user {user} may create nothing {where}, and Tickwheel makes its own tables: "
            f'GRANT CREATE ON {what} TO "{user}"'
        )


def _bring_up_to_date(connection: Connection, auto_migrate: bool) -> tuple[str, ...]:
    pending = unapplied(connection)
    if pending and not auto_migrate:
        raise _wrong(
            f"the schema is behind this program by {len(pending)} migration(s) and auto_migrate is off: "
            "run `tickwheel migrate`",
            "schema_behind",
        )
    with connection.transaction():
        return tuple(step.label for step in migrate_within(connection))


def _check_rights(connection: Connection) -> None:
    user = _row(connection, "SELECT current_user")[0]
    lacking = connection.execute(_LACKING, (list(_NEEDED),)).fetchall()
    if lacking:
        shown = ", ".join(f"{right} on {table}" for right, table in lacking[:SHOWN_TABLES])
        more = f" and {len(lacking) - SHOWN_TABLES} more" if len(lacking) > SHOWN_TABLES else ""
        raise _wrong(
            f"the user {user} lacks rights in the schema tickwheel ({shown}{more}): connect as the user that made "
            f'the tables, or GRANT {", ".join(_NEEDED)} ON ALL TABLES IN SCHEMA tickwheel TO "{user}"'
        )
    strange = [row[0] for row in connection.execute(_NOT_OWNED).fetchall()]
    if strange:
        raise _wrong(
            f"the user {user} does not own the partitioned tables ({', '.join(strange)}), so it can't make "
            f'partitions ahead of time: connect as the user that made them, or GRANT that one to "{user}"'
        )


def _check_cluster(connection: Connection, cluster: str) -> None:
    connection.execute("UPDATE tickwheel.meta SET cluster = %s WHERE cluster = ''", (cluster,))
    stored, shard_count = _row(connection, "SELECT cluster, shard_count FROM tickwheel.meta")
    if stored != cluster:
        raise _wrong(
            f"the database belongs to the cluster {stored!r}, this node to {cluster!r}: two clusters need two "
            f"databases; give --store another one, or start with --cluster {stored}",
            field="cluster",
        )
    if shard_count != SHARD_COUNT:
        raise _wrong(
            f"the database was made for {shard_count} shards, this program has {SHARD_COUNT}, and their number "
            "never changes, because ids of jobs hold their shard: use the program that made it, or a new one",
            "shard_count",
        )


def _row(connection: Connection, statement: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(statement.encode()).fetchone()
    if row is None:
        raise StoreUnavailable("the database gave no answer where there is always one")
    return row


def _wrong(message: str, code: str = "invalid", *, field: str = "store") -> ConfigError:
    return ConfigError([FieldProblem(field, message, code)])


def _told(error: Exception, url: str) -> str:
    """Without passwords. They are looked for first: in one line, their blanks would be others."""
    return _one_line(without_passwords(str(error), url)) or type(error).__name__


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
