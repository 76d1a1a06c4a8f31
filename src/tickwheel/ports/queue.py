"""The queue: carries hints of work from the owner of a shard to workers in other processes.

A hint names a run and the fencing token of its claim; the ledger has committed that claim before the hint is
published. So the queue holds no truth: a worker begins only after a durable write under that token, where
duplicates and stale hints meet and lose, and whoever sees no start for a while publishes again under the same
token. Losing the whole queue changes latency only.

Hints travel in packs of up to `PACK_COUNT`, because a message costs far more than a row. Delivery is at least
once and only roughly in order. Topics are apart from end to end: a flood in one lane never hides another, and a
hint waits for those workers only that can do the work.

Example: a worker takes a pack and hangs. After the queue's `visible_again_ms` the pack is delivered to another
worker under a new receipt; the first one's receipt is void, so when it wakes up it can't take the pack away.

A tenant may have workers of its own. Hints for these travel apart, by a route of the tenant (`tenant_route`); the
workers of all tenants never look there, and those of a tenant nowhere else.

Every verb raises `ConnectionError` when the queue can't be reached; what was asked for may have happened or not.
"""

from base64 import b32encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from tickwheel.domain.columns import Rows
from tickwheel.domain.job import Lane, Target, TargetType

HINT: Final = np.dtype(
    [
        ("job_id", "V16"),
        ("scheduled_ms", "<i8"),  # names the run together with job_id
        ("fence", "<i8"),  # the token of the claim; the worker starts under it or not at all
        ("flags", "<u2"),  # as in TIMER
    ]
)
"""A "run R waits for a worker under token F" (34 bytes)."""

PACK_COUNT: Final = 64
"""Most hints of one pack; a pack is delivered, acked and given back as a whole."""

Receipt: TypeAlias = str
"""Names one delivery, of one take; opaque to the caller."""


class Delivery(NamedTuple):
    """What a take gave of one topic: HINT rows (at least one) and the receipt to ack or give all of them back."""

    topic: "Topic"
    rows: Rows
    receipt: Receipt


class Topic(NamedTuple):
    """What hints are sorted by: nobody who takes gets a hint for work that it can't do."""

    lane: Lane
    route: str  # `WEBHOOKS`, or what `handler_route` gives; or either of them as `tenant_route` makes it


WEBHOOKS: Final = "webhooks"


def handler_route(name: str) -> str:
    """The route of the runs of one handler; its name is any text of at most 200 characters."""
    return f"handler:{name}"


_OWN: Final = "tenant:"
_DIGEST_BYTES: Final = 15
TAG_CHARS: Final = 24
_OWN_CHARS: Final = len(_OWN) + TAG_CHARS + 1


@lru_cache(maxsize=16_384)
def tenant_tag(tenant_id: str) -> str:
    """24 letters and digits that stand for a tenant, whose id is any text; no other tenant has them."""
    digest = blake2b(tenant_id.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()
    return b32encode(digest).decode().lower()


def tenant_route(tenant_id: str | None, route: str) -> str:
    """That route to the tenant's own workers; to those of all tenants for None."""
    return route if tenant_id is None else f"{_OWN}{tenant_tag(tenant_id)}:{route}"


def is_own(route: str) -> bool:
    """Whether it leads to the own workers of a tenant."""
    return route.startswith(_OWN)


def shared_route(route: str) -> str:
    """The same to the workers of all tenants."""
    return route[_OWN_CHARS:] if route.startswith(_OWN) else route


def route_of(target: Target) -> str:
    """The route of the runs of a job with that target."""
    return handler_route(target.name) if target.type is TargetType.HANDLER else WEBHOOKS


class Queue(Protocol):
    """Packs of hints by topic. Any process may publish and take; topics need not be declared."""

    async def publish(self, topic: Topic, hints: Rows) -> None:
        """Append HINT rows, cut into packs; call it after the claims are committed. None is fine."""
        ...

    async def take(self, topics: Sequence[Topic], limit: int) -> Sequence[Delivery]:
        """Whole packs of these topics, in the order of the topics, without waiting for any to come.

        Of one topic about the oldest packs come first. At most `limit` rows in all; but the very first pack is
        given also when it alone is larger, so a caller with fewer free slots gives the delivery back or holds the
        rest. A limit of 0 gives nothing. The packs are invisible to other takes until they are given back or
        `visible_again_ms` has passed since the take, on the adapter's own monotonic clock.
        """
        ...

    async def wait(self, topics: Sequence[Topic], limit_ms: int) -> None:
        """Return when something of these topics may be there to take, or after `limit_ms`; early is fine."""
        ...

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        """Remove these deliveries' packs for good: all their hints are held by leases, or proved stale.

        A receipt that was used, or whose time has passed, is void: nothing happens.
        """
        ...

    async def nack(self, receipts: Sequence[Receipt]) -> None:
        """Give these deliveries' packs back, to be taken again at once; a void receipt does nothing."""
        ...

    async def depth(self, topics: Sequence[Topic]) -> Sequence[int]:
        """Per topic: hints that a take could give now, roughly where the queue is remote.

        Owners publish only while this is small, so that backlog waits with them, unleased and in order (I12).
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
