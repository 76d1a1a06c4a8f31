"""Runs of a tenant reach its own workers, those of others don't, and nothing is left behind when workers go."""

import numpy as np
import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import empty
from tickwheel.domain.job import Lane
from tickwheel.domain.limits import HANDLER_NAME_CHARS, TENANT_CHARS
from tickwheel.domain.rate import RateLimit
from tickwheel.domain.run import RunState
from tickwheel.ports.queue import (
    HINT,
    TAG_CHARS,
    WEBHOOKS,
    Topic,
    handler_route,
    is_own,
    shared_route,
    tenant_route,
    tenant_tag,
)
from tickwheel.ports.store import NewJob
from tickwheel.services.remote.outbox import REPUBLISH_MS
from tickwheel.services.remote.routes import KEPT_MS
from tickwheel.services.scheduler import Scheduler

from ..world import World
from .remote_world import Remote, begin_all, remote_world, run_of

STRANGE = [
    "",
    "acme",
    "acme:webhooks",
    "tenant:acme",
    "ünïcode ✓",
    "\ud800",
    "a" * TENANT_CHARS,
    "b" * TENANT_CHARS,
]


async def started(world: World, *remotes: Remote, local_routes: tuple[str, ...] = ()) -> Scheduler:
    for remote in remotes:
        await remote.enlist()
    scheduler = await world.start(local_routes=local_routes)
    await world.clock.advance(1_500)  # the sessions are read each second
    return scheduler


def pair(world: World, *, shared_slots: int = 4, own_slots: int = 4) -> tuple[Remote, Remote]:
    return (
        Remote(world, "shared", shared_slots),
        Remote(world, "own", own_slots, tenant_id="acme"),
    )


def far(world: World, tenant_id: str, lane: Lane = Lane.DEFAULT) -> NewJob:
    return world.job(handler="far", tenant_id=tenant_id, lane=lane)


@pytest.mark.parametrize("route", [WEBHOOKS, handler_route("webhooks"), handler_route("x" * HANDLER_NAME_CHARS)])
def test_a_route_of_a_tenant_is_short_and_leads_back(route: str) -> None:
    own = [tenant_route(tenant_id, route) for tenant_id in STRANGE]
    assert len({route, *own}) == len(STRANGE) + 1
    assert {shared_route(one) for one in (route, *own)} == {route}
    assert [is_own(one) for one in (route, own[0])] == [False, True]
    assert all(one.isascii() and len(one) <= len(route) + TAG_CHARS + 8 for one in own)
    assert tenant_route(None, route) == route
    assert len(tenant_tag("acme")) == TAG_CHARS


async def test_runs_go_to_the_workers_of_their_tenant_and_of_nobody_else() -> None:
    world = remote_world()
    shared, own = pair(world)
    other = Remote(world, "other", tenant_id="acme2")
    scheduler = await started(world, shared, own, other)
    jobs = [far(world, tenant_id) for tenant_id in ("acme", "default", "acme", "nobody")]
    await world.add(scheduler, *jobs)
    begun = await begin_all(world, own, 2)
    assert {one.job_id for one in begun} == {jobs[0].job.job_id, jobs[2].job.job_id}
    assert {one.job_id for one in await begin_all(world, shared, 2)} == {jobs[1].job.job_id, jobs[3].job.job_id}
    await world.clock.advance(2 * REPUBLISH_MS)
    assert [await remote.take() for remote in (shared, own, other)] == [[], [], []]
    await world.crash(scheduler)


async def test_own_workers_go_before_the_process_that_fires() -> None:
    """Also for webhooks: a tenant may want them made from its own network."""
    world = remote_world()
    own = Remote(world, "own", names=("here",), webhooks=True, tenant_id="acme")
    scheduler = await started(world, own, local_routes=(WEBHOOKS, handler_route("here")))
    theirs = [world.job(handler="here", tenant_id="acme"), world.job(tenant_id="acme")]
    await world.add(scheduler, *theirs, world.job(handler="here"), world.job())
    begun = await begin_all(world, own, 2)
    assert {one.job_id for one in begun} == {new.job.job_id for new in theirs}
    assert {call.work.tenant_id for call in world.calls} == {"default"}
    assert len(world.calls) == 2
    await world.crash(scheduler)


async def test_own_workers_are_found_while_all_slots_here_are_taken() -> None:
    world = remote_world(handler_slots=4)
    world.behave = lambda work: None  # never ends
    own = Remote(world, "own", names=("here",), tenant_id="acme")
    scheduler = await started(world, own, local_routes=(handler_route("here"),))
    await world.add(scheduler, *(world.job(handler="here") for _ in range(500)))
    await world.add(scheduler, new := world.job(handler="here", tenant_id="acme"))
    [begun] = await begin_all(world, own, 1, within_ms=500)
    assert begun.job_id == new.job.job_id
    await world.crash(scheduler)


async def test_a_flood_for_a_tenants_own_workers_holds_up_nobody_else() -> None:
    world = remote_world()
    shared, own = pair(world, own_slots=1)
    scheduler = await started(world, shared, own)
    await world.add(scheduler, *(far(world, "acme", Lane.CRITICAL) for _ in range(2_500)))
    await world.clock.advance(500)
    await world.add(scheduler, *(far(world, "default", Lane.LOW) for _ in range(3)))
    await begin_all(world, shared, 3, within_ms=200)
    assert len(await own.take()) == 1, "no more than it has slots are claimed for it"
    backlog = [lane.backlog for lane in scheduler.elsewhere.load()]
    assert backlog == [0, 0, 0, 0], "no shared worker is needed for it"
    await world.crash(scheduler)


async def test_when_the_last_own_worker_goes_the_others_do_what_waits_and_what_is_queued() -> None:
    world = remote_world()
    shared, own = pair(world, shared_slots=50, own_slots=2)
    scheduler = await started(world, shared, own)
    await world.add(scheduler, *(far(world, "acme") for _ in range(10)))
    await world.clock.advance(500)
    assert world.queue is not None
    assert sum(await world.queue.depth(own.topics)) == 2
    await world.store.end_worker("own")
    assert len(await begin_all(world, shared, 8, within_ms=1_500)) == 8, "what was waiting"
    await begin_all(world, shared, 2, within_ms=REPUBLISH_MS + 1_000)
    await world.crash(scheduler)


async def test_what_is_queued_for_busy_workers_of_all_tenants_does_not_hold_it_up_either() -> None:
    """The queue holds as many hints of others as are looked for: they don't stand for those that must move."""
    world = remote_world()
    shared, own = pair(world)
    scheduler = await started(world, shared, own)
    await world.add(scheduler, new := far(world, "acme"))
    await world.clock.advance(500)
    assert world.queue is not None
    await world.queue.publish(Topic(Lane.DEFAULT, handler_route("far")), empty(HINT, 10))  # another owner's
    await world.store.end_worker("own")
    await world.clock.advance(REPUBLISH_MS + 1_000)
    [begun] = await begin_all(world, shared, 1, within_ms=100)
    assert begun.job_id == new.job.job_id
    await world.crash(scheduler)


async def test_where_nobody_else_serves_it_the_process_does_what_was_for_workers_that_are_gone() -> None:
    world = remote_world()
    own = Remote(world, "own", slots=1, names=("here",), tenant_id="acme")
    scheduler = await started(world, own, local_routes=(handler_route("here"),))
    await world.add(scheduler, *(world.job(handler="here", tenant_id="acme") for _ in range(5)))
    await world.clock.advance(500)
    assert not world.calls
    await world.store.end_worker("own")
    await world.clock.advance(2_000)
    assert len(world.calls) == 4
    await world.clock.advance(REPUBLISH_MS + 2_000)
    assert len(world.calls) == 5, "the one that was queued"
    await world.crash(scheduler)


async def test_without_anybody_else_runs_wait_for_their_own_workers() -> None:
    world = remote_world()
    own = Remote(world, "own", tenant_id="acme")
    scheduler = await started(world, own)
    target = far(world, "acme").job.spec.target
    assert scheduler.elsewhere.serves(target, "acme")
    assert not scheduler.elsewhere.serves(target, "default")
    await world.add(scheduler, far(world, "acme"), far(world, "default"))
    [first] = await begin_all(world, own, 1)
    assert await own.succeed(first)
    await world.store.end_worker("own")
    await world.clock.advance(KEPT_MS + 2_000)
    assert not scheduler.elsewhere.serves(target, "acme")
    await world.add(scheduler, later := far(world, "acme"))
    again = await Remote(world, "own-2", tenant_id="acme").enlist()
    [begun] = await begin_all(world, again, 1, within_ms=4_000)
    assert begun.job_id == later.job.job_id
    await world.crash(scheduler)


async def test_own_workers_that_come_get_what_waits_for_busy_ones() -> None:
    world = remote_world()
    shared, own = pair(world, shared_slots=1)
    scheduler = await started(world, shared)
    await world.add(scheduler, *(far(world, "default") for _ in range(300)))
    await world.add(scheduler, *(far(world, "acme") for _ in range(3)))
    await world.clock.advance(500)
    await own.enlist()
    begun = await begin_all(world, own, 3, within_ms=2_000)
    assert {one.definition.tenant_id for one in begun} == {"acme"}
    await world.crash(scheduler)


async def test_a_draining_own_worker_gives_its_part_to_the_others_and_back() -> None:
    world = remote_world()
    shared, own = pair(world)
    scheduler = await started(world, shared, own)
    await world.store.renew_worker("own", replace(own.note, draining=True))
    await world.clock.advance(1_200)
    await world.add(scheduler, far(world, "acme"))
    await begin_all(world, shared, 1)
    await world.store.renew_worker("own", own.note)
    await world.clock.advance(1_200)
    await world.add(scheduler, far(world, "acme"))
    await begin_all(world, own, 1)
    await world.crash(scheduler)


async def test_a_rate_of_a_handler_holds_for_all_its_workers_together() -> None:
    world = remote_world()
    world.settings = replace(world.settings, handler_rates={"far": RateLimit(10, 1_000, 1)})
    shared, own = pair(world, shared_slots=50, own_slots=50)
    scheduler = await started(world, shared, own)
    for tenant_id in ("acme", "default"):
        await world.add(scheduler, *(far(world, tenant_id) for _ in range(50)))
    begun = 0
    for _ in range(100):
        begun += len(await own.take()) + len(await shared.take())
        await world.clock.advance(20)
    assert 15 <= begun <= 22, "two seconds of ten per second"
    await world.crash(scheduler)


async def test_a_hint_of_somebody_else_gives_a_worker_of_a_tenant_nothing() -> None:
    """Whatever the queue holds: it is memory that others write to."""
    world = remote_world()
    shared, own = pair(world)
    scheduler = await started(world, shared, own)
    new = far(world, "default")
    await world.add(scheduler, new)
    await world.clock.advance(100)
    assert world.queue is not None
    [delivery] = await world.queue.take(shared.topics, 1)
    await world.queue.ack([delivery.receipt])
    hints = empty(HINT, 1)
    hints[:] = np.asarray(delivery.rows)
    await world.queue.publish(Topic(Lane.DEFAULT, tenant_route("acme", handler_route("far"))), hints)
    assert await own.take() == []
    run = await run_of(world, new)
    assert (run.state, run.attempt) == (RunState.SCHEDULED, 0)
    await world.crash(scheduler)


async def test_an_heir_sends_what_is_queued_to_own_workers() -> None:
    world = remote_world()
    shared, own = pair(world)
    scheduler = await started(world, shared, own)
    await world.add(scheduler, new := far(world, "acme"))
    await world.clock.advance(100)
    assert world.queue is not None
    [lost] = await world.queue.take(own.topics, 10)
    await world.queue.ack([lost.receipt])
    await world.crash(scheduler)
    heir = await world.start()
    [begun] = await begin_all(world, own, 1, within_ms=8_000)
    assert (begun.job_id, await shared.take()) == (new.job.job_id, [])
    await world.crash(heir)


async def test_many_tenants_leave_nothing_behind() -> None:
    world = remote_world()
    remotes = [Remote(world, f"own-{n}", slots=1, tenant_id=f"t{n}") for n in range(40)]
    scheduler = await started(world, *remotes)
    await world.add(scheduler, *(far(world, f"t{n}") for n in range(40) for _ in range(3)))
    for remote in remotes:
        for begun in await begin_all(world, remote, 3):
            assert await remote.succeed(begun)
    assert scheduler.elsewhere.backlog._rings == {}
    for remote in remotes:
        await world.store.end_worker(remote.name)
    await world.clock.advance(KEPT_MS + 2_000)
    backlog, routes = scheduler.elsewhere.backlog, scheduler.elsewhere.routes
    assert (backlog._rings, backlog._depths, routes._tenants, bool(routes)) == ({}, {}, {}, False)
    await world.crash(scheduler)
