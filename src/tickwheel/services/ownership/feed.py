"""Polls what was committed after the slices were read, so that an owner misses nothing.

`feed(prev)` gives exactly the timers that `prev` had not seen, and the snapshot of that very read, which becomes
`prev` once all its rows are armed. Example: a transaction draws its id, hangs for five seconds and commits; polls
meanwhile see it in progress and say so in their snapshots, and the first poll after its commit gives its timer,
although far younger ones were given long before. (A watermark on ids or times would have passed it by.)

The polls of a group don't overlap: there is one loop. A poll that fails is forgotten and `prev` stays. `prev` is
good only in the database session that read it, for a database that crashed may give the same transaction ids out
again; when the session is lost, the groups go on from the snapshots that are stored with their pairs.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.shards import FeedSessionLost, ShardStore, Snapshot
from tickwheel.services.ownership.groups import Groups, ShardGroup

AHEAD_MS: Final = 60_000
"""So far beyond the window a poll looks: `hi` may rise that far while it is under way."""
REST_MS: Final = 5
"""Between two polls, however slow they are."""


class Feed:
    """The polling loop."""

    def __init__(
        self,
        *,
        shards: ShardStore,
        groups: Groups,
        clock: Clock,
        on_session_lost: Callable[[], None],
        window_ms: int,
        poll_ms: int,
    ) -> None:
        self._shards, self._groups, self._clock = shards, groups, clock
        self._on_session_lost = on_session_lost
        self._window_ms, self._poll_ms = window_ms, poll_ms
        self._complete_mono_ms = clock.monotonic_ms()  # when the last poll began that read all groups

    def lag_ms(self) -> int:
        """What others have committed before that is armed here."""
        return self._clock.monotonic_ms() - self._complete_mono_ms

    async def run(self) -> None:
        """Poll for ever."""
        while True:
            began_ms = self._clock.monotonic_ms()
            await self.poll()
            took_ms = self._clock.monotonic_ms() - began_ms
            await self._clock.sleep_ms(max(REST_MS, self._poll_ms - took_ms))

    async def poll(self) -> None:
        """Poll each group once, the main one first; groups that have caught up join it."""
        began_ms, polled = self._clock.monotonic_ms(), []
        for group in list(self._groups.all):
            prev = group.prev
            if prev is not None and group in self._groups.all and await self._poll(group, prev):
                polled.append(group)
        self._join_main(polled)
        if all(group in polled for group in self._groups.all if group.prev is not None):
            self._complete_mono_ms = began_ms

    async def _poll(self, group: ShardGroup, prev: Snapshot) -> bool:
        until_ms = max(self._clock.now_ms() + self._window_ms + AHEAD_MS, group.hi_ms)
        group.polled_until_ms = until_ms
        try:
            fed = await self._shards.feed(prev, group.shards, until_ms)
        except FeedSessionLost:
            if group in self._groups.all:
                self._groups.go_on_from_stored(group)
                self._on_session_lost()
            return False
        finally:
            group.polled_until_ms = None
        self._groups.arm_read(group, fed.rows)
        group.prev = fed.snapshot
        return True

    def _join_main(self, polled: Sequence[ShardGroup]) -> None:
        main = self._groups.main
        if main is None or main not in polled or not main.read:
            return
        for group in polled[polled.index(main) + 1 :]:
            caught_up = group.read and group.hi_ms == main.hi_ms and _one_session(group, main)
            if caught_up and group in self._groups.all:
                self._groups.join(group, main)


def _one_session(group: ShardGroup, main: ShardGroup) -> bool:
    return group.prev is not None and main.prev is not None and group.prev.session == main.prev.session
