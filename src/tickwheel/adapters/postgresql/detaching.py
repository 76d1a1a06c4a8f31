"""Takes leaves out of their table, so that they can be exported and dropped at leisure.

A leaf that nothing needs leaves by `DETACH ... CONCURRENTLY`, which stops nobody: statements that begin after it
don't see the leaf, and it waits for those that began before (a foreign transaction of an hour included; then the
rest is done by a later sweep, with `FINALIZE`).

A leaf of which a few rows are still needed (a dead letter, a run that waits for its retry) is exchanged for one
that holds only these: it is filled beforehand, then, in a transaction that locks the table for some milliseconds,
compared with the original and put in its place. If the lock is not to be had in 50 ms, or a row has changed
meanwhile, nothing happened, and a later sweep tries again.

What was taken out is called a *piece*: a table `gone_<leaf>_<n>` outside of its parent, known to `history_files`.
"""

from typing import Final, NamedTuple

import psycopg

from tickwheel.adapters.postgresql.partitions import LEAVES_LOCK, SCHEMA, Leaf, make_leaves
from tickwheel.adapters.postgresql.records import cold_statements
from tickwheel.adapters.postgresql.session import Session

SQL: Final = cold_statements("upkeep")
KEPT_ROWS: Final = 5_000
"""A leaf with more rows than this that are still needed stays as it is: it is a straggler."""
_FILLFACTOR: Final = {"runs": b" WITH (fillfactor = 45)"}


class Table(NamedTuple):
    """A partitioned table, and which rows of a leaf `l` are still needed."""

    name: str
    cut_by: str
    key: tuple[str, ...]
    to_keep: bytes


RUNS: Final = Table("runs", "scheduled_ms", ("shard", "scheduled_ms", "job_id"), SQL["runs_to_keep"])
ATTEMPTS: Final = Table("attempts", "scheduled_ms", (*RUNS.key, "fence"), SQL["attempts_to_keep"])
JOBS: Final = Table("jobs", "home", ("home", "job_id"), SQL["jobs_to_keep"])
RESULTS: Final = Table("results", "scheduled_ms", RUNS.key, SQL["attempts_to_keep"])
BY_NAME: Final = {table.name: table for table in (RUNS, ATTEMPTS, RESULTS, JOBS)}


class Piece(NamedTuple):
    """What was taken out, and the range of the leaf that it was."""

    name: str
    start: int
    end: int

    @property
    def table(self) -> Table:
        """The table that it was part of."""
        return BY_NAME[self.name.split("_")[1]]


def name_of(table: str) -> bytes:
    """A table of ours, quoted, for building statements."""
    return f'{SCHEMA}."{table}"'.encode()


def count_to_keep(session: Session, table: Table, leaf: str, cutoff_ms: int) -> int:
    """How many rows of the leaf are still needed, counted no further than one beyond `KEPT_ROWS`."""
    statement = b"SELECT count(*) FROM (SELECT FROM %s AS l WHERE %s LIMIT %d) AS k"
    rows = session.rows(statement % (name_of(leaf), table.to_keep, KEPT_ROWS + 1), {"cutoff_ms": cutoff_ms})
    count: int = rows[0][0]
    return count


def detach_whole(session: Session, table: str, leaf: str) -> None:
    """Take a leaf out without stopping anybody; raises the driver's error when it has to wait too long."""
    session.run(b"ALTER TABLE %s DETACH PARTITION %s CONCURRENTLY" % (name_of(table), name_of(leaf)))


def finish_pending(session: Session) -> None:
    """Complete what an interrupted `detach_whole` has begun."""
    for table, leaf in session.rows(SQL["pending_detach"]):
        session.run(b"ALTER TABLE %s DETACH PARTITION %s FINALIZE" % (name_of(table), name_of(leaf)))


def adopt(session: Session, leaf: str) -> None:
    """Make a piece of a leaf that has been detached; it was announced before."""
    with session.transaction():
        piece = session.rows(SQL["announced"], {"leaf": leaf})[0][0]
        session.run(b"ALTER TABLE %s RENAME TO %s" % (name_of(leaf), piece.encode()))


def announce(session: Session, leaf: Leaf) -> str:
    """Note that a leaf is about to become a piece; gives the piece's name. Repeatable until it is one."""
    found = session.rows(SQL["announced"], {"leaf": leaf.name})
    if not found:
        found = session.rows(SQL["add_piece"], {"leaf": leaf.name, "start": leaf.start, "end": leaf.end})
    name: str = found[0][0]
    return name


def exchange(session: Session, table: Table, leaf: Leaf, cutoff_ms: int) -> None:
    """Put a leaf with only the needed rows in the place of this one, which becomes a piece. Raises `Moved`."""
    kept, parent, whole = name_of("kept_" + leaf.name), name_of(table.name), name_of(leaf.name)
    _fill(session, table, leaf, cutoff_ms)
    with session.transaction():
        session.rows(SQL["hold_leaves"], {"key": LEAVES_LOCK})
        session.run(b"SET LOCAL lock_timeout = '50ms'")
        session.run(b"LOCK TABLE %s IN ACCESS EXCLUSIVE MODE" % parent)
        same = session.rows(
            b"SELECT (SELECT count(*) FROM %s) = (SELECT count(*) FROM %s AS k JOIN %s AS l ON %s"
            b" WHERE ROW(k.*) IS NOT DISTINCT FROM ROW(l.*))" % (kept, kept, whole, _same_key(table))
        )
        if not same[0][0]:
            raise Moved
        session.run(b"ALTER TABLE %s DETACH PARTITION %s" % (parent, whole))
        piece = announce(session, leaf)
        session.run(b"ALTER TABLE %s RENAME TO %s" % (whole, piece.encode()))
        session.run(b"ALTER TABLE %s RENAME TO %s" % (kept, leaf.name.encode()))
        session.run(
            b"ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%d) TO (%d)"
            % (parent, whole, leaf.start, leaf.end)
        )


def _fill(session: Session, table: Table, leaf: Leaf, cutoff_ms: int) -> None:
    """Before the lock: looking through the whole leaf may take a while."""
    kept = name_of("kept_" + leaf.name)
    session.run(b"DROP TABLE IF EXISTS %s" % kept)
    session.run(
        b"CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING COMPRESSION INCLUDING INDEXES)%s"
        % (kept, name_of(table.name), _FILLFACTOR.get(table.name, b""))
    )
    session.run(
        b"INSERT INTO %s SELECT l.* FROM %s AS l WHERE %s" % (kept, name_of(leaf.name), table.to_keep),
        {"cutoff_ms": cutoff_ms},
    )


def _same_key(table: Table) -> bytes:
    return b" AND ".join(b"k.%s = l.%s" % (column.encode(), column.encode()) for column in table.key)


class Moved(Exception):
    """A row that is still needed has changed meanwhile: nothing was exchanged."""


def rescue(session: Session, table: Table, piece: "Piece", cutoff_ms: int, now_ms: int) -> None:
    """Bring back what is still needed of a piece, and take out of it what is back already; repeatable.

    After an exchange the kept rows are in both. A row that came to be needed only while its leaf was being taken
    out (a redrive) was found by nobody since, so bringing it back is right too.
    """
    for _ in range(2):
        try:
            with session.transaction():
                session.run(
                    b"INSERT INTO %s SELECT l.* FROM %s AS l WHERE %s ON CONFLICT DO NOTHING"
                    % (name_of(table.name), name_of(piece.name), table.to_keep),
                    {"cutoff_ms": cutoff_ms},
                )
                session.run(
                    b"DELETE FROM %s AS l USING %s AS k WHERE %s AND k.%s >= %d AND k.%s < %d"
                    % (
                        *(name_of(piece.name), name_of(table.name), _same_key(table)),
                        *(table.cut_by.encode(), piece.start, table.cut_by.encode(), piece.end),
                    )
                )
            return
        except psycopg.errors.CheckViolation:  # its place is gone
            make_leaves(session.connection, table.name, [piece.start], now_ms, reopen=True)


def is_there(session: Session, table: str) -> bool:
    """Whether there is such a table."""
    rows = session.rows(b"SELECT to_regclass(%s) IS NOT NULL", (f'{SCHEMA}."{table}"',))
    there: bool = rows[0][0]
    return there
