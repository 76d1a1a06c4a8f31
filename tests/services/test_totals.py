"""One node counts for all; a queue that is away is no figure, and no error."""

import asyncio
from collections.abc import Sequence

import numpy as np

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.domain.job import Lane
from tickwheel.ports.queue import HINT, Topic, handler_route
from tickwheel.services.totals import LOOK_MS, Totals
from tickwheel.testing.virtual_clock import VirtualClock

from .world import World

ROUTES = [handler_route("a"), handler_route("b")]


class Away(MemoryQueue):
    """Can't be reached."""

    async def depth(self, topics: Sequence[Topic]) -> Sequence[int]:
        raise ConnectionError("no route")


async def test_jobs_and_hints_are_counted_by_whoever_leads() -> None:
    clock = VirtualClock()
    world, queue, leads = World(clock=clock), MemoryQueue(clock, 5_000), [True]
    await world.add(None, *(world.job(in_ms=9_000) for _ in range(4)))
    for route, lane, count in ((ROUTES[0], Lane.HIGH, 3), (ROUTES[1], Lane.HIGH, 2), (ROUTES[1], Lane.LOW, 1)):
        await queue.publish(Topic(lane, route), np.zeros(count, dtype=HINT))
    totals = Totals(store=world.store, queue=queue, routes=lambda: ROUTES, clock=clock, is_leader=lambda: leads[0])
    running = asyncio.ensure_future(totals.run())
    await clock.advance(1)
    assert totals.counts is not None
    assert (totals.counts.jobs, totals.counts.waiting, totals.counts.dead_letters) == (4, 4, 0)
    assert totals.depths == [0, 5, 0, 1]
    leads[0] = False
    await clock.advance(LOOK_MS)
    for gone in (totals.counts, totals.depths):
        assert gone is None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_queue_that_is_away_leaves_the_other_figures() -> None:
    clock = VirtualClock()
    world = World(clock=clock)
    totals = Totals(store=world.store, queue=Away(clock, 5_000), routes=lambda: ROUTES, clock=clock)
    await totals.look()
    assert totals.counts is not None
    assert totals.depths is None


async def test_without_workers_nothing_is_asked_of_the_queue() -> None:
    clock = VirtualClock()
    totals = Totals(store=World().store, queue=Away(clock, 5_000), routes=list, clock=clock)
    await totals.look()
    assert totals.depths == [0, 0, 0, 0]
