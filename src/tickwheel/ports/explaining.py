"""What explanations are made from beside ledger and definitions: delays, and the runs before a run.

Delays are what nodes note of the stretches of time in which they let runs wait. They are for explanations only: a
node may lose the last few, and nothing else depends on them.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from tickwheel.domain.delays import Delay, DelayKind
from tickwheel.ports.store import Run

DELAYS_FOUND: Final = 100
"""So many are given at most, the latest of them."""

Wanted: TypeAlias = tuple[DelayKind, str | None]
"""Delays of a kind, of one subject or (None) of any."""


class ExplainingStore(Protocol):
    """Every store is one. Verbs raise what those of `ports.store` raise, and repeat well."""

    async def note_delays(self, delays: Sequence[Delay]) -> None:
        """Keep them. One of the same kind, subject, node and beginning has gone on: it is replaced."""
        ...

    async def find_delays(self, wanted: Sequence[Wanted], from_ms: int, until_ms: int) -> Sequence[Delay]:
        """Those that lie over a part of [from, until), oldest first, `DELAYS_FOUND` at most."""
        ...

    async def trim_delays(self, before_ms: int, limit: int) -> int:
        """Delete at most `limit` that were over before that; gives how many."""
        ...

    async def runs_before(self, tenant_id: str, job_id: bytes, instant_ms: int, limit: int) -> Sequence[Run]:
        """The ledger rows of a job with earlier instants, latest first, without attempts."""
        ...
