"""Shards: which incarnation owns which, under which epoch, and the feed by which an owner misses nothing.

**Ownership** is an epoch in the store and part of every write of an owner. A shard changes hands by a
compare-and-set on its epoch, after the old owner was deposed (or has released it); the coordinator only says when
it is worth trying.

**Feed.** What is committed after an owner has read its timers reaches it by transaction snapshots, not by a
notification: `feed(prev)` gives exactly the timers that were not visible in `prev` and are visible now, and the
snapshot of that very read, which is the next `prev`. So each committed timer comes once, in spite of commits that
become visible out of order.

**Pair.** `(ack_ms, snapshot)`, stored per shard: every timer of the shard with due < ack_ms that is visible in the
snapshot is resolved. That is where the next owner goes on from.

Every verb raises `StoreUnavailable` (nothing was written) or `OutcomeUnknown` (read back).
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from tickwheel.domain.columns import Rows

STORED: Final = 0
"""The session number of a snapshot that was read from `Pair`s: valid in any session."""


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """What some read had seen. `text` is the store's own form.

    A snapshot is good for `feed` only in the database session that read it (after a crash of the store, ids
    of transactions may be given out again); one that was stored in a pair is good in every session.
    """

    text: str
    session: int = STORED


class Pair(msgspec.Struct, frozen=True, gc=False):
    """Every timer of the shard with due < `ack_ms` that is visible in `snapshot` is resolved."""

    ack_ms: int
    snapshot: Snapshot


class ShardState(msgspec.Struct, frozen=True, gc=False):
    """A row of the table of shards. `owner` is an incarnation, None after a release."""

    shard: int
    epoch: int
    owner: str | None


class Taken(msgspec.Struct, frozen=True, gc=False):
    """A shard that is now ours. `pair` None: nothing is known, load from the oldest timer on."""

    shard: int
    epoch: int
    pair: Pair | None


class HeldPair(msgspec.Struct, frozen=True, gc=False):
    """A pair to store for a shard held under `epoch`."""

    shard: int
    epoch: int
    pair: Pair


class Fed(NamedTuple):
    """The answer to a poll."""

    rows: Rows  # TIMER rows, in no order
    snapshot: Snapshot  # of the very statement that gave the rows


class FeedSessionLost(Exception):
    """The database session that read `prev` is gone: go on from the stored pairs."""


class ShardStore(Protocol):
    """Nodes, shards, pairs and the feed of one database."""

    async def now_ms(self) -> int:
        """The store's clock."""
        ...

    async def enlist(self, incarnation: str) -> None:
        """Register this process under a name that was never used before; it claims and takes shards as that one.

        A process that was deposed enlists again, under a new name.
        """
        ...

    async def depose(self, incarnation: str, *, proved_dead: bool) -> None:
        """From now on no claim of that incarnation commits; waits for those that are open.

        `proved_dead` says moreover that its process is gone, so that its runs in flight need not wait for their
        leases (`CLAIMED.lease_ms` = 0 and `expired` tell so, and a `DEAD_OWNER` completion is accepted). It stays
        true once said. Unknown names are ignored.
        """
        ...

    async def deposed(self, incarnations: Sequence[str]) -> Sequence[str]:
        """Which of these were deposed, or never enlisted; read from the truth, not from a cache."""
        ...

    async def list_shards(self) -> Sequence[ShardState]:
        """All shards, in order."""
        ...

    async def take(self, incarnation: str, seen: Mapping[int, int]) -> Sequence[Taken]:
        """Raise the epochs of these shards (`seen`: shard -> epoch) and own them.

        Taken are those whose epoch is still the one seen and that are free, ours, or owned by a deposed
        incarnation; the others are left out. Nothing is taken by an incarnation that is deposed itself.
        """
        ...

    async def release(self, incarnation: str, held: Mapping[int, int]) -> None:
        """Give up shards (shard -> epoch held); ignored where epoch or owner is another."""
        ...

    async def take_snapshot(self) -> Snapshot:
        """The snapshot of now, for a shard that has no pair: read first, then load its timers."""
        ...

    async def feed(self, prev: Snapshot, shards: Sequence[int], until_ms: int) -> Fed:
        """Timers of these shards, due < until_ms, that `prev` had not seen; this process's own ones included.

        Raises `FeedSessionLost` when `prev` was read in a session that is gone.
        """
        ...

    async def store_pairs(self, incarnation: str, pairs: Sequence[HeldPair]) -> Sequence[int]:
        """Store pairs; gives the shards whose pair was refused because epoch or owner is another now.

        An older pair may overwrite a newer one: what counts is that each is true. Raises `FeedSessionLost`, with
        nothing stored, when one of the snapshots was read in a session that is gone: after a crash of the store
        ids are given out again, and whoever went on from such a pair would take them for seen.
        """
        ...
