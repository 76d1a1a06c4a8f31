"""The standing check: is every job that was accepted on its way to an end, or has it ended?

Two walks in bounded pieces, each piece one snapshot. **Jobs**: each has exactly one standing, a one-off that of
its run. **Runs**: those of recurring jobs, and earlier instants of one-offs that were moved; one standing each.

`UNACCOUNTED` is what must never be: a job or a run that nothing will ever fire or end. It has no live timer, no
row that is in flight, paused or ended, and was not ended by a person.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from tickwheel.ports.store import ChainPage, Counts

OVERDUE_MS: Final = 60_000
"""A live timer that has been due for longer than this is overdue: it should have been claimed."""
EXAMPLE_COUNT: Final = 20


class Standing(StrEnum):
    """Where a job or a run is between accepted and ended."""

    WAITING = "waiting"  # its timer is still to come, or not due for long
    OVERDUE = "overdue"
    IN_FLIGHT = "in_flight"
    PAST_LEASE = "past_lease"  # in flight, and its lease is over: about to be taken back
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    ENDED = "ended"  # a job that was cancelled, deleted or completed, or whose run was dropped as history
    UNACCOUNTED = "unaccounted"


class AuditPiece(msgspec.Struct, frozen=True):
    """How many of the piece have which standing. `unaccounted`: (job_id, scheduled_ms or 0) of some of those.

    `after` is where the next piece begins, None at the end.
    """

    standings: Mapping[Standing, int]
    unaccounted: tuple[tuple[bytes, int], ...]
    after: str | None


class Audited(Protocol):
    """The verbs of the check. Cursors are opaque; "" is the beginning."""

    async def audit_jobs(self, after: str, limit: int, now_ms: int) -> AuditPiece:
        """The next `limit` jobs."""
        ...

    async def audit_runs(self, after: str, limit: int, now_ms: int, *, open_only: bool) -> AuditPiece:
        """The next `limit` listed runs; `open_only`: of those that have not ended."""
        ...

    async def audit_slots(self) -> int:
        """How many slots of limits of concurrency no run holds any more: there must be none. One snapshot."""
        ...


class AuditSource(Audited, Protocol):
    """What an audit on demand reads."""

    async def broken_chains(self, after: bytes, limit: int) -> ChainPage: ...

    async def counts(self) -> Counts: ...

    async def aclose(self) -> None: ...
