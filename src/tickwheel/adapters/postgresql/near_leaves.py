"""Names the one leaf that all rows of a batch lie in, so that a statement can speak to it instead of its table.

Nearly every batch is of one day. A statement that names the leaf has no partitions to prune, so the server keeps
one plan of it for good: planning costs more than claiming when a batch is a single run. A batch that lies across
leaves, or far from now, goes through the table.

**Only leaves that end less than an hour ago, or later, are named.** A leaf is detached before it is dropped, and a
row that is inserted into a detached table by its name is lost without an error. Leaves are kept for a day at least
after their end, and what is known here is at most half a minute old: no leaf that is named is ever near its end.
"""

from bisect import bisect_right
from typing import Final

from tickwheel.adapters.postgresql.partitions import RECURRING_HOME, SCHEMA, Connection, Leaf, list_leaves
from tickwheel.domain.ids import DAY_MS

TABLES: Final = ("jobs", "runs")
FRESH_MS: Final = 30_000
RETRY_MS: Final = 1_000
"""How soon the list is read again for a leaf that was not in it: it may have been made just now."""
NEAR_MS: Final = 3_600_000
_LAST: Final = 1 << 63


class NearLeaves:
    """What one session knows of the leaves."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._leaves: dict[str, list[Leaf]] = {}
        self._read_ms: int | None = None

    def relation(self, table: str, low: int, high: int, now_ms: int) -> str:
        """The leaf that `low` and `high` (instants; homes for jobs) lie in, else the table, with the schema."""
        age_ms = FRESH_MS if self._read_ms is None else abs(now_ms - self._read_ms)
        if age_ms >= FRESH_MS:
            self._read(now_ms)
        leaf = self._find(table, low, high, now_ms)
        if leaf is None and RETRY_MS <= age_ms < FRESH_MS:
            self._read(now_ms)
            leaf = self._find(table, low, high, now_ms)
        return f"{SCHEMA}.{table if leaf is None else leaf}"

    def _read(self, now_ms: int) -> None:
        self._leaves = {table: list_leaves(self._connection, table) for table in TABLES}
        self._read_ms = now_ms

    def _find(self, table: str, low: int, high: int, now_ms: int) -> str | None:
        leaves = self._leaves.get(table, [])
        place = bisect_right(leaves, (low, _LAST, "")) - 1
        if place < 0 or leaves[place].end <= high:
            return None
        leaf = leaves[place]
        if table == "jobs" and leaf.start == RECURRING_HOME:  # never dropped
            return leaf.name
        end_ms = leaf.end * DAY_MS if table == "jobs" else leaf.end
        return leaf.name if end_ms > now_ms - NEAR_MS else None
