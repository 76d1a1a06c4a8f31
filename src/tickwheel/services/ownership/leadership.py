"""One node does the chores that would be wasteful to do twice: partitions, sweeps, exports, the check of chains.

Firing never depends on it, and a chore must be harmless when two do it, because a leader that was paused does not
know yet that it is none. The lock lives on its holder's beats; so this node leads only while it was told so *and*
its own beats are being written and read back. Whoever leads does the chores for all nodes: nothing about them is
kept in a node's memory or configuration.

An error while taking the lock leaves no half leader: whether the lock was taken is unknown, so the node does not
lead, and asks again; the answer is then the token that it got (or somebody else holds it).
"""

from collections.abc import Callable
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.coordinator import Coordinator
from tickwheel.ports.events import EventSink, LeadershipChanged

LOCK_NAME: Final = "leader"
ASK_MS: Final = 500
RETRY_MS: Final = 200


class Leadership:
    """Takes the lock when it is free. `may_lead` says whether this node's beats are good and it is fit."""

    def __init__(
        self,
        *,
        coordinator: Coordinator,
        incarnation: Callable[[], str],
        may_lead: Callable[[], bool],
        clock: Clock,
        events: EventSink,
    ) -> None:
        self._coordinator, self._incarnation, self._may_lead = coordinator, incarnation, may_lead
        self._clock, self._events = clock, events
        self._held: tuple[str, int] | None = None  # incarnation and token
        self._told = False

    def is_leader(self) -> bool:
        """Whether this node is to do the chores now."""
        leads = self._held is not None and self._held[0] == self._incarnation() and self._may_lead()
        if leads != self._told:
            self._told = leads
            self._events.emit(LeadershipChanged(leads=leads))
        return leads

    @property
    def token(self) -> int | None:
        """Higher than that of every leader before; None while somebody else leads."""
        return self._held[1] if self._held is not None and self.is_leader() else None

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            pause_ms = ASK_MS
            try:
                await self._ask()
            except ConnectionError:
                self._held = None
                pause_ms = RETRY_MS
            except BaseException:
                self._held = None
                raise
            self.is_leader()
            await self._clock.sleep_ms(pause_ms)

    async def resign(self) -> None:
        """Free the lock, so that the next leader need not wait."""
        self._held = None
        self.is_leader()
        await self._coordinator.release_lock(LOCK_NAME, self._incarnation())

    async def _ask(self) -> None:
        if not self._may_lead():
            if self._held is not None:
                await self.resign()
            return
        incarnation = self._incarnation()
        token = await self._coordinator.acquire_lock(LOCK_NAME, incarnation)
        self._held = None if token is None else (incarnation, token)
