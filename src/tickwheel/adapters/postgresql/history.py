"""Writes pieces of the ledger as Parquet files.

A file is written under a name that begins with a dot, synced, renamed, and read back: only when the number of its
rows and their checksum are what was read from the table (and the number is what the database counts) may the table
go. So at each moment the table or the file is complete, whatever stops in between:

| stopped after | what is left | what the next sweep does |
|---|---|---|
| detaching | the table | exports it |
| writing, syncing | the table, half a file under a hidden name | writes that anew |
| renaming | the table, the file | writes and renames it anew, same name |
| verifying | the table, the file, its checksum in `history_files` | the same: the file may be elsewhere |
| dropping | the file | nothing |
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tickwheel.adapters.postgresql.detaching import name_of
from tickwheel.adapters.postgresql.records import job_keys, uuid_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.domain.errors import ConfigError, FieldProblem, TickwheelError
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState, SkipReason

BATCH_ROWS: Final = 10_000
FORMAT: Final = "1"
_INSTANT, _TEXT, _INT4, _INT8 = "timestamp", "string", "int32", "int64"
_FIRST_ID: Final = bytes(16)

Columns = dict[str, str]
RUN_COLUMNS: Final[Columns] = {
    "run_id": _TEXT,
    "job_id": _TEXT,
    "tenant_id": _TEXT,
    "job_name": _TEXT,
    "scheduled_at": _INSTANT,
    "state": _TEXT,
    "skip_reason": _TEXT,
    "lane": _TEXT,
    "attempts": _INT4,
    "lost_count": _INT4,
    "fencing_token": _INT8,
    "worker": _TEXT,
    "armed_at": _INSTANT,
    "claimed_at": _INSTANT,
    "started_at": _INSTANT,
    "finished_at": _INSTANT,
    "http_status": _INT4,
    "error": _TEXT,
}
ATTEMPT_COLUMNS: Final[Columns] = {
    "run_id": _TEXT,
    "job_id": _TEXT,
    "tenant_id": _TEXT,
    "job_name": _TEXT,
    "scheduled_at": _INSTANT,
    "attempt": _INT4,
    "fencing_token": _INT8,
    "worker": _TEXT,
    "started_at": _INSTANT,
    "finished_at": _INSTANT,
    "outcome": _TEXT,
    "http_status": _INT4,
    "error": _TEXT,
    "excerpt": _TEXT,
}

_RUNS: Final = b"""SELECT r.shard, r.scheduled_ms, r.job_id, 0::int8, r.state, r.skip_reason, r.lane, r.attempt,
       r.lost_count, r.fence, n.incarnation, r.armed_ms, r.claimed_ms, r.started_ms, r.finished_ms, r.http_status,
       r.error
  FROM %s AS r LEFT JOIN tickwheel.nodes AS n ON n.number = r.worker
 WHERE (r.shard, r.scheduled_ms, r.job_id) > (%%(shard)s::int2, %%(scheduled_ms)s::int8, %%(job_id)s)
 ORDER BY r.shard, r.scheduled_ms, r.job_id LIMIT %%(count)s"""
_ATTEMPTS: Final = b"""SELECT a.shard, a.scheduled_ms, a.job_id, a.fence, a.attempt, n.incarnation, a.started_ms,
       a.finished_ms, a.outcome, a.http_status, a.error, a.excerpt
  FROM %s AS a LEFT JOIN tickwheel.nodes AS n ON n.number = a.worker
 WHERE (a.shard, a.scheduled_ms, a.job_id, a.fence)
       > (%%(shard)s::int2, %%(scheduled_ms)s::int8, %%(job_id)s, %%(fence)s::int8)
 ORDER BY a.shard, a.scheduled_ms, a.job_id, a.fence LIMIT %%(count)s"""
_OWNERS: Final = b"""SELECT j.job_id, j.tenant_id, j.name
  FROM unnest(%(homes)s::int4[], %(ids)s::uuid[]) AS w (home, job_id)
 CROSS JOIN LATERAL (SELECT job_id, tenant_id, name FROM tickwheel.jobs AS j
                      WHERE j.home = w.home AND j.job_id = w.job_id AND j.home = ANY (%(home_set)s::int4[])
                     OFFSET 0) AS j"""


class ExportFailed(TickwheelError):
    """A file does not hold what the table holds; the table stays."""

    code = "export_failed"


class Written(NamedTuple):
    """What a verified file holds."""

    row_count: int
    checksum: str


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def open_history(folder: Path) -> "History":
    """The history in that folder, which is made if need be; raises `ConfigError`."""
    try:
        import pyarrow.parquet  # noqa: F401  # an extra; looked for at the start
    except ImportError:
        message = "writing history needs the extra `history`: pip install 'tickwheel[history]'"
        raise ConfigError([FieldProblem("history", message, "missing_extra")]) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError([FieldProblem("history", f"the folder can't be made: {error}")]) from error
    return History(folder)


class History:
    """A folder of Parquet files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path_of(self, piece: str) -> Path:
        """`gone_runs_20261201_20261202_1` is `runs_20261201_20261202_1.parquet`."""
        return self.folder / f"{piece.removeprefix('gone_')}.parquet"

    def export(self, session: Session, piece: str) -> Written:
        """Write the piece and prove that it is there; raises `ExportFailed`, `OSError`."""
        path = self.path_of(piece)
        hidden = path.with_name(f".{path.name}")
        read = _runs_of if piece.startswith("gone_runs_") else _attempts_of
        columns = RUN_COLUMNS if piece.startswith("gone_runs_") else ATTEMPT_COLUMNS
        try:
            written = _write(hidden, columns, read(session, piece))
            _sync(hidden)
            hidden.replace(path)
            _sync(self.folder)
        except OSError:
            with suppress(OSError):
                hidden.unlink(missing_ok=True)
            raise
        [(stored,)] = session.rows(b"SELECT count(*) FROM %s" % name_of(piece))
        found = read_back(path)
        if found != written or found.row_count != stored:
            raise ExportFailed(
                f"{path} holds {found.row_count} rows with checksum {found.checksum}, the table {stored} "
                f"of which {written.row_count} with {written.checksum} were written"
            )
        return found


def read_back(path: Path) -> Written:
    """Count and checksum of a file."""
    import pyarrow.parquet as parquet

    digest, count = hashlib.sha256(), 0
    with parquet.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            group = file.read_row_group(number)
            count += group.num_rows
            _update(digest, group)
    return Written(count, digest.hexdigest())


def _write(path: Path, columns: Columns, batches: Iterator[list[list[Any]]]) -> Written:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    types = {
        _INSTANT: pa.timestamp("ms", tz="UTC"),
        _TEXT: pa.string(),
        _INT4: pa.int32(),
        _INT8: pa.int64(),
    }
    fields = [(name, types[kind]) for name, kind in columns.items()]
    schema = pa.schema(fields, metadata={"tickwheel.format": FORMAT})
    digest, count = hashlib.sha256(), 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in batches:
            arrays = [
                pa.array(column, kind) for column, (_, kind) in zip(zip(*rows, strict=True), fields, strict=True)
            ]
            group = pa.Table.from_arrays(arrays, schema=schema)
            writer.write_table(group, row_group_size=len(rows))
            count += len(rows)
            _update(digest, group)
    return Written(count, digest.hexdigest())


def _update(digest: _Digest, group: Any) -> None:
    """Column by column: its values, with NULL told apart from every value."""
    for column in group.columns:
        values = column.cast("int64") if str(column.type).startswith("timestamp") else column
        for value in values.to_pylist():
            digest.update(b"\0" if value is None else b"\1" + str(value).encode() + b"\2")


def _sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _runs_of(session: Session, piece: str) -> Iterator[list[list[Any]]]:
    def values(row: Sequence[Any], tenant_id: str | None, name: str | None) -> list[Any]:
        _, scheduled_ms, job_id, _, state, reason, lane, attempt, lost, fence, worker, *rest = row
        skipped = SkipReason(reason).name if reason else None
        head = [run_id_text(job_id.bytes, scheduled_ms), job_id_text(job_id.bytes), tenant_id, name, scheduled_ms]
        return [*head, RunState(state).name, skipped, Lane(lane).name, attempt, lost, fence, worker, *rest]

    return _batches(session, _RUNS % name_of(piece), values)


def _attempts_of(session: Session, piece: str) -> Iterator[list[list[Any]]]:
    def values(row: Sequence[Any], tenant_id: str | None, name: str | None) -> list[Any]:
        _, scheduled_ms, job_id, fence, attempt, worker, started_ms, finished_ms, outcome, *rest = row
        head = [run_id_text(job_id.bytes, scheduled_ms), job_id_text(job_id.bytes), tenant_id, name, scheduled_ms]
        word = OutcomeClass(outcome).name
        return [*head, attempt, fence, worker, started_ms, finished_ms, word, *rest]

    return _batches(session, _ATTEMPTS % name_of(piece), values)


def _batches(
    session: Session, statement: bytes, values: Callable[[Sequence[Any], str | None, str | None], list[Any]]
) -> Iterator[list[list[Any]]]:
    """Pieces in order of the key, each read by a statement of its own: no snapshot is held for long."""
    place: dict[str, Any] = {"shard": -1, "scheduled_ms": 0, "job_id": uuid_of(_FIRST_ID), "fence": -1}
    while True:
        rows = session.rows(statement, {**place, "count": BATCH_ROWS})
        if not rows:
            return
        ids = list(dict.fromkeys(row[2].bytes for row in rows))
        owners = {job.bytes: (tenant, name) for job, tenant, name in session.rows(_OWNERS, job_keys(ids))}
        yield [values(row, *owners.get(row[2].bytes, (None, None))) for row in rows]
        place = dict(zip(place, rows[-1], strict=False))
