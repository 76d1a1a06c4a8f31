"""The table of attempts that are running in this process, one slot each.

Columns, preallocated: claims fill slots in batches, heartbeats and completions read them in batches. A slot is
taken when its claim is won and free again when the executor has reported it; the completion that is still to be
committed has its own copy of the row.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.ports.executor import Work

ATTEMPT: Final = np.dtype(
    [
        ("due_ms", "<i8"),
        ("job_id", "V16"),
        ("scheduled_ms", "<i8"),
        ("gen", "<i4"),
        ("flags", "<u2"),
        ("fence", "<i8"),
        ("attempt", "<i4"),
        ("lost_count", "<i4"),
        ("started_ms", "<i8"),
        ("lease_ms", "<i8"),  # wall clock; what the store knows
        ("renewed_mono_ms", "<i8"),  # monotonic, taken when the claim or renewal was *sent*
        ("begun_mono_ms", "<i8"),
        ("running", "u1"),  # RUNNING is written
        ("stopping", "u1"),  # the executor was told to abort it
    ]
)


class InFlight:
    """Slots 0..capacity-1. `rows[slot]` is meaningful where `active[slot]`."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows: Rows = np.zeros(capacity, dtype=ATTEMPT)
        self.active: Bools = np.zeros(capacity, dtype=np.bool_)
        # Raised each time a slot is taken. Whoever waited for something compares it, for the slot may be another
        # attempt's by now; tokens don't tell them apart, because each is unique in its shard only.
        self.turns: Ints = np.zeros(capacity, dtype=np.int64)
        self.works: list[Work | None] = [None] * capacity
        self._free: list[int] = list(range(capacity - 1, -1, -1))

    def __len__(self) -> int:
        return self.capacity - len(self._free)

    def take(self, count: int) -> npt.NDArray[np.intp]:
        """`count` free slots, now active; the caller has made sure that they exist."""
        slots = np.array(self._free[len(self._free) - count :], dtype=np.intp)
        del self._free[len(self._free) - count :]
        self.active[slots] = True
        self.turns[slots] += 1
        return slots

    def release(self, slots: Sequence[int]) -> None:
        """Free these slots."""
        for slot in slots:
            self.works[slot] = None
        self.active[np.asarray(slots, dtype=np.intp)] = False
        self._free.extend(slots)

    def find(self, job_id: bytes, scheduled_ms: int) -> list[int]:
        """Slots that run this run (at most one in practice)."""
        match = self.active & (self.rows["scheduled_ms"] == scheduled_ms)
        return [int(s) for s in np.flatnonzero(match) if self.rows["job_id"][s].tobytes() == job_id]

    def held(self, since_mono_ms: int) -> set[tuple[bytes, int, int]]:
        """(job id, scheduled ms, fencing token) of the attempts whose last renewal was sent at or after that."""
        slots = np.flatnonzero(self.active & (self.rows["renewed_mono_ms"] >= since_mono_ms))
        columns = (self.rows[name][slots].tolist() for name in ("job_id", "scheduled_ms", "fence"))
        return set(zip(*columns, strict=True))

    def unleased(self) -> Rows:
        """The attempts that were not renewed yet: no row in `leases` tells of them."""
        rows: Rows = self.rows[self.active & (self.rows["running"] == 0)]
        return rows

    def active_slots(self) -> npt.NDArray[np.intp]:
        """All slots in use."""
        return self.active.nonzero()[0]
