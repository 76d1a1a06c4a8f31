"""A firing side that claims and does nothing else, for measuring that."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tickwheel.adapters.system import SystemRandomness
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.executor import Work
from tickwheel.ports.store import Store
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.scheduler import Scheduler, SchedulerSettings

SLOTS: Final = 65_536
"""More than a few batches of claims: with attempts that are over at once, credits never run out."""
LEASE_MS: Final = 86_400_000
CLAIMING: Final = frozenset({"slices", "ticker", "claims", "completion", "parked", "gates"})
"""The loops from a stored timer to a committed claim; `drain` waits for completions."""


class _ClaimingSide(Scheduler):
    """Nothing looks after attempts here: each claim would be followed by a second write after 250 ms (RUNNING),
    and what is forgotten at once would be claimed again.
    """

    def _own_loops(self) -> Sequence[tuple[str, Callable[[], Awaitable[None]]]]:
        return [(name, loop) for name, loop in super()._own_loops() if name in CLAIMING]


class _Taker:
    """An executor that takes everything. Its attempts leave their slots in the loop's next turn, unreported."""

    def __init__(self, on_taken: Callable[[Sequence[Work]], None]) -> None:
        self._on_taken = on_taken
        self.side: Scheduler | None = None

    def start(self, works: Sequence[Work]) -> None:
        self._on_taken(works)
        asyncio.get_running_loop().call_soon(self._forget, works)

    def cancel(self, slots: Sequence[int]) -> None:
        """Nothing runs here."""

    async def aclose(self, grace_ms: int) -> None:
        """Nothing to wait for."""

    def _forget(self, works: Sequence[Work]) -> None:
        if self.side is None:
            return
        pool = self.side.pools[0]
        for work in works:
            pool.slots.release(work.lane, 1)
        self.side.gate.leave(works)
        pool.inflight.release([work.slot for work in works])


async def start_with_unlimited_credits(
    store: Store, clock: Clock, events: EventSink, on_taken: Callable[[Sequence[Work]], None]
) -> Scheduler:
    """A firing side that only claims: webhooks, each given to `on_taken` once its claim is committed.

    It is alone on its store, and starts at once. The ledger keeps the runs as they were claimed.
    """
    worker, taker = f"bench-{os.getpid()}", _Taker(on_taken)
    side = _ClaimingSide(
        store=store,
        clock=clock,
        randomness=SystemRandomness(),
        events=events,
        build_webhooks=lambda report, progress: taker,
        build_handlers=lambda report, progress: taker,
        serves=lambda target: True,
        holdings=Holdings(await store.acquire(worker)),
        worker=worker,
        settings=SchedulerSettings(
            lease_ms=LEASE_MS, webhook_slots=SLOTS, webhook_host_limit=SLOTS, handler_slots=1
        ),
    )
    taker.side = side
    side.start()
    return side
