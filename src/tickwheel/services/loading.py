"""The firing side as the ownership side sees it: shards come and go, and what of them is settled is told."""

from collections.abc import Callable, Mapping, Sequence

from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.shards import Pair, Taken
from tickwheel.services.claims import Claims
from tickwheel.services.ownership.groups import Groups
from tickwheel.services.ownership.unresolved import Unresolved, Unserved
from tickwheel.services.reaper import Reaper
from tickwheel.services.remote.outbox import Outbox


class Loading:
    """Implements `Intake`."""

    def __init__(
        self,
        *,
        groups: Groups,
        claims: Claims,
        reaper: Reaper,
        outbox: Outbox,
        unresolved: Unresolved,
        unserved: Unserved,
        on_adopted: Callable[[], None],
    ) -> None:
        self._groups, self._claims, self._reaper, self._outbox = groups, claims, reaper, outbox
        self._unresolved, self._unserved, self._on_adopted = unresolved, unserved, on_adopted

    def adopt(self, taken: Sequence[Taken]) -> None:
        shards = [one.shard for one in taken]
        self._forget(shards)
        self._groups.adopt(taken)
        self._reaper.wake()  # their dead owner's runs
        self._on_adopted()

    def adopt_all(self) -> None:
        """All shards, for a process that is alone on its store: everything that is not resolved is loaded."""
        self._groups.add(range(SHARD_COUNT), None, 0)

    def drop(self, shards: Sequence[int]) -> None:
        self._forget(shards)

    async def quiesce(self, shards: Sequence[int]) -> None:
        self._claims.silence(shards)
        await self._claims.settled()

    def pairs(self, shards: Sequence[int]) -> Mapping[int, Pair]:
        wanted, pairs = set(shards), dict[int, Pair]()
        lowest = self._unresolved.lowest_ms().tolist()
        for group in self._groups.all:
            if group.prev is None:
                continue
            read_ms = min(group.low_ms, group.hi_ms)
            for shard in group.shards:
                if shard in wanted:
                    pairs[shard] = Pair(min(lowest[shard], read_ms), group.prev)
        return pairs

    def resolved_ms(self) -> int:
        """Nothing that is due before is left to do, as far as this process knows."""
        read_ms = min((group.low_ms for group in self._groups.all), default=0)
        return min(read_ms, int(self._unresolved.lowest_ms().min()))

    def _forget(self, shards: Sequence[int]) -> None:
        self._groups.drop(shards)
        self._claims.forget(shards)
        self._reaper.forget(shards)
        self._outbox.forget(shards)
        self._unserved.forget(shards)
