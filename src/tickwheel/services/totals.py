"""What the store and the queue hold in all, counted now and then by one node for all, for those who watch."""

from collections.abc import Callable, Sequence
from typing import Final

from tickwheel.domain.job import Lane
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import Queue, Topic
from tickwheel.ports.store import Counts, Store

LOOK_MS: Final = 15_000


class Totals:
    """The loop; `routes` gives those that workers elsewhere serve. None: unknown, or not for this node to say."""

    def __init__(
        self,
        *,
        store: Store,
        queue: Queue,
        routes: Callable[[], Sequence[str]],
        clock: Clock,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store, self._queue, self._routes = store, queue, routes
        self._clock, self._is_leader = clock, is_leader
        self.counts: Counts | None = None
        self.depths: Sequence[int] | None = None
        """Hints in the queue, by lane."""

    async def run(self) -> None:
        """Count for ever."""
        while True:
            await self.look()
            await self._clock.sleep_ms(LOOK_MS)

    async def look(self) -> None:
        """Count once. Raises `StoreUnavailable`."""
        self.counts = self.depths = None
        if self._is_leader():
            self.counts = await self._store.counts()
            self.depths = await self._depths()

    async def _depths(self) -> Sequence[int] | None:
        routes = self._routes()
        topics = [Topic(lane, route) for lane in Lane for route in routes]
        try:
            depths = await self._queue.depth(topics) if topics else []
        except ConnectionError:
            return None
        by_lane = dict.fromkeys(Lane, 0)
        for topic, depth in zip(topics, depths, strict=True):
            by_lane[topic.lane] += depth
        return list(by_lane.values())
