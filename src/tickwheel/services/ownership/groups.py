"""Shards by how far their timers are loaded, and the one door through which timers reach the wheel.

Shards that were taken together form a **group**: one feed position `prev`, one end `hi` of what is held, and the
**gaps** below it that are still to be read. Every timer of the group with due < `hi` is in memory, or in a gap, or
comes by the feed after `prev`. Two rules make that true whatever the order of events:

- `prev` is set before the first slice is read (the stored snapshot; for a shard that has none, one taken first). A
  snapshot taken after the slice would miss a commit between the two.
- `hi` is raised before the slice is read, and never beyond the `until` of a poll under way. Example: a poll for
  due < 10:00 is held up on its way, `hi` is raised to 11:00 and the slice read, a timer of 10:30 is committed, and
  only then the poll runs and its snapshot becomes `prev`: the timer is in neither.

The first group is the main one. A group that was taken later is polled from its own stored snapshot until it has
caught up; once nothing is left to read and both reach equally far, it joins the main group, under the older of two
snapshots that were read one after the other (some rows come twice, none is missed).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

import numpy as np

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.wheel import TimingWheel
from tickwheel.ports.shards import Pair, Snapshot, Taken
from tickwheel.services.ownership.recent import RecentlyArmed

NEAR_MS: Final = 10_000
"""The first slice: what comes next, so that a start fires on time at once."""
JUST_NOW_MS: Final = 2_000
"""It begins this long ago: a takeover fires what the dead owner just missed before older things."""
NOT_LOADED: Final = -(1 << 62)


class Rank(IntEnum):
    """In which order gaps are read."""

    NEAR = 0
    PAST = 1
    AHEAD = 2


@dataclass(slots=True, eq=False)
class Gap:
    """A range of due time that is not read yet; `from_ms` moves up as pages are armed."""

    from_ms: int
    until_ms: int
    rank: Rank
    only: Bools | None = None
    """By shard: of the others all was read already. None: everything is to be read."""


@dataclass(slots=True, eq=False)
class ShardGroup:
    """Shards with one feed position. `mask` is by shard."""

    mask: Bools
    prev: Snapshot | None
    hi_ms: int = NOT_LOADED
    gaps: list[Gap] = field(default_factory=list)
    begins_ms: int | None = None
    """Where to load from, while nothing was read yet."""
    polled_until_ms: int | None = None
    """The `until` of the poll that is under way."""

    @property
    def read(self) -> bool:
        """Whether it has begun, and nothing is left to be read."""
        return self.begins_ms is None and not self.gaps

    @property
    def shards(self) -> list[int]:
        """In order."""
        shards: list[int] = self.mask.nonzero()[0].tolist()
        return shards

    @property
    def low_ms(self) -> int:
        """Below this everything was read."""
        if self.begins_ms is not None:
            return self.begins_ms
        return min((gap.from_ms for gap in self.gaps), default=self.hi_ms)

    def next_gap(self) -> Gap | None:
        """The one to be read first."""
        return min(self.gaps, key=lambda gap: (gap.rank, gap.from_ms), default=None)

    def part(self, shards: Sequence[int], prev: Snapshot | None) -> "ShardGroup":
        """These shards of the group, loaded as far as it is, with a feed position of their own."""
        gaps = [Gap(gap.from_ms, gap.until_ms, gap.rank, gap.only) for gap in self.gaps]
        return ShardGroup(_mask(shards), prev, self.hi_ms, gaps, self.begins_ms)


class Beyond(Protocol):
    """Where timers beyond `hi` may wait outside the store as well."""

    def put(self, timers: Rows) -> None: ...

    def forget(self, shards: Sequence[int]) -> None: ...


class Groups:
    """All groups of this process; loop thread only.

    `recent` None: there is no feed, so nothing comes twice. `far` gets what is not near; None: the store has it.
    """

    def __init__(
        self,
        *,
        wheel: TimingWheel,
        recent: RecentlyArmed | None,
        now_ms: Callable[[], int],
        on_armed: Callable[[], None],
        on_new: Callable[[], None],
        far: Beyond | None = None,
    ) -> None:
        self._wheel, self._recent, self._now_ms, self._far = wheel, recent, now_ms, far
        self._on_armed, self._on_new = on_armed, on_new
        self.all: list[ShardGroup] = []
        self.stored: dict[int, Pair] = {}
        """By shard: the pair that is known to be in the store."""
        self._hi_ms: Ints = np.full(SHARD_COUNT, NOT_LOADED, dtype=np.int64)

    @property
    def main(self) -> ShardGroup | None:
        """The one that the others join."""
        return self.all[0] if self.all else None

    @property
    def settled(self) -> bool:
        """Whether all that is due or near has been read."""
        return all(
            group.begins_ms is None and all(gap.rank is Rank.AHEAD for gap in group.gaps) for group in self.all
        )

    def adopt(self, taken: Sequence[Taken]) -> None:
        """Groups for these shards, one per stored snapshot."""
        by_text: dict[str | None, list[Taken]] = {}
        for one in taken:
            by_text.setdefault(None if one.pair is None else one.pair.snapshot.text, []).append(one)
            if one.pair is not None:
                self.stored[one.shard] = one.pair
        for ones in by_text.values():
            pairs = [one.pair for one in ones if one.pair is not None]
            prev = pairs[0].snapshot if pairs else None
            self.add([one.shard for one in ones], prev, min((pair.ack_ms for pair in pairs), default=0))

    def add(self, shards: Sequence[int], prev: Snapshot | None, ack_ms: int) -> None:
        """One group that is to be loaded from `ack_ms` on.

        What the feed brings before the first slice is read, due before that, is held: no slice will have it.
        """
        group = ShardGroup(_mask(shards), prev, hi_ms=ack_ms, begins_ms=ack_ms)
        self.all.append(group)
        self._hi_ms[group.mask] = ack_ms
        if self._far is not None:
            self._far.forget(shards)
        self._on_new()

    def begin(self, group: ShardGroup) -> None:
        """Hold from now on what is near; to be read are that and then the past. `prev` is set already."""
        if group.begins_ms is None:
            return
        now_ms = self._now_ms()
        hi_ms = now_ms + NEAR_MS
        near_ms = min(max(group.begins_ms, now_ms - JUST_NOW_MS), hi_ms)
        group.gaps = [Gap(near_ms, hi_ms, Rank.NEAR)]
        if group.begins_ms < near_ms:
            group.gaps.append(Gap(group.begins_ms, near_ms, Rank.PAST))
        group.hi_ms, group.begins_ms = hi_ms, None
        self._hi_ms[group.mask] = hi_ms

    def drop(self, shards: Sequence[int]) -> None:
        """Forget these. What is in the wheel of them is dropped where it comes up."""
        leaving = list(shards)
        for group in self.all:
            group.mask[leaving] = False
        self.all = [group for group in self.all if group.mask.any()]
        self._hi_ms[leaving] = NOT_LOADED
        for shard in leaving:
            self.stored.pop(shard, None)
        if self._far is not None:
            self._far.forget(leaving)
        if self._recent is not None:
            self._recent.clear()  # else a shard that comes back would miss what is dropped meanwhile
        if not self.all:
            self._wheel.clear()

    def raise_hi(self, group: ShardGroup, until_ms: int) -> bool:
        """Hold timers up to there from now on; the slice is a gap until it was read. False: not possible now."""
        if group.polled_until_ms is not None:  # `begin` stays far below it
            until_ms = min(until_ms, group.polled_until_ms)
        if until_ms <= group.hi_ms:
            return False
        group.gaps.append(Gap(group.hi_ms, until_ms, Rank.AHEAD))
        group.hi_ms = until_ms
        self._hi_ms[group.mask] = until_ms
        return True

    def arm(self, timers: Rows) -> None:
        """Committed timers of any shard: near ones of loaded shards into the wheel, once."""
        if not len(timers):
            return
        near = self._near(timers)
        if self._far is not None and len(near) < len(timers):
            self._far.put(self.beyond(timers))
        self._arm(near if self._recent is None else self._recent.take_new(near))

    def beyond(self, timers: Rows) -> Rows:
        """Those that the wheel doesn't hold yet."""
        return timers[timers["due_ms"] >= self._hi_ms[shards_of(timers["job_id"])]]

    def arm_again(self, timers: Rows) -> None:
        """Timers that came out of the wheel too early."""
        self._arm(self._near(timers))

    def arm_read(self, group: ShardGroup, timers: Rows) -> None:
        """What a slice or a poll of the group gave: most polls nothing."""
        if not len(timers):
            return
        if self._recent is not None:
            held = group.mask[shards_of(timers["job_id"])]
            ours = held & (timers["due_ms"] < group.hi_ms)
            if not ours.all():
                if self._far is not None:
                    self._far.put(timers[held & ~ours])
                timers = timers[ours]
            timers = self._recent.take_new(timers)
        self._arm(timers)

    def join(self, group: ShardGroup, main: ShardGroup) -> None:
        """Both were polled, `main` first; nothing is left to read and both reach equally far."""
        main.mask |= group.mask
        self.all.remove(group)

    def go_on_from_stored(self, group: ShardGroup) -> None:
        """The session that read `prev` is gone: poll from the stored snapshots, and keep what is in memory.

        That is enough, for a stored snapshot was `prev` of these shards once: all that is visible in it was armed
        or is in a gap; all that came later is not visible in it, so the feed gives it (again). To load everything
        anew would arm an hour of timers a second time. Shards that have no stored pair start from nothing.
        """
        at = self.all.index(group)
        by_text: dict[str, list[int]] = {}
        unknown = []
        for shard in group.shards:
            pair = self.stored.get(shard)
            if pair is None:
                unknown.append(shard)
            else:
                by_text.setdefault(pair.snapshot.text, []).append(shard)
        parts = [group.part(shards, Snapshot(text)) for text, shards in by_text.items()]
        self.all[at : at + 1] = parts
        if unknown:
            self.add(unknown, None, 0)
        self._on_new()

    def _near(self, timers: Rows) -> Rows:
        main = self.main
        if self._recent is None and main is not None:  # all shards, one group
            near = timers["due_ms"] < main.hi_ms
        else:
            near = timers["due_ms"] < self._hi_ms[shards_of(timers["job_id"])]
        return timers if near.all() else timers[near]

    def _arm(self, timers: Rows) -> None:
        if len(timers):
            self._wheel.arm(timers)
            self._on_armed()


def _mask(shards: Iterable[int]) -> Bools:
    mask: Bools = np.zeros(SHARD_COUNT, dtype=np.bool_)
    mask[list(shards)] = True
    return mask
