"""Drops the rows of processes that ended long ago: there is one row per process start.

A row may go when nothing can ask for it any more. *It claims*: a deposed node claims nothing, and nor does one
that has no row; its name, the incarnation, is never used again. *Its shards*: one that still stands under its
number could be taken by nobody, for that its owner is deposed could not be looked up, so such a row stays. *Its
attempts*: the row says that their worker is proved dead, and while its leases run, nothing else does; a day after
it was deposed they are over. *Its name in the ledger*: readers see the worker of a run, so the row stays as long
as runs do. (A dead letter that is older than that no longer tells who ran it.) Numbers are drawn from a sequence,
which never gives one out twice.

How long a node has been deposed is told by upkeep itself, which notes when it saw that first. So deposing a node,
for which a takeover waits, writes no more than it must, and a program of before may do it.
"""

from typing import Final

from tickwheel.adapters.postgresql.records import cold_statements
from tickwheel.adapters.postgresql.session import Session

SQL: Final = cold_statements("nodes")


def drop_retired(session: Session, now_ms: int, cutoff_ms: int) -> None:
    """Note who is deposed, and drop those who have been since before `cutoff_ms`, a day ago at the latest."""
    session.run(SQL["note_deposed"], {"now_ms": now_ms})
    session.run(SQL["drop_retired"], {"cutoff_ms": cutoff_ms})
