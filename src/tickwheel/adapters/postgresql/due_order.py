"""First timers of all shards in order of due time.

The key of `timers` begins with the shard, so each shard has an order of its own. A step reads the first few
timers of every shard; their merged order is right up to the lowest last one of a shard that gave all it was asked
for, and the next step goes on from there. Example with 2 per shard: shard 1 gives 10, 11, shard 2 gives 40, 50; 10
and 11 are certain, for shard 1 may have a 12.

Leaves are taken one after the other, and only those that hold anything: looking into the empty ones of the next
ten years for 256 shards would be what costs. The walk begins where something may be unresolved.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tickwheel.adapters.postgresql.records import uuid_of
from tickwheel.adapters.postgresql.session import Session
from tickwheel.ports.store import JobQuery

EACH: Final = 8
"""Timers per shard and step."""
MOST_EACH: Final = 256
_BOUNDS: Final = re.compile(r"FROM \('?(-?\d+)'?\) TO \('?(-?\d+)'?\)")
_AFTER_ALL: Final = b"\xff" * 16


def soonest(
    session: Session, statements: Mapping[str, bytes], query: JobQuery, start: Sequence[Any] | None
) -> Iterator[list[tuple[tuple[int, bytes], bytes]]]:
    """Chunks of ((due_ms, job_id), job_id) in order, after `start`, within the range of the query."""
    from_ms = query.due_from_ms or 0
    due_ms, after = (from_ms - 1, _AFTER_ALL) if start is None else (start[0], start[1])
    [(acknowledged_ms,)] = session.rows(statements["acknowledged"])
    if acknowledged_ms is not None and acknowledged_ms > due_ms:
        due_ms, after = acknowledged_ms - 1, _AFTER_ALL
    until_ms = (1 << 62) if query.due_to_ms is None else query.due_to_ms
    for leaf_start, leaf_end in _leaves(session, statements):
        if leaf_end > due_ms and leaf_start < until_ms:
            if leaf_start > due_ms:
                due_ms, after = leaf_start - 1, _AFTER_ALL
            bounds = {"from_ms": leaf_start, "until_ms": min(leaf_end, until_ms)}
            for chunk in _within(session, statements["soonest"], bounds, due_ms, after):
                yield chunk
                due_ms, after = chunk[-1][0]


def _within(
    session: Session, statement: bytes, bounds: dict[str, int], due_ms: int, after: bytes
) -> Iterator[list[tuple[tuple[int, bytes], bytes]]]:
    each = EACH
    while True:
        bindings = {**bounds, "due_ms": due_ms, "after": uuid_of(after), "each": each}
        rows = [(due, job_id.bytes, shard) for due, job_id, shard in session.rows(statement, bindings)]
        counts: dict[int, int] = {}
        for _, _, shard in rows:
            counts[shard] = counts.get(shard, 0) + 1
        full = {shard for shard, count in counts.items() if count == each}
        if full:
            last = {shard: (due, job_id) for due, job_id, shard in rows if shard in full}
            certain = min(last.values())
            rows = [row for row in rows if row[:2] <= certain]
        if rows:
            yield [((due, job_id), job_id) for due, job_id, _ in rows]
            due_ms, after = rows[-1][:2]
        if not full:
            return
        each = min(2 * each, MOST_EACH)


def _leaves(session: Session, statements: Mapping[str, bytes]) -> list[tuple[int, int]]:
    found = [_BOUNDS.search(bounds) for (bounds,) in session.rows(statements["timer_leaves"])]
    return sorted((int(one[1]), int(one[2])) for one in found if one is not None)
