"""Deletes definitions that are over, with their names, tags and idempotency keys.

Those of one-offs leave with the leaf of their day (`ledger_retention`). The leaf of recurring jobs, where one-offs
from more than two months ahead are as well, has no end: there rows go one by one, some hundred at a time, by
positions kept in memory, so that what has to stay is not looked at again and again. A job goes after its last run.
"""

from collections.abc import Sequence
from typing import Any, Final

from tickwheel.adapters.postgresql.arrays import texts, uuids_of
from tickwheel.adapters.postgresql.detaching import SQL, name_of
from tickwheel.adapters.postgresql.ledger_retention import KEY_LIFE_MS
from tickwheel.adapters.postgresql.records import uuid_of
from tickwheel.adapters.postgresql.session import Session

ROWS: Final = 500
_START: Final = (-(1 << 62), bytes(16))

Refs = Sequence[tuple[Any, ...]]
"""job_id, tenant_id, name, idempotency_key, tags, named."""


class DefinitionsRetention:
    """Keeps the positions of the walks over the leaf without an end."""

    def __init__(self) -> None:
        self._at = {"over": _START, "once": _START}

    def delete_over(self, session: Session, now_ms: int, retention_ms: int) -> int:
        """Delete a bounded piece; gives how many."""
        cutoff_ms = now_ms - retention_ms
        key_cutoff_ms = now_ms - max(retention_ms, KEY_LIFE_MS)
        ids: list[bytes] = []
        for walk, (at_ms, after) in self._at.items():
            bindings = {
                "at_ms": at_ms,
                "after": uuid_of(after),
                "cutoff_ms": cutoff_ms,
                "key_cutoff_ms": key_cutoff_ms,
                "count": ROWS,
            }
            rows = session.rows(SQL[walk], bindings)
            self._at[walk] = (rows[-1][0], rows[-1][1].bytes) if len(rows) == ROWS else _START
            ids += [job_id.bytes for _, job_id, is_over in rows if is_over]
        if not ids:
            return 0
        with session.transaction():
            spent = session.rows(SQL["spent"], {"ids": uuids_of(ids), "cutoff_ms": cutoff_ms})
            if spent:
                free_references(session, spent)
                session.run(SQL["delete_jobs"], {"ids": uuids_of([row[0].bytes for row in spent])})
        return len(spent)


def free_piece(session: Session, piece: str) -> None:
    """Free the keys, tags and names of all definitions in a piece, some hundred at a time; repeatable."""
    after = bytes(16)
    statement = SQL["side_rows"].replace(b"{piece}", name_of(piece))
    while rows := session.rows(statement, {"after": uuid_of(after), "count": ROWS}):
        with session.transaction():
            free_references(session, rows)
        after = rows[-1][0].bytes


def free_references(session: Session, rows: Refs) -> None:
    """Delete what refers to these definitions."""
    keyed = [(row[1], row[3], row[0].bytes) for row in rows if row[3] is not None]
    tagged = [(row[1], tag, row[0].bytes) for row in rows for tag in row[4] or ()]
    named = [(row[1], row[2], row[0].bytes) for row in rows if row[5]]
    for statement, column, found in (
        ("free_keys", "keys", keyed),
        ("free_tags", "tags", tagged),
        ("free_names", "names", named),
    ):
        if found:
            tenants, values, ids = zip(*found, strict=True)
            session.run(SQL[statement], {"tenants": texts(tenants), column: texts(values), "ids": uuids_of(ids)})
