"""Stores, each second, from where another owner would go on: the pair of every shard that is held.

The snapshot is the one of the last poll whose rows are all armed, never that of now: what became visible between
the two would be known to nobody after a crash. A pair that is stored late, or over a newer one, is as true as
ever, but only in the session that read its snapshot. Example: a poll sees that transaction 497 has ended, rolled
back; the database crashes before anything later commits, and gives 497 out again. Stored after that crash, the
snapshot of before it would tell the next owner that it knows what the new 497 inserts.
"""

from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.shards import FeedSessionLost, HeldPair, ShardStore
from tickwheel.services.ownership.groups import Groups
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.intake import Intake, OwnershipSide

STORE_MS: Final = 1_000


class Pairs:
    """The storing loop."""

    def __init__(
        self, *, shards: ShardStore, holdings: Holdings, intake: Intake, groups: Groups, clock: Clock
    ) -> None:
        self._shards, self._holdings, self._intake, self._groups = shards, holdings, intake, groups
        self._clock = clock

    async def run(self, ownership: OwnershipSide) -> None:
        """Store for ever."""
        while True:
            await self._clock.sleep_ms(STORE_MS)
            await self.store(ownership)

    async def store(self, ownership: OwnershipSide) -> None:
        """Store all pairs once; shards that are refused are lost."""
        pairs = self._intake.pairs(self._holdings.shards())
        held = [HeldPair(shard, int(self._holdings.epochs[shard]), pair) for shard, pair in pairs.items()]
        if not held:
            return
        try:
            refused = set(await self._shards.store_pairs(ownership.incarnation, held))
        except FeedSessionLost:
            return  # the next poll finds out, and goes on from what is stored
        for one in held:
            if one.shard not in refused and int(self._holdings.epochs[one.shard]) == one.epoch:
                self._groups.stored[one.shard] = one.pair
        if refused:
            ownership.lost({one.shard: one.epoch for one in held if one.shard in refused})
