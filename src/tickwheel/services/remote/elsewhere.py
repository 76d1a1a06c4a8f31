"""An owner's side of work that runs elsewhere: who can do what, what waits for them, what is on its way.

    ready ring -> (nothing here runs it, or all slots are taken) -> Backlog -> claim -> Outbox -> queue -> worker

Runs of a tenant that has workers of its own go to these, also where this process could run them (`Routes.pick`).

Without a queue, and without workers, all of this is empty and costs nothing.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import numpy as np

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.job import Lane, Spec, Target
from tickwheel.domain.rate import Gcra
from tickwheel.domain.scaling import LaneLoad
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.peers import Peers
from tickwheel.ports.queue import WEBHOOKS, Queue, Topic, is_own, route_of, shared_route
from tickwheel.ports.store import Store, WorkDefinition
from tickwheel.services.completion import Completions
from tickwheel.services.load import Arrivals, lane_loads
from tickwheel.services.ownership.unresolved import Unserved
from tickwheel.services.plans import Plan
from tickwheel.services.ready import KIND_WEBHOOK, ReadyRing
from tickwheel.services.remote.backlog import Backlog
from tickwheel.services.remote.outbox import Outbox
from tickwheel.services.remote.queued_batch import QueuedBatch
from tickwheel.services.remote.routes import Routes
from tickwheel.services.remote.watch import WorkerWatch


class Elsewhere:
    """`local_routes` are those that this process serves itself. `unserved` is what nobody can do."""

    def __init__(
        self,
        *,
        queue: Queue | None,
        store: Store,
        peers: Peers | None,
        ready: ReadyRing,
        completions: Completions,
        local_routes: Sequence[str],
        rate_of: Callable[[str], Gcra | None],
        clock: Clock,
        events: EventSink,
        on_room: Callable[[], None],
        on_fresh: Callable[[], None],
        on_dead: Callable[[], None],
        unserved: Unserved,
    ) -> None:
        self._unserved, self.arrivals = unserved, Arrivals(clock)
        unserved.on_dropped = self.arrivals.note
        self._has_queue, self._ready = queue is not None, ready
        self._local, self._on_room, self._on_fresh = frozenset(local_routes), on_room, on_fresh
        self.on_dead = on_dead
        self.routes, self._own = Routes(clock), frozenset[str]()
        self.outbox = Outbox(
            queue=queue,
            store=store,
            routes=self.routes,
            local_routes=self._local,
            completions=completions,
            clock=clock,
        )
        self.backlog = Backlog(
            queue=queue, routes=self.routes, clock=clock, rate_of=rate_of, unsent=self.outbox.unsent
        )
        self.watch = WorkerWatch(
            store=store,
            routes=self.routes,
            peers=peers,
            clock=clock,
            events=events,
            on_routes=self._on_routes,
            on_dead=on_dead,
        )

    def loops(self) -> Sequence[tuple[str, Callable[[], Awaitable[None]]]]:
        """What has to run, by name."""
        looks = (("unbegun runs", self.outbox.run),)
        if not self._has_queue:
            return looks
        return (
            *looks,
            ("publishing", self.outbox.send),
            ("backlog", partial(self.backlog.run, self._on_room)),
            ("workers", self.watch.run),
        )

    async def aclose(self) -> None:
        """Drop the links to workers."""
        await self.watch.aclose()

    @property
    def is_known(self) -> bool:
        """Whether the workers' sessions were read once, so that it is known what they serve."""
        return not self._has_queue or self.watch.has_read

    def rows(self) -> Rows:
        """The timers that wait for workers, or are on their way to one."""
        return np.concatenate((self.backlog.rows(), self.outbox.rows()))

    def is_busy(self) -> bool:
        """Whether there is anything to do for elsewhere: something waits for it, or could be given to it."""
        return bool(self.routes)

    def load(self) -> Sequence[LaneLoad]:
        """What there is to do for the workers of all tenants, by lane."""
        return lane_loads(self.backlog, self._unserved, self.arrivals)

    def serves(self, target: Target, tenant_id: str) -> bool:
        """Whether workers elsewhere run it for that tenant, or did until a moment ago."""
        return bool(self.routes) and self.routes.known(self.routes.pick(route_of(target), tenant_id))

    def has_own(self, target: Target, tenant_id: str) -> bool:
        """Whether workers of the tenant's own run it."""
        return bool(self.routes) and self.routes.has_own(route_of(target), tenant_id)

    def waits_for(self, target: Target, tenant_id: str) -> str | None:
        """Why due runs of this target wait for workers elsewhere, in one word; None when they don't."""
        route = self.routes.pick(route_of(target), tenant_id)
        if route in self._local or (not self.routes.slots(route) and shared_route(route) in self._local):
            return None
        if not self.routes.slots(route):
            return "worker"
        return "full" if self.backlog.waits(route) else None

    def keep(self, timers: Rows, plan: Plan, numbers: Sequence[int]) -> None:
        """Let rows of these numbers wait for room in the queue; each has a spec that `serves` was true of."""
        by_route: dict[str, list[int]] = {}
        for number in numbers:
            route = self._route_of(plan.specs[number], plan.works[number])
            if route is not None:
                by_route.setdefault(route, []).append(number)
        for route, rows in by_route.items():
            self.backlog.push(route, timers[rows])
            if not is_own(route):
                self.arrivals.note(timers[rows])

    def _route_of(self, spec: Spec | None, work: WorkDefinition | None) -> str | None:
        if spec is None or work is None:
            return None
        return self.routes.pick(route_of(spec.target), work.tenant_id)

    def spill_room(self, kind: int, lane: int) -> int:
        """How many runs that could start here, had they slots, workers elsewhere could take over.

        None unless they can do all that can be done here: which of it a timer stands for is not known yet. And no
        webhooks, for what is known here of their hosts would not count there.
        """
        if not self.routes or kind == KIND_WEBHOOK:
            return 0
        routes = [route for route in self._local if route != WEBHOOKS]
        if not routes or not self.routes.cover(routes):
            return 0
        return sum(self.backlog.spare(Topic(Lane(lane), route)) for route in routes)

    def has_room_for_others(self, kind: int, lane: int) -> bool:
        """Whether workers elsewhere could begin runs that nobody here does."""
        webhooks = kind == KIND_WEBHOOK
        return any(
            (shared_route(route) == WEBHOOKS) is webhooks and self.backlog.spare(Topic(Lane(lane), route))
            for route in self.routes.served()
            if route != WEBHOOKS and route not in self._local
        )

    def take(self, limit: int) -> QueuedBatch | None:
        """A batch of what the queue has room for; its taker has to close it."""
        taken = self.backlog.take(limit)
        return QueuedBatch(taken, self.backlog) if taken else None

    def publish(self, batch: QueuedBatch, fences: Ints, won: Bools) -> None:
        """These rows of the batch are claimed."""
        numbers = np.flatnonzero(won)
        if len(numbers):
            topics = [batch.topics[number] for number in numbers.tolist()]
            self.outbox.publish(topics, batch.timers[numbers], fences[numbers])

    def misrouted(self, batch: QueuedBatch) -> Bools:
        """Rows that are for others since they were sorted: jobs were edited, or workers came or went."""
        return np.array(
            [
                spec is not None and self._route_of(spec, work) != topic.route
                for spec, work, topic in zip(batch.specs, batch.works, batch.topics, strict=True)
            ],
            dtype=np.bool_,
        )

    def _on_routes(self, fresh: Sequence[str], gone: Sequence[str]) -> None:
        for route in gone:
            self._ready.push(self.backlog.drop(route))
        left = [route for route in self.backlog.filled() if self._is_left(route)]
        for route in left:
            self._ready.push_back(self.backlog.drop(route))
        came = self._let_own_have_theirs()
        if fresh or came:
            self._ready.unsort()
        if fresh:
            self._unserved.count_anew()
            self._on_fresh()
        if fresh or gone or left or came:
            self._on_room()

    def _is_left(self, route: str) -> bool:
        """Whether nobody is there any more, while this process would do it, or the workers of all tenants."""
        if self.routes.slots(route):
            return False
        shared = shared_route(route)
        return shared in self._local or (shared != route and self.routes.slots(shared) > 0)

    def _let_own_have_theirs(self) -> bool:
        """Where a tenant's own workers have come, what waits of it for others is sorted anew; whether any have."""
        own = self.routes.own()
        came = own.keys() - self._own
        for route in came:
            self._ready.push_back(self.backlog.drop_tenant(shared_route(route), own[route]))
        self._own = frozenset(own)
        return bool(came)
