"""Nodes, shards and pairs: who may claim under which epoch, and where the next owner goes on from."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tickwheel.ports.shards import HeldPair, Pair, ShardState, Snapshot, Taken


@dataclass(slots=True)
class Node:
    """An incarnation. `dead` says that its process is proved to be gone; both stay true once they are."""

    deposed: bool = False
    dead: bool = False


@dataclass(slots=True)
class Shard:
    """Who owns it, under which epoch."""

    epoch: int = 0
    owner: str | None = None


class Ownership:
    """The rows that are about owners."""

    def __init__(self, shard_count: int) -> None:
        self.nodes: dict[str, Node] = {}
        self.shards = [Shard() for _ in range(shard_count)]
        self.pairs: dict[int, Pair] = {}  # by shard

    def may_claim(self, incarnation: str | None, shard: int, epoch: int) -> bool:
        """D1: epoch and owner are the claimer's, and it is not deposed."""
        held = self.shards[shard]
        return self.is_enlisted(incarnation) and held.epoch == epoch and held.owner == incarnation

    def is_enlisted(self, incarnation: str | None) -> bool:
        """Whether that incarnation is known and not deposed."""
        node = None if incarnation is None else self.nodes.get(incarnation)
        return node is not None and not node.deposed

    def is_dead(self, incarnation: str | None) -> bool:
        """Whether its process is proved to be gone."""
        node = None if incarnation is None else self.nodes.get(incarnation)
        return node is not None and node.dead

    def enlist(self, incarnation: str) -> None:
        """A new node; one that is there stays as it is, so the same call again is harmless."""
        self.nodes.setdefault(incarnation, Node())

    def depose(self, incarnation: str, *, proved_dead: bool) -> None:
        """See `ShardStore.depose`."""
        node = self.nodes.get(incarnation)
        if node is not None:
            node.deposed = True
            node.dead = node.dead or proved_dead

    def acquire_all(self, incarnation: str, workers: Collection[str]) -> list[int]:
        """The only owner of this store takes everything; whoever owned before is gone, but not the `workers`."""
        for other in self.nodes:
            if other not in workers:
                self.depose(other, proved_dead=True)
        self.nodes[incarnation] = Node()
        for shard in self.shards:
            shard.epoch += 1
            shard.owner = incarnation
        return [shard.epoch for shard in self.shards]

    def states(self) -> list[ShardState]:
        """All shards, in order."""
        return [ShardState(number, shard.epoch, shard.owner) for number, shard in enumerate(self.shards)]

    def take(self, incarnation: str, seen: Mapping[int, int]) -> list[Taken]:
        """Own those whose epoch is the one seen and whose owner, if there is one, no longer owns."""
        if not self.is_enlisted(incarnation):
            return []
        taken = []
        for number, epoch in sorted(seen.items()):
            shard = self.shards[number]
            free = shard.owner in (None, incarnation) or not self.is_enlisted(shard.owner)
            if shard.epoch == epoch and free:
                shard.epoch += 1
                shard.owner = incarnation
                taken.append(Taken(number, shard.epoch, self.pairs.get(number)))
        return taken

    def release(self, incarnation: str, held: Mapping[int, int]) -> None:
        """Give up what is held under these epochs."""
        for number, epoch in held.items():
            shard = self.shards[number]
            if (shard.owner, shard.epoch) == (incarnation, epoch):
                shard.owner = None

    def store_pairs(self, incarnation: str, pairs: Sequence[HeldPair]) -> list[int]:
        """Store those of shards held under these epochs; gives the others (C8)."""
        refused = []
        for held in pairs:
            if self.may_claim(incarnation, held.shard, held.epoch):
                self.pairs[held.shard] = Pair(held.pair.ack_ms, Snapshot(held.pair.snapshot.text))
            else:
                refused.append(held.shard)
        return refused
