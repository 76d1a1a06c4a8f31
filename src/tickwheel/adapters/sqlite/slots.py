"""The slots of limits of concurrency, as a claim's transaction sees and writes them."""

from collections.abc import Iterable, Sequence
from typing import Final

import apsw

from tickwheel.adapters.sqlite.codec import pack_ids, pack_rows
from tickwheel.adapters.sqlite.connection import Session
from tickwheel.adapters.sqlite.statements import load_statements
from tickwheel.domain.claim_decisions import Seen, Slot
from tickwheel.domain.concurrency import SlotBook, Used

SQL: Final = load_statements("slots")


def open_book(session: Session, seen: Iterable[Seen]) -> SlotBook:
    """Count what the limits of these claims count."""
    limits = {limit for one in seen for limit in one.limits}
    if not limits:
        return SlotBook({})
    names = {limit.name for limit in limits}
    rows = session.table(SQL["running"], {"counted": apsw.carray(tuple(names))})
    used = {name: Used(running) for name, running in rows}
    bounded = {limit.name for limit in limits if limit.max_waiting is not None}
    if bounded:
        for name, job_id, scheduled_ms in session.table(SQL["waiting"], {"counted": apsw.carray(tuple(bounded))}):
            used[name].waiting.add((bytes.fromhex(job_id), scheduled_ms))
    return SlotBook(used)


def write_slots(session: Session, slots: Sequence[Slot]) -> None:
    """What was given out."""
    if slots:
        batch = {"rows": pack_rows([row[1:] for row in slots]), "ids": pack_ids(row[0] for row in slots)}
        session.run(SQL["leave_waiting"], batch)
        session.run(SQL["take_slots"], batch)
