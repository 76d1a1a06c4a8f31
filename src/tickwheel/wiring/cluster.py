"""What a node has besides when it shares its store with others: the store's clock, membership, ownership.

Every node is a member, so that all see each other and share what is limited per cluster. One that fires nothing
owns no shards, is never ranked and never leads.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from tickwheel.adapters.peers import TcpPeers
from tickwheel.adapters.system import SystemRandomness
from tickwheel.config import Settings
from tickwheel.domain.vitals import Vitals
from tickwheel.ports.events import EventSink
from tickwheel.ports.shards import ShardStore
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.ownership.node_note import NodeNote
from tickwheel.services.ownership.ownership import Ownership
from tickwheel.services.scheduler import Scheduler
from tickwheel.services.store_clock import StoreClock, StoreClockWatch
from tickwheel.services.supervision import supervise
from tickwheel.wiring.coordinators import open_coordinator
from tickwheel.wiring.nobody import Nobody

WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared, not bound


def advertised_host(settings: Settings) -> str:
    """Where others are told that this process listens."""
    return settings.advertise or (socket.gethostname() if settings.host in WILDCARDS else settings.host)


class Cluster:
    """The cluster's side of one node: `join`, then `start`."""

    def __init__(
        self,
        settings: Settings,
        *,
        name: str,
        store: ShardStore,
        clock: StoreClock,
        events: EventSink,
        version: str,
    ) -> None:
        self._name = name
        self._settings, self._store, self._events, self._version = settings, store, events, version
        self._clock = clock
        self._watch = StoreClockWatch(clock=clock, store=store, events=events, on_asked=self._tell_fitness)
        self._loop: asyncio.Task[None] | None = None
        self._unfit = ""
        self.holdings = Holdings()
        self.ownership: Ownership | None = None
        self._scheduler: Scheduler | None = None
        self._close_coordinator: Callable[[], Awaitable[None]] | None = None
        self.vitals: Callable[[], Vitals] = Vitals

    def join(self, scheduler: Scheduler | None) -> None:
        """Make this node a member that fires its shards through `scheduler`; without one it gets none.

        Raises `ConfigError`.
        """
        coordinator = open_coordinator(self._settings, self._clock)
        self._close_coordinator = coordinator.aclose
        host, advertise = self._settings.host, advertised_host(self._settings)
        self.ownership = Ownership(
            store=self._store,
            coordinator=coordinator,
            peers=TcpPeers(host=host, advertise=advertise, clock=self._clock),
            holdings=self.holdings,
            intake=Nobody() if scheduler is None else scheduler.intake,
            clock=self._clock,
            randomness=SystemRandomness(),
            events=self._events,
            note=NodeNote(
                name=self._name,
                version=self._version,
                roles=tuple(self._settings.roles),
            ),
        )
        if scheduler is not None:
            scheduler.join(self.ownership)
        self._scheduler = scheduler

    @property
    def shards(self) -> ShardStore:
        """Who owns which."""
        return self._store

    def is_leader(self) -> bool:
        """Whether this node does the chores of all."""
        return self.ownership is not None and self.ownership.leadership.is_leader()

    def unfit_reason(self) -> str:
        """Why this node should own no shards and get no requests, or nothing."""
        return self._unfit

    @property
    def clock_difference_ms(self) -> int:
        """This machine's wall clock minus the store's."""
        return self._clock.difference_ms

    async def start(self) -> None:
        """Become a member, take shards if this node fires, and watch the clock."""
        if self.ownership is not None:
            await self.ownership.start()
        watching = supervise("store clock", self._watch.run, self._clock, self._events)
        self._loop = asyncio.create_task(watching, name="tickwheel-store-clock")

    async def hand_over(self, limit_ms: int) -> None:
        """Give the shards away while everything else goes on."""
        if self.ownership is not None:
            await self.ownership.hand_over(limit_ms)

    async def leave(self) -> None:
        """The last act before the store is closed."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None
        if self.ownership is not None:
            await self.ownership.leave()
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the coordinator. Again: nothing."""
        if self._close_coordinator is not None:
            close, self._close_coordinator = self._close_coordinator, None
            await close()

    def _tell_fitness(self) -> None:
        reason = self._clock.unfit_reason()
        if self.ownership is not None:
            self.ownership.set_clock_difference(self._clock.difference_ms)
            if self._scheduler is not None:
                self.ownership.say_load(self._scheduler.elsewhere.load())
            self.ownership.say_vitals(self.vitals())
            if reason != self._unfit:
                self.ownership.set_unfit(reason)
        self._unfit = reason
