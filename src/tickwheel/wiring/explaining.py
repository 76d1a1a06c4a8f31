"""What a node needs to explain runs: the watch that notes delays, and the use case that reads them."""

from collections.abc import Callable

from tickwheel.config import Settings
from tickwheel.domain.job import Target
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.services.delay_book import DelayBook
from tickwheel.services.delay_watch import DelayWatch
from tickwheel.services.explanations import Explanations
from tickwheel.services.scheduler import Scheduler
from tickwheel.wiring.cluster import Cluster
from tickwheel.wiring.stores import AuditedStore


class Explaining:
    """Made first, so that `book` hears of all events; bound when the node is there."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.book = clock, DelayBook(clock)
        self.explanations: Explanations | None = None
        self._watch: DelayWatch | None = None

    def bind(
        self,
        settings: Settings,
        store: AuditedStore,
        scheduler: Scheduler | None,
        cluster: Cluster | None,
        events: EventSink,
        name: str,
        waits_for: Callable[[Target, str], str | None],
    ) -> "Explaining":
        """Without a scheduler nothing waits here, so nothing is watched."""
        self.explanations = Explanations(store, self._clock, waits_for)
        if scheduler is not None:
            self._watch = DelayWatch(
                store=store,
                scheduler=scheduler,
                book=self.book,
                clock=self._clock,
                events=events,
                node=name,
                retention_ms=settings.retention_days * 86_400_000,
                shared=cluster is not None,
                is_leader=(lambda: True) if cluster is None else cluster.is_leader,
            )
        return self

    def start(self) -> None:
        """Begin to watch, on the running event loop."""
        if self._watch is not None:
            self._watch.start()

    async def stop(self) -> None:
        """Note what is known, while the store is there."""
        if self._watch is not None:
            await self._watch.stop()
