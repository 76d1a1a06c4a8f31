"""What the use cases tell the process that owns the shards: accelerators only, the store is the truth."""

from collections.abc import Sequence
from typing import Protocol

from tickwheel.domain.columns import Rows


class Owner(Protocol):
    """The firing side, as the API side sees it. Every call is a hint and may be lost."""

    def arm(self, timers: Rows) -> None:
        """TIMER rows that are committed: near ones go into the wheel at once. Idempotent by timer key."""
        ...

    def forget_work(self, job_id: bytes) -> None:
        """The definition changed: drop what was prefetched for it."""
        ...

    def abort(self, runs: Sequence[tuple[bytes, int]]) -> None:
        """(job_id, scheduled_ms) of runs that were cancelled: stop their attempts if they run here."""
        ...
