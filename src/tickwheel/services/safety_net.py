"""Finds overdue timers that memory has lost track of, and puts them back into the ready ring.

Normally there are none. But a commit whose answer was lost (of a claim, an edit, an insert) may have left a timer
in the store that nobody armed; without this it would fire only after the next start. Example: a claim of 10:00
commits together with the timer of 11:00, but its answer is lost; the claim is repeated, finds the row of 10:00
taken, and learns nothing about 11:00.

A page of overdue timers of the held shards is read every few seconds, from where the page before it ended, so that
a mass of runs that wait for an absent handler costs little. Attempts in flight, parked timers, watched ones and
those that wait for a slot or are being claimed are left out.

A pass begins where the lowest timer is that is not resolved. Each complete pass renews the floors of the timers
that nothing here serves: it has read all of them anew and sent them to be claimed.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tickwheel.domain.columns import Rows
from tickwheel.ports.clock import Clock
from tickwheel.ports.store import TimerStore
from tickwheel.services.alarm import Alarm
from tickwheel.services.attempts import Pool
from tickwheel.services.ownership.groups import Groups
from tickwheel.services.ownership.unresolved import Crowd, Unserved
from tickwheel.services.parked import Parked
from tickwheel.services.ready import ReadyRing
from tickwheel.services.reaper import Reaper

CHECK_MS: Final = 5_000
HURRY_MS: Final = 50
OVERDUE_MS: Final = 5_000
HURRIED_OVERDUE_MS: Final = 500
"""Long enough for what has just been armed to come up by itself."""
PAGE_TIMERS: Final = 5_000
BUSY_TIMERS: Final = 1_000
"""With more than this waiting for slots, lateness is no sign of loss."""
HELD_TIMERS: Final = 20_000
"""With more than this waiting for hosts, limits and tenants, comparing would take longer than it is worth."""


class SafetyNet:
    """The loop that looks for lost timers. `held`: where due timers wait for something else than slots."""

    def __init__(
        self,
        *,
        store: TimerStore,
        ready: ReadyRing,
        parked: Parked,
        held: Sequence[Crowd],
        pools: Sequence[Pool],
        reaper: Reaper,
        groups: Groups,
        shards: Callable[[], Sequence[int] | None],
        from_ms: Callable[[], int],
        unserved: Unserved,
        elsewhere: Callable[[], Rows],
        claiming: Callable[[], Rows],
        clock: Clock,
        on_due: Callable[[], None],
    ) -> None:
        self._store, self._ready, self._parked, self._pools = store, ready, parked, pools
        self._held, self._claiming = held, claiming
        self._reaper, self._groups, self._unserved = reaper, groups, unserved
        self._shards, self._begin_ms, self._elsewhere = shards, from_ms, elsewhere
        self._clock, self._on_due = clock, on_due
        self._at_ms: int | None = None
        self._alarm, self._hurries = Alarm(clock), False
        self._restarts, self._once_more = 0, False

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self._alarm.sleep_ms(HURRY_MS if self._hurries else CHECK_MS)
            if self._may_look():
                await self.look()

    def start_over(self) -> None:
        """Begin a new pass at once, and go through it without pauses: somebody can do now what nobody could."""
        self._at_ms, self._hurries = None, True
        self._restarts += 1
        self._alarm.ring()

    def go_on(self) -> None:
        """Go through all of it without pauses, from wherever the pass under way is and then from the beginning.

        Who asks for it again and again keeps no pass from its end.
        """
        if self._at_ms is None:
            self.start_over()
        else:
            self._hurries = self._once_more = True
            self._alarm.ring()

    def _may_look(self) -> bool:
        quiet = len(self._ready) <= BUSY_TIMERS and sum(map(len, self._held)) <= HELD_TIMERS
        return quiet and self._groups.settled  # what is still to be loaded is not lost

    async def look(self) -> None:
        """Read one page and put back what is not known."""
        shards = self._shards()
        if shards is not None and not shards:
            return
        overdue_ms = self._clock.now_ms() - (HURRIED_OVERDUE_MS if self._hurries else OVERDUE_MS)
        at_ms = self._begin_ms() if self._at_ms is None else self._at_ms
        restarts = self._restarts
        page = await self._store.load_timers(
            at_ms, overdue_ms + 1, PAGE_TIMERS, *(() if shards is None else (shards,))
        )
        if self._restarts != restarts:
            return  # this page is read again, and for more shards maybe
        if not len(page):
            self._unserved.end_pass()
            self._at_ms, self._hurries, self._once_more = None, self._once_more, False
            return
        self._at_ms = int(page["due_ms"][-1]) + 1
        lost = page[self._unknown(page)]
        if len(lost):
            self._ready.push(lost)
            self._on_due()

    def _unknown(self, page: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        known = {
            (job_id, scheduled_ms)
            for rows in (
                self._ready.rows(),
                self._parked.rows(),
                *(crowd.rows() for crowd in self._held),
                self._reaper.rows(),
                self._elsewhere(),
                self._claiming(),
                *(pool.inflight.rows[pool.inflight.active] for pool in self._pools),
            )
            for job_id, scheduled_ms in zip(rows["job_id"].tolist(), rows["scheduled_ms"].tolist(), strict=True)
        }
        pairs = zip(page["job_id"].tolist(), page["scheduled_ms"].tolist(), strict=True)
        return np.fromiter((pair not in known for pair in pairs), dtype=np.bool_, count=len(page))
