"""Loads waiting timers from the store into the wheel: what is near first, then the past, then further ahead.

The owner holds every timer due before `hi` (see `ownership.groups`); those due later wait in the store for their
slice. `hi` is raised *before* a slice is read, so a timer that is committed while the read is under way comes with
the slice, or through `arm`, or both; a timer armed twice is claimed twice, and the second claim finds it resolved.
(The other order loses it: committed after the slice's snapshot, dropped by `arm` as beyond `hi`, never seen
again.) A read that fails leaves its gap and is repeated.

One page is read at a time, of whatever is most urgent then: a shard that is taken over while an hour of others is
being loaded fires within a page's time.

With a buffer (`buffering`), the window is minutes long, ends at a whole minute, and what comes near is taken
minute by minute from the buffer; what may be missing there is read from the store as ever.

Memory is bounded: while `armed_limit` timers are armed or waiting for slots, nothing is read and `hi` stays.
"""

from collections.abc import Callable
from typing import Final

from tickwheel.domain.columns import TIMER, Bools, Rows, empty
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.minutes import MINUTE_MS, ceil_minute_ms
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink, TimersLoaded
from tickwheel.ports.shards import ShardStore
from tickwheel.ports.store import TimerStore
from tickwheel.services.alarm import Alarm
from tickwheel.services.buffering.mover import Mover
from tickwheel.services.ownership.groups import NEAR_MS, Gap, Groups, Rank, ShardGroup

PAGE_TIMERS: Final = 50_000
CHECK_MS: Final = 1_000
SCAN_MS: Final = 250
"""The same where a buffer is looked through for what comes near."""
GROWTH: Final = 4
"""Each slice after the first reaches this many times further, up to the window."""


class Slices:
    """Keeps the wheel filled for the coming `window_ms`. `shards` None: this process is alone on its store."""

    def __init__(
        self,
        *,
        store: TimerStore,
        shards: ShardStore | None,
        groups: Groups,
        has_room: Callable[[], bool],
        clock: Clock,
        events: EventSink,
        window_ms: int,
        mover: Mover | None = None,
    ) -> None:
        self._store, self._shards, self._groups, self._has_room = store, shards, groups, has_room
        self._mover, self._check_ms = mover, CHECK_MS if mover is None else SCAN_MS
        self._clock, self._events, self._window_ms = clock, events, window_ms
        self._margin_ms = window_ms // 12
        self._step_ms = NEAR_MS
        self._alarm = Alarm(clock)

    def wake(self) -> None:
        """There is something new to read."""
        self._alarm.ring()

    async def run(self) -> None:
        """Load for ever."""
        while True:
            group = self._most_urgent() if self._has_room() else None
            if group is None:
                await self._alarm.sleep_ms(self._check_ms)
            else:
                await self._read(group)

    def _most_urgent(self) -> ShardGroup | None:
        """The group to read for, after reaching further ahead where it is time to."""
        for group in self._groups.all:
            if group.read:
                self._reach_further(group)
        waiting = [group for group in self._groups.all if not group.read]
        return min(waiting, key=_urgency, default=None)

    def _reach_further(self, group: ShardGroup) -> None:
        main = self._groups.main
        if main is not None and group is not main:
            self._groups.raise_hi(group, main.hi_ms)
            return
        now_ms = self._clock.now_ms()
        if group.hi_ms - now_ms >= self._window_ms - self._margin_ms:
            return
        until_ms = now_ms + min(self._step_ms, self._window_ms)
        if self._mover is not None:
            until_ms = ceil_minute_ms(until_ms)
        if self._groups.raise_hi(group, until_ms):
            self._step_ms = min(self._step_ms * GROWTH, self._window_ms)

    async def _read(self, group: ShardGroup) -> None:
        """Read what is most urgent of the group until its gap is closed, there is no room, or others wait."""
        if self._shards is not None and group.prev is None:
            group.prev = await self._shards.take_snapshot()  # before the first slice
        self._groups.begin(group)
        gap = group.next_gap()
        if gap is None:
            return
        began_ms, count = self._clock.monotonic_ms(), 0
        while gap.from_ms < gap.until_ms and self._is_next(group, gap):
            if self._mover is not None and gap.only is None and self._mover.has(group, gap.from_ms, gap.until_ms):
                count += await self._move(self._mover, group, gap)
                continue
            page = await self._page(group, gap)
            count += len(page)
            if len(page):
                self._groups.arm_read(group, page if gap.only is None else _of(gap.only, page))
                gap.from_ms = int(page["due_ms"][-1]) + 1
            else:
                gap.from_ms = gap.until_ms
        if gap.from_ms >= gap.until_ms and gap in group.gaps:
            group.gaps.remove(gap)
        took_ms = self._clock.monotonic_ms() - began_ms
        self._events.emit(TimersLoaded(count=count, until_ms=gap.from_ms, took_ms=took_ms))

    async def _move(self, mover: Mover, group: ShardGroup, gap: Gap) -> int:
        """One minute from the buffer; what it lacks becomes a gap of its own, to be read from the store."""
        minute_ms = gap.from_ms
        missing, count = await mover.arm_minute(group, minute_ms)
        if missing.any():
            group.gaps.append(Gap(minute_ms, minute_ms + MINUTE_MS, gap.rank, missing))
        gap.from_ms = minute_ms + MINUTE_MS
        return count

    def _is_next(self, group: ShardGroup, gap: Gap) -> bool:
        """Whether there is room, the group is still held, and nothing is more urgent."""
        groups = self._groups.all
        return self._has_room() and group in groups and gap.rank <= min(_urgency(other) for other in groups)

    async def _page(self, group: ShardGroup, gap: Gap) -> Rows:
        if self._shards is None:
            return await self._store.load_timers(gap.from_ms, gap.until_ms, PAGE_TIMERS)
        shards = group.shards if gap.only is None else (group.mask & gap.only).nonzero()[0].tolist()
        if not shards:
            return empty(TIMER)  # they have left meanwhile
        return await self._store.load_timers(gap.from_ms, gap.until_ms, PAGE_TIMERS, shards)


def _of(shards: Bools, timers: Rows) -> Rows:
    return timers[shards[shards_of(timers["job_id"])]]


def _urgency(group: ShardGroup) -> Rank:
    if group.begins_ms is not None:
        return Rank.NEAR
    return min((gap.rank for gap in group.gaps), default=Rank.AHEAD)
