"""How shards enter and leave this process, so that no shard is ever fired by two.

In: own it in the store first, then in memory. Out: stop claiming, wait for the claims that are open, store the
pair, forget it in memory, and only then release it in the store (G6). Whatever fails on the way out, the shard is
out of memory; what still stands under this node's name in the store is found by the next look (G5).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.ports.events import EventSink, ShardsLeft, ShardsTaken
from tickwheel.ports.shards import FeedSessionLost, HeldPair, ShardState, ShardStore, Taken
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.intake import Intake


class Custody:
    """The shards that this process holds, in the store and in memory."""

    def __init__(self, *, store: ShardStore, holdings: Holdings, intake: Intake, events: EventSink) -> None:
        self._store, self._holdings, self._intake, self._events = store, holdings, intake, events

    def held(self) -> dict[int, int]:
        """Shard -> epoch."""
        epochs = self._holdings.epochs.tolist()
        return {shard: epochs[shard] for shard in self._holdings.shards()}

    async def take(self, me: str, seen: Mapping[int, int], states: Sequence[ShardState]) -> int:
        """Take those that are still as they were seen; gives how many are ours now."""
        taken = await self._store.take(me, seen) if seen else ()
        for one in taken:
            self._holdings.adopt(one.shard, one.epoch)
        if taken:
            self._intake.adopt(taken)
            self._tell_taken(me, taken, {state.shard: state.owner for state in states})
        return len(taken)

    def lose(self, shards: Iterable[int]) -> None:
        """These are not ours any more: forget them at once and resolve nothing."""
        held = self.held()
        lost = [shard for shard in shards if shard in held]
        if lost:
            self._forget(lost, "lost")

    async def give_up(self, me: str, shards: Sequence[int]) -> None:
        """Hand these over: whoever is next goes on from the pair that is stored here."""
        held = self.held()
        leaving = {shard: held[shard] for shard in shards if shard in held}
        try:
            await self._intake.quiesce(list(leaving))
            await self._store_pairs(me, leaving)
        finally:
            held = self.held()
            leaving = {shard: epoch for shard, epoch in leaving.items() if held.get(shard) == epoch}
            if leaving:
                self._forget(list(leaving), "handed_over")
        await self._store.release(me, leaving)

    async def renounce(self, shards: Sequence[int]) -> None:
        """Stop firing these and forget them, but keep them in the store: the next look takes them anew (D5)."""
        held = self.held()
        renounced = [shard for shard in shards if shard in held]
        try:
            await self._intake.quiesce(renounced)
        finally:
            self.lose(renounced)

    async def _store_pairs(self, me: str, leaving: Mapping[int, int]) -> None:
        pairs = self._intake.pairs(list(leaving))
        held_pairs = [HeldPair(shard, leaving[shard], pair) for shard, pair in pairs.items() if shard in leaving]
        # the stored one is as true: the next owner reads more
        with suppress(StoreUnavailable, OutcomeUnknown, FeedSessionLost):
            await self._store.store_pairs(me, held_pairs)

    def _forget(self, shards: Sequence[int], cause: Literal["handed_over", "lost"]) -> None:
        self._holdings.drop(shards)
        self._intake.drop(shards)
        held_count = len(self._holdings.shards())
        self._events.emit(ShardsLeft(count=len(shards), held_count=held_count, cause=cause))

    def _tell_taken(self, me: str, taken: Sequence[Taken], owners: Mapping[int, str | None]) -> None:
        held_count = len(self._holdings.shards())
        causes: dict[Literal["free", "takeover", "own"], int] = {}
        for one in taken:
            owner = owners[one.shard]
            cause: Literal["free", "takeover", "own"] = (
                "free" if owner is None else "own" if owner == me else "takeover"
            )
            causes[cause] = causes.get(cause, 0) + 1
        for cause, count in causes.items():
            self._events.emit(ShardsTaken(count=count, held_count=held_count, cause=cause))
