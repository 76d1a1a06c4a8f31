"""The slots of limits of concurrency, as a claim's transaction sees and writes them.

Claims of one count come one after the other: each takes a lock that stands for the count's name before it counts
the slots, and keeps it to its end. What was given out before is committed by then, so a limit is exact; what is
being freed meanwhile is not seen, which errs on the safe side. Runs that end take no lock: a trigger of the ledger
deletes their slots.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from tickwheel.adapters.postgresql.arrays import int8s, texts
from tickwheel.adapters.postgresql.batches import decided
from tickwheel.adapters.postgresql.session import Session
from tickwheel.adapters.postgresql.statements import load_statements
from tickwheel.domain.claim_decisions import Seen, Slot, Start
from tickwheel.domain.concurrency import SlotBook, Used

SQL: Final = load_statements("slots")
_LOCK_BYTES: Final = 8


def open_book(session: Session, seen: Iterable[Seen]) -> SlotBook:
    """Lock and count what the limits of these claims count."""
    limits = {limit for one in seen for limit in one.limits}
    if not limits:
        return SlotBook({})
    names = sorted({limit.name for limit in limits})
    session.rows(SQL["lock_counts"], {"numbers": int8s(sorted(map(_lock_number, names)))})
    used = {name: Used(running) for name, running in session.rows(SQL["running"], {"counted": texts(names)})}
    bounded = sorted({limit.name for limit in limits if limit.max_waiting is not None})
    if bounded:
        for name, job_id, scheduled_ms in session.rows(SQL["waiting"], {"counted": texts(bounded)}):
            used[name].waiting.add((job_id.bytes, scheduled_ms))
    return SlotBook(used)


def write_slots(session: Session, slots: Sequence[Slot], starts: Sequence[Start]) -> None:
    """What was given out; `starts` are the runs that had a row before."""
    if slots:
        waited = [(start.job_id, start.scheduled_ms) for start in starts if start.limited]
        if waited:
            session.run(SQL["leave_waiting"], decided(waited, ("job_id", "scheduled_ms")))
        session.run(SQL["take_slots"], decided(slots, Slot._fields))


def _lock_number(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=_LOCK_BYTES).digest(), "big", signed=True)
