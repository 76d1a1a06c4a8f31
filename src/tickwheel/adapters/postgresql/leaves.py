"""Runs a write again after making the leaf that it did not find.

Leaves are made ahead of time, so this is for far instants, and for a database whose upkeep has stood still. A row
that belongs to a leaf that was dropped for good must not take its batch with it: `Sealed` tells of it, and the
caller leaves such rows out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import psycopg

from tickwheel.adapters.postgresql.partitions import make_leaves
from tickwheel.adapters.postgresql.session import Session

T = TypeVar("T")
Needs = Mapping[str, Sequence[int]]
"""By table, the instants (homes for jobs) of the rows that a write inserts."""
_NO_LEAF: Final = "23514"
"""check_violation: there is no other check in the schema that a batch could violate."""


def with_leaves(session: Session, write: Callable[[], T], needs: Callable[[], Needs], pin_ms: int | None) -> T:
    """`write()`, once more with the leaves that it needs if it failed for want of one."""
    try:
        return write()
    except psycopg.errors.CheckViolation:
        session.committing = False
    now_ms = session.rows(b"SELECT coalesce(%s::int8, tickwheel.clock_ms())", (pin_ms,))[0][0]
    for table, values in needs().items():
        make_leaves(session.connection, table, values, now_ms)
    return write()
