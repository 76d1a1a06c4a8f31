"""What the side that decides about ownership and the side that loads and fires ask of each other."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tickwheel.ports.shards import Pair, Taken


class Intake(Protocol):
    """Timers of the held shards: loading, feeding, and what of them is settled. Loop thread only."""

    def adopt(self, taken: Sequence[Taken]) -> None:
        """Begin to load and feed these shards, what is due now first. They are in the holdings already."""
        ...

    def drop(self, shards: Sequence[int]) -> None:
        """Forget everything about these shards and resolve nothing. They have left the holdings already."""
        ...

    async def quiesce(self, shards: Sequence[int]) -> None:
        """Claim nothing of these shards any more, and wait for the claims that are open."""
        ...

    def pairs(self, shards: Sequence[int]) -> Mapping[int, Pair]:
        """The pair of each shard that may be stored now; shards that have none yet are left out."""
        ...


class OwnershipSide(Protocol):
    """What the firing side tells the one that decides. Loop thread only."""

    @property
    def incarnation(self) -> str:
        """The name under which this process owns shards now."""
        ...

    def lost(self, found: Mapping[int, int]) -> None:
        """The store refused a claim or a pair of these (shard -> epoch it was made under): they are gone."""
        ...

    def exhausted(self, shards: Sequence[int]) -> None:
        """The tokens of these shards run out: they need a new epoch."""
        ...
