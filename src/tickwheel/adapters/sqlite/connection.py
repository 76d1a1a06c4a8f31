"""How connections are opened, and the only way that statements are run on them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw
import msgspec

DATABASE_NAME: Final = "tickwheel.db"
PAGE_BYTES: Final = 4096
WRITER_CACHE_KIB: Final = 131_072
READER_CACHE_KIB: Final = 16_384
CHECKPOINT_PAGES: Final = 4_000
"""Pages in the write-ahead log at which a commit copies them into the database file."""
WAL_KEEP_BYTES: Final = 67_108_864
BUSY_MS: Final = 5_000

_decode_rows: Final = msgspec.json.Decoder(list[Any]).decode

Bindings: TypeAlias = Mapping[str, Any] | Sequence[Any]


def open_writer(path: Path) -> apsw.Connection:
    """The one connection that writes; creates the file. Every commit is synced to disk before it returns."""
    # Payloads and the targets' headers are in it; SQLite alone would let everybody read it.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(BUSY_MS)
    _pragmas(
        connection,
        f"page_size = {PAGE_BYTES}",
        "journal_mode = WAL",
        "synchronous = FULL",
        f"cache_size = -{WRITER_CACHE_KIB}",
        "temp_store = MEMORY",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {WAL_KEEP_BYTES}",
    )
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """A connection that only reads; each statement sees the commits before it."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(BUSY_MS)
    _pragmas(connection, f"cache_size = -{READER_CACHE_KIB}", "temp_store = MEMORY", "query_only = ON")
    return connection


def _pragmas(connection: apsw.Connection, *pragmas: str) -> None:
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}").fetchall()


class Session:
    """Runs statements on one connection, in one thread. Results of batches come back as one JSON text."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def run(self, sql: str, bindings: Bindings | None = None) -> int:
        """Run a statement that gives no rows; the number of rows that it changed itself (not its triggers)."""
        self.connection.execute(sql, bindings)
        return self.connection.changes()

    def value(self, sql: str, bindings: Bindings | None = None) -> Any:
        """The single value of a statement that gives at most one row; None without a row."""
        return self.connection.execute(sql, bindings).get

    def table(self, sql: str, bindings: Bindings | None = None) -> list[Any]:
        """The rows of a statement that gathers them into one `json_group_array`."""
        return _decode_rows(self.connection.execute(sql, bindings).get)
