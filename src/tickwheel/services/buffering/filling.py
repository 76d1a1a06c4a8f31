"""Fills the buffer from the store, hours ahead, while nothing nearer is to be read.

The range of a shard begins where the wheel's ends (`hi`, at a whole minute) and reaches `horizon_ms` ahead. It is
raised first and read then, page by page, the shards that are furthest behind before the others; what is committed
meanwhile comes by the feed or from whoever commits it. While the buffer is away nothing is read for it: the range
stays where it is, `hi` passes it in time, and the filling begins anew from there.

Reading rests as long as it took: the store has nearer things to do.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.domain.minutes import MINUTE_MS, floor_minute_ms
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import TimerStore
from tickwheel.services.buffering.far_timers import NEVER_MS, FarTimers
from tickwheel.services.ownership.groups import Groups, ShardGroup

CHECK_MS: Final = 1_000
PAGE_TIMERS: Final = 20_000
"""Sorting and packing them takes about 4 ms, in which nothing else runs."""
LEAST_REST_MS: Final = 5


class Filling:
    """The loop that reads ahead for the buffer, and removes what is over. `sharded`: others own shards too."""

    def __init__(
        self,
        *,
        store: TimerStore,
        sharded: bool,
        groups: Groups,
        far: FarTimers,
        floor_ms: Callable[[], int],
        clock: Clock,
        horizon_ms: int,
    ) -> None:
        self._store, self._sharded, self._groups, self._far = store, sharded, groups, far
        self._floor_ms, self._clock, self._horizon_ms = floor_ms, clock, horizon_ms

    async def run(self) -> None:
        """Fill for ever."""
        tidied_ms = 0
        while True:
            minute_ms = floor_minute_ms(self._clock.now_ms())
            if minute_ms > tidied_ms:
                await self._far.tidy(min(self._floor_ms(), minute_ms))
                tidied_ms = minute_ms
            began_ms = self._clock.monotonic_ms()
            if await self.fill():
                await self._clock.sleep_ms(max(LEAST_REST_MS, self._clock.monotonic_ms() - began_ms))
            else:
                await self._clock.sleep_ms(CHECK_MS)

    async def fill(self) -> bool:
        """Read one page; False: there is nothing to read now."""
        if self._far.away or not all(group.read for group in self._groups.all):
            return False
        for group in self._groups.all:
            self._reach(group)
        behind = self._far.filled_ms < self._far.until_ms
        if not behind.any():
            return False
        from_ms = int(self._far.filled_ms[behind].min())
        shards: Ints = np.flatnonzero(behind & (self._far.filled_ms == from_ms))
        await self._read(shards, from_ms, int(self._far.until_ms[shards].min()))
        return True

    def _reach(self, group: ShardGroup) -> None:
        """Raise the range of its shards, and begin anew where `hi` has passed what was read."""
        far, shards = self._far, np.flatnonzero(group.mask)
        if group.hi_ms % MINUTE_MS:
            return  # not yet at a whole minute
        new = shards[(far.from_ms[shards] == NEVER_MS) | (far.filled_ms[shards] < group.hi_ms)]
        if len(new):
            far.begin(new, group.hi_ms)
        until_ms = floor_minute_ms(self._clock.now_ms() + self._horizon_ms)
        if group.polled_until_ms is not None:
            until_ms = min(until_ms, floor_minute_ms(group.polled_until_ms))
        far.reach(shards, until_ms)

    async def _read(self, shards: Ints, from_ms: int, until_ms: int) -> None:
        far, turns = self._far, self._far.turns[shards].copy()
        held = (shards.tolist(),) if self._sharded else ()
        page = await self._store.load_timers(from_ms, until_ms, PAGE_TIMERS, *held)
        read_until_ms = int(page["due_ms"][-1]) + 1 if len(page) else until_ms
        same = shards[far.turns[shards] == turns]  # the others left meanwhile, or begin anew
        # Also what `hi` has passed meanwhile: that minute counts as filled, and is moved later.
        far.put_read(page, same)
        far.filled_ms[same] = read_until_ms
        await far.flush()
