"""Makes the leaves of the partitioned tables.

`timers`, `runs`, `attempts` and `results` are cut by instant, `jobs` by home (the due day that is written into a
job's id; 0 for recurring and far ones). What is near, up to 62 days ahead, gets leaves of `meta.leaf_ms` (a day,
unless set otherwise before the first leaf is made); what is further gets a leaf per month. A leaf is named by its
bounds: `timers_20261201_20261202`, `runs_20270301_20270401`, with hours where they are not midnight
(`timers_20261201t06_20261201t12`), so no two leaves ever want one name. The home 0 of jobs is `jobs_recurring`.

Leaves are made ahead of time (`maintain`), or when a row finds none. A leaf fills the gap that it is asked for:
its usual bounds, cut by the leaves beside it. Example: a timer due on 15 March was stored in December, so
`timers_20270301_20270401` exists; when March comes near, days are made around it, not within it. (Upkeep may peel
days off such a month while it is far.)

What was dropped never comes back (`meta.sealed_*`): a row for it would be found by nobody.

A leaf is made apart and then attached, which lets reads and writes of the table go on (CREATE TABLE ... PARTITION
OF would lock them all out). One advisory lock, held to the end of the transaction, keeps makers in a row. Room
ahead is made in many short transactions, so that a row that asks for its leaf meanwhile does not wait for all.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from re import compile as compile_pattern
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.ids import DAY_MS, HOME_HORIZON_MS

SCHEMA: Final = "tickwheel"
LEAVES_LOCK: Final = 0x7469_636B_0001
"""Advisory lock key: whoever makes, drops or splits leaves holds it to the end of the transaction."""
BY_INSTANT: Final = ("timers", "runs", "attempts")
TABLES: Final = ("runs", "attempts", "timers", "jobs")
RECURRING_HOME: Final = 0
DAYS_AT_ONCE: Final = 4
"""Of one table, made ahead in one transaction: about 50 ms on a machine with nothing else to do."""

_SEALED: Final = {
    "timers": "sealed_timers_ms",
    "runs": "sealed_runs_ms",
    "attempts": "sealed_runs_ms",
    "results": "sealed_runs_ms",
    "jobs": "sealed_home",
}
_STORAGE: Final = {"timers": "", "runs": " WITH (fillfactor = 45)", "attempts": "", "results": "", "jobs": ""}
_BOUNDS: Final = compile_pattern(r"FROM \('?(-?\d+)'?\) TO \('?(-?\d+)'?\)")

Connection = psycopg.Connection[Any]


class Leaf(NamedTuple):
    """A partition: its name without the schema, and its half-open range of instants (of days for jobs)."""

    start: int
    end: int
    name: str


class Sealed(TickwheelError):
    """The row belongs to a leaf that was dropped for good."""

    code = "sealed_partition"


def list_leaves(connection: Connection, table: str) -> list[Leaf]:
    """The leaves of a table in order."""
    rows = connection.execute(
        """SELECT c.relname, pg_get_expr(c.relpartbound, c.oid)
             FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
            WHERE i.inhparent = %s::regclass AND c.relpartbound IS NOT NULL""",
        (f"{SCHEMA}.{table}",),
        prepare=False,
    ).fetchall()
    leaves = []
    for name, bounds in rows:
        found = _BOUNDS.search(bounds)
        if found is not None:
            leaves.append(Leaf(int(found[1]), int(found[2]), name))
    return sorted(leaves)


def make_leaves(
    connection: Connection,
    table: str,
    values: Iterable[int],
    now_ms: int,
    *,
    reopen: bool = False,
    skip_sealed: bool = False,
) -> list[Leaf]:
    """Make the leaves that these instants (homes for jobs) need and that do not exist; gives those made.

    In a transaction of its own. Raises `Sealed`, and makes nothing, if one of them lies in what was dropped.
    `reopen` makes it all the same: for ledger rows that a person's change asks for (a monthly job that is resumed
    after a long pause runs the occurrence that it missed). No timer of that time is left, so nothing fires twice.
    `skip_sealed` leaves out what was dropped: for room ahead of time, which nobody asked for yet.
    """
    wanted = sorted(set(values))
    made: list[Leaf] = []
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LEAVES_LOCK,), prepare=False)
        meta = connection.execute(
            sql.SQL("SELECT leaf_ms, {} FROM tickwheel.meta").format(sql.Identifier(_SEALED[table])), prepare=False
        ).fetchone()
        if meta is None:
            raise RuntimeError("the table meta is empty")
        leaf_ms, sealed = meta
        leaves = list_leaves(connection, table)
        for value in wanted:
            if value < sealed and not reopen and not (table == "jobs" and value == RECURRING_HOME):
                if skip_sealed:
                    continue
                raise Sealed(f"{table} before {sealed} were dropped, so nothing is stored at {value} any more")
            if _has(leaves, value):
                continue
            place = bisect_right(leaves, (value, _LAST)) - 1
            bound = 0 if reopen else sealed
            leaf = _fit(table, _usual(table, value, leaf_ms, now_ms), leaves, place, bound)
            leaves.insert(place + 1, leaf)
            made.append(leaf)
        if made:
            statements = [statement for leaf in made for statement in _create(table, leaf)]
            connection.execute(sql.SQL("; ").join(statements), prepare=False)
    return made


def make_window(
    connection: Connection, from_ms: int, until_ms: int, now_ms: int, tables: Sequence[str] = TABLES
) -> list[Leaf]:
    """Make what is missing of these tables for [from_ms, until_ms), and the leaf of recurring jobs.

    In as many transactions as it takes; what was dropped is left out.
    """
    made = []
    for table in tables:
        if table == "jobs":
            values, day = [RECURRING_HOME, *range(from_ms // DAY_MS, -(-until_ms // DAY_MS))], 1
        else:
            values, day = list(range(from_ms, until_ms, 3_600_000)), DAY_MS
        leaves = list_leaves(connection, table)
        pieces: dict[int, list[int]] = {}
        for value in values:
            if not _has(leaves, value):
                pieces.setdefault(value // (DAYS_AT_ONCE * day), []).append(value)
        for few in pieces.values():
            made += make_leaves(connection, table, few, now_ms, skip_sealed=True)
    return made


def _has(leaves: Sequence[Leaf], value: int) -> bool:
    place = bisect_right(leaves, (value, _LAST)) - 1
    return place >= 0 and leaves[place].end > value


_LAST: Final = (1 << 63) - 1


def _usual(table: str, value: int, leaf_ms: int, now_ms: int) -> tuple[int, int]:
    """The bounds of a leaf that has no neighbours."""
    if table == "jobs":
        return value, value + 1
    near_end_ms = (now_ms // DAY_MS) * DAY_MS + HOME_HORIZON_MS
    if value < near_end_ms:
        start_ms = value // leaf_ms * leaf_ms
        return start_ms, start_ms + leaf_ms
    day = datetime.fromtimestamp(value / 1000, UTC)
    first = datetime(day.year, day.month, 1, tzinfo=UTC)
    after = datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)
    return max(int(first.timestamp()) * 1000, near_end_ms), int(after.timestamp()) * 1000


def _fit(table: str, usual: tuple[int, int], leaves: Sequence[Leaf], place: int, sealed: int) -> Leaf:
    start, end = usual
    if place >= 0:
        start = max(start, leaves[place].end)
    if place + 1 < len(leaves):
        end = min(end, leaves[place + 1].start)
    if table == "jobs":
        name = "jobs_recurring" if start == RECURRING_HOME else f"jobs_{_stamp(start * DAY_MS)}"
    else:
        start = max(start, sealed)
        name = f"{table}_{_stamp(start)}_{_stamp(end)}"
    return Leaf(start, end, name)


def _stamp(instant_ms: int) -> str:
    at = datetime.fromtimestamp(instant_ms / 1000, UTC)
    return f"{at:%Y%m%d}" if instant_ms % DAY_MS == 0 else f"{at:%Y%m%dt%H%M%S}".removesuffix("0000")


def _create(table: str, leaf: Leaf) -> list[sql.Composable]:
    names = {"leaf": sql.Identifier(SCHEMA, leaf.name), "parent": sql.Identifier(SCHEMA, table)}
    like = "CREATE TABLE {leaf} (LIKE {parent} INCLUDING DEFAULTS INCLUDING COMPRESSION)" + _STORAGE[table]
    attach = "ALTER TABLE {parent} ATTACH PARTITION {leaf} FOR VALUES FROM ({start}) TO ({end})"
    bounds = {"start": sql.Literal(leaf.start), "end": sql.Literal(leaf.end)}
    return [sql.SQL(like).format(**names), sql.SQL(attach).format(**bounds, **names)]
