"""Looks for recurring jobs whose chain of timers is broken, piece by piece; anything it finds is a fault.

Whoever writes the row of an occurrence writes the next timer with it, so an active recurring job always has
exactly one. If that is ever broken all the same, nobody would notice: a job without a timer is silent for ever,
one with two fires double. Example: a program before this one planned an occurrence where a cancelled one stood.
"""

from collections.abc import Callable
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.events import ChainMended, EventSink
from tickwheel.ports.owner import Owner
from tickwheel.ports.store import BrokenChain, Change, JobView, Store
from tickwheel.services.aftermath import Aftermath, Seen
from tickwheel.services.changes.mend import mend
from tickwheel.services.changes.taken import Taken, knowing_taken

REST_MS: Final = 60_000
BREATH_MS: Final = 1_000
"""Between two pieces of one lap."""
PIECE_JOBS: Final = 1_000


class ChainCheck:
    """The loop that checks the chains of all recurring jobs."""

    def __init__(
        self,
        *,
        store: Store,
        owner: Owner,
        clock: Clock,
        events: EventSink,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store, self._clock, self._events = store, clock, events
        self._is_leader = is_leader
        self._aftermath = Aftermath(owner)
        self._after = b""

    async def run(self) -> None:
        """Check all jobs, rest, and again, for ever."""
        while True:
            await self._clock.sleep_ms(BREATH_MS if self._after else REST_MS)
            if self._is_leader():
                await self.check_piece()

    async def check_piece(self) -> None:
        """Check the next jobs, and mend what is broken."""
        page = await self._store.broken_chains(self._after, PIECE_JOBS)
        self._after = page.after or b""
        for chain in page.broken:
            await self._mend(chain)

    async def _mend(self, chain: BrokenChain) -> None:
        seen = Seen()

        async def change(taken: Taken) -> None:
            def decide(view: JobView, now_ms: int) -> Change:
                seen.view = view
                return mend(view, chain.live_count, now_ms, taken)

            changed = await self._store.change_job(chain.tenant_id, chain.job_id, decide)
            if changed is not None and seen.view is not None and changed.view.job != seen.view.job:
                self._aftermath.of(seen, changed)
                self._events.emit(ChainMended(job_id=chain.job_id, live_count=chain.live_count))

        await knowing_taken(self._store, change)
