"""The queue: carries hints of work from the owner of a shard to workers in other processes.

A hint names a run and the fencing token of its claim; the ledger has committed that claim before the hint is
published. So the queue holds no truth: a worker begins only after a durable write under that token, where
duplicates and stale hints meet and lose, and whoever sees no start for a while publishes again under the same
token. Losing the whole queue changes latency only.

Hints travel in packs of up to `PACK_COUNT`, because a message costs far more than a row. Delivery is at least
once and only roughly in order. Lanes are apart from end to end: a flood in one never hides another.

Example: a worker takes a pack and hangs. After the queue's `visible_again_ms` the pack is delivered to another
worker under a new receipt; the first one's receipt is void, so when it wakes up it can't take the pack away.

Every verb raises `ConnectionError` when the queue can't be reached; what was asked for may have happened or not.
"""

from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from tickwheel.domain.columns import Rows
from tickwheel.domain.job import Lane

HINT: Final = np.dtype(
    [
        ("job_id", "V16"),
        ("scheduled_ms", "<i8"),  # names the run together with job_id
        ("fence", "<i8"),  # the token of the claim; the worker starts under it or not at all
        ("flags", "u1"),  # as in TIMER
    ]
)
"""A "run R waits for a worker under token F" (33 bytes)."""

PACK_COUNT: Final = 64
"""Most hints of one pack; a pack is delivered, acked and given back as a whole."""

Receipt: TypeAlias = str
"""Names one delivery, of one take; opaque to the caller."""


class Delivery(NamedTuple):
    """What a take gave: HINT rows (maybe none) and the receipt to ack or give back all of them by."""

    rows: Rows
    receipt: Receipt


class Queue(Protocol):
    """Packs of hints by lane. Any process may publish and take."""

    async def publish(self, lane: Lane, hints: Rows) -> None:
        """Append HINT rows, cut into packs; call it after the claims are committed. None is fine."""
        ...

    async def take(self, lane: Lane, limit: int) -> Delivery:
        """Whole packs, about the oldest first, without waiting for any to come.

        At most `limit` rows; but a single pack is given also when it alone is larger, so a caller with fewer
        free slots gives the delivery back or holds the rest. A limit of 0 gives nothing. The packs are
        invisible to other takes until they are given back or `visible_again_ms` has passed since the take, on
        the adapter's own monotonic clock.
        """
        ...

    async def ack(self, receipt: Receipt) -> None:
        """Remove the delivery's packs for good: all their hints are held by leases, or proved stale.

        A receipt that was used, or whose time has passed, is void: nothing happens.
        """
        ...

    async def nack(self, receipt: Receipt) -> None:
        """Give the delivery's packs back, to be taken again at once; a void receipt does nothing."""
        ...

    async def depth(self, lane: Lane) -> int:
        """Hints that a take could give now, roughly where the queue is remote; for metrics and scaling."""
        ...
