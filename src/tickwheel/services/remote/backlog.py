"""Due timers whose runs workers elsewhere will execute, and how many of them may be claimed now.

They wait here unclaimed and unleased, per route and in order, until the queue has room for them: it is kept short,
so that priority and fairness are decided here, with everything in view, and not by a queue that was filled long
ago (I12). A topic has room while the queue holds fewer hints of it than its workers have slots; the lanes of a
route that have backlog share its slots.

Runs for a tenant's own workers wait by themselves, so they hold up nobody else's, and take up no room of theirs.

What the queue holds is asked now and then, and counted up by what is published in between. When it can't be
reached, there is no room: nothing is claimed, nothing is lost, everything waits.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.domain.job import Lane
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.rate import Gcra
from tickwheel.domain.tenants import tenant_bucket
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import WEBHOOKS, Queue, Topic, is_own, shared_route
from tickwheel.services.alarm import Alarm
from tickwheel.services.ready import KIND_HANDLER, KIND_WEBHOOK, ReadyRing
from tickwheel.services.remote.routes import Routes

LOOK_MS: Final = 10
"""Between looks at the queue while something waits for room in it."""
IDLE_LOOK_MS: Final = 60_000
AWAY_MS: Final = 500
"""Before the next try at a queue that can't be reached."""


class Backlog:
    """TIMER rows by route, and the room of each topic."""

    def __init__(
        self,
        *,
        queue: Queue | None,
        routes: Routes,
        clock: Clock,
        rate_of: Callable[[str], Gcra | None] = lambda route: None,
        unsent: Callable[[Topic], int] = lambda topic: 0,
    ) -> None:
        """`rate_of` gives the account of a route's rate, if any; `unsent` counts hints yet to be published."""
        self._unsent = unsent
        self._queue, self._routes, self._clock, self._rate_of = queue, routes, clock, rate_of
        self._rings: dict[str, ReadyRing] = {}
        self._depths: dict[Topic, int] = {}  # in the queue, by the latest look and what was published since
        self._claiming: dict[Topic, int] = {}
        self._reachable = True
        self._alarm = Alarm(clock)
        self._turn = 0

    def __len__(self) -> int:
        return sum(len(ring) for ring in self._rings.values())

    def rows(self) -> Rows:
        """All that wait."""
        held = [ring.rows() for ring in self._rings.values() if len(ring)]
        return np.concatenate(held) if held else empty(TIMER)

    def lowest_due_ms(self) -> int | None:
        """The earliest due time of all that wait; None when nothing does."""
        lowest = (ring.lowest_due_ms() for ring in self._rings.values())
        return min((due_ms for due_ms in lowest if due_ms is not None), default=None)

    def waits(self, route: str) -> bool:
        """Whether something of that route waits."""
        ring = self._rings.get(route)
        return ring is not None and len(ring) > 0

    def filled(self) -> list[str]:
        """The routes of which something waits."""
        return [route for route, ring in self._rings.items() if len(ring)]

    def counts(self) -> Sequence[int]:
        """Timers that wait for the workers of all tenants, by lane."""
        return [
            sum(ring.count(_kind(route), lane) for route, ring in self._shared_rings())
            for lane in range(LANE_COUNT)
        ]

    def oldest_due_ms(self) -> Sequence[int | None]:
        """The earliest due time of these, by lane, roughly."""
        by_ring = [ring.oldest_due_ms(_kind(route), rough=True) for route, ring in self._shared_rings()]
        return [
            min((due_ms for ring in by_ring if (due_ms := ring[lane]) is not None), default=None)
            for lane in range(LANE_COUNT)
        ]

    def _shared_rings(self) -> Sequence[tuple[str, ReadyRing]]:
        return [(route, ring) for route, ring in self._rings.items() if not is_own(route)]

    def push(self, route: str, timers: Rows) -> None:
        """Let these wait for room in the queue."""
        if len(timers):
            self._rings.setdefault(route, ReadyRing()).push(timers)
            self._alarm.ring()

    def push_back(self, route: str, timers: Rows) -> None:
        """They were taken and not claimed: to the head of their lines."""
        if len(timers):
            self._rings.setdefault(route, ReadyRing()).push_back(timers)
            self._alarm.ring()

    def drop(self, route: str) -> Rows:
        """Nobody serves this route any more; gives what waited."""
        ring = self._rings.pop(route, None)
        for lane in Lane:
            self._depths.pop(Topic(lane, route), None)
        return empty(TIMER) if ring is None else ring.rows()

    def drop_tenant(self, route: str, tenant_id: str) -> Rows:
        """The tenant has workers of its own now; gives what waited here of it, and maybe of some other."""
        ring = self._rings.get(route)
        return empty(TIMER) if ring is None else ring.take_bucket(tenant_bucket(tenant_id))

    def take(self, limit: int) -> list[tuple[Topic, Rows]]:
        """Timers for which the queue has room, highest lane first; they are being claimed until `settle`."""
        if not self._reachable or not self._rings:
            return []
        taken, routes = list[tuple[Topic, Rows]](), self.filled()
        self._turn += 1
        begin = self._turn % max(1, len(routes))
        for lane in Lane:
            for route in routes[begin:] + routes[:begin]:  # in turn, so that no route is always first
                ring, kind, topic = self._rings[route], _kind(route), Topic(lane, route)
                room = min(limit, self.room(topic)) if ring.count(kind, lane) else 0
                timers = ring.take(kind, lane, room) if room > 0 else empty(TIMER)
                if len(timers):
                    taken.append((topic, timers))
                    self._claiming[topic] = self._claiming.get(topic, 0) + len(timers)
                    rate = self._rate_of(shared_route(route))
                    if rate is not None:
                        rate.take(len(timers), self._clock.monotonic_ms())
                    limit -= len(timers)
        for route in routes:
            if is_own(route) and not len(self._rings[route]):  # there may be very many
                del self._rings[route]
        return taken

    def room(self, topic: Topic) -> int:
        """How many runs of this topic may be claimed now."""
        slots = self._routes.slots(topic.route)
        if not slots or not self._reachable:
            return 0
        ring = self._rings.get(topic.route)
        lanes = 1 if ring is None else sum(ring.count(_kind(topic.route), lane) > 0 for lane in range(LANE_COUNT))
        share = max(1, slots // max(1, lanes))
        ahead = self._depths.get(topic, 0) + self._claiming.get(topic, 0) + self._unsent(topic)
        room = max(0, share - ahead)
        rate = self._rate_of(shared_route(topic.route)) if room else None
        return room if rate is None else min(room, rate.available(self._clock.monotonic_ms()))

    def spare(self, topic: Topic) -> int:
        """How many more of this topic may be pushed and claimed at once."""
        ring = self._rings.get(topic.route)
        waiting = 0 if ring is None else ring.count(_kind(topic.route), topic.lane)
        return max(0, self.room(topic) - waiting)

    def settle(self, topic: Topic, *, claimed: int, published: int) -> None:
        """Of what was being claimed, `published` hints are in the queue now, and nothing is in between."""
        self._claiming[topic] = self._claiming.get(topic, 0) - claimed
        self._depths[topic] = self._depths.get(topic, 0) + published

    async def run(self, on_room: Callable[[], None]) -> None:
        """Look after the queue for ever; `on_room` is called when something may be claimed."""
        while True:
            if any(len(ring) for ring in self._rings.values()):
                if await self.look():
                    on_room()
                await self._clock.sleep_ms(LOOK_MS if self._reachable else AWAY_MS)
            else:
                await self._alarm.sleep_ms(IDLE_LOOK_MS)

    async def look(self) -> bool:
        """Ask the queue what it holds of the topics in which something waits; whether one of them has room."""
        topics = [
            Topic(lane, route)
            for route, ring in self._rings.items()
            for lane in Lane
            if ring.count(_kind(route), lane) and self._routes.slots(route)
        ]
        try:
            depths = await self._queue.depth(topics) if topics and self._queue is not None else []
        except ConnectionError:
            self._reachable = False
            return False
        self._reachable = True
        self._depths |= dict(zip(topics, depths, strict=True))
        self._claiming = {topic: count for topic, count in self._claiming.items() if count}
        return any(self.room(topic) for topic in topics)


def _kind(route: str) -> int:
    return KIND_WEBHOOK if shared_route(route) == WEBHOOKS else KIND_HANDLER
