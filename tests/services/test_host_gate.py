"""One host that hangs holds up no other, and its CRITICAL runs find a place."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.columns import TIMER, empty
from tickwheel.domain.job import Lane, Spec, Target, TargetType
from tickwheel.domain.outcome import OK, Outcome
from tickwheel.domain.run import RunState
from tickwheel.ports.executor import Work
from tickwheel.services.gates.host_gate import HostGate, host_of
from tickwheel.services.gates.waiting import Waiting
from tickwheel.services.ready import KIND_WEBHOOK, ReadyRing
from tickwheel.services.scheduler import SchedulerSettings
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.testing.virtual_clock import VirtualClock

from .world import Events, World

HANGING, QUICK = "https://hanging.example/x", "https://quick.example/x"


def world_with_hanging_host() -> World:
    world = World(settings=SchedulerSettings(webhook_slots=64, webhook_host_limit=8, handler_slots=4))

    def behave(work: Work) -> Outcome | None:
        return None if host_of(work.target.endpoint) == "hanging.example" else OK

    world.behave = behave
    return world


async def test_backlog_of_a_hanging_host_waits_unclaimed_and_others_are_called() -> None:
    world = world_with_hanging_host()
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=10, endpoint=HANGING) for _ in range(500)))
    await world.clock.advance(1_000)
    quick = world.job(in_ms=10, endpoint=QUICK)
    await world.add(scheduler, quick)
    await world.clock.advance(20)
    assert (await world.run_of(quick.job.job_id)).state is RunState.SUCCEEDED
    assert len(world.executors[0].open) == 5  # of 8 places one each is kept for CRITICAL, HIGH and LOW
    assert scheduler.gate.held_count == 495
    assert (await world.memory.counts()).waiting == 500
    await scheduler.drain(0)


async def test_critical_run_is_called_while_low_ones_of_its_host_hang() -> None:
    world = world_with_hanging_host()
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=10, endpoint=HANGING, lane=Lane.LOW) for _ in range(50)))
    await world.clock.advance(1_000)
    await world.add(scheduler, world.job(in_ms=10, endpoint=HANGING, lane=Lane.CRITICAL))
    await world.clock.advance(20)
    assert world.calls[-1].work.lane == Lane.CRITICAL
    await scheduler.drain(0)


async def test_held_runs_are_called_as_places_become_free_until_none_is_left() -> None:
    world = world_with_hanging_host()
    scheduler = await world.start()
    ids = await world.add(scheduler, *(world.job(in_ms=10, endpoint=HANGING) for _ in range(60)))
    await world.clock.advance(100)
    webhooks = world.executors[0]
    most = 0
    while webhooks.open:
        most = max(most, len(webhooks.open))
        webhooks.finish(next(iter(webhooks.open)))
        await world.clock.advance(200)
    assert len(webhooks.calls) == len(ids)
    assert most <= 8
    assert scheduler.gate.held_count == 0
    assert not scheduler.gate.hosts.known
    await scheduler.drain(0)


async def test_quick_host_gets_more_places_than_connections_and_runs_all() -> None:
    world = world_with_hanging_host()
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=10, endpoint=QUICK) for _ in range(1_000)))
    await world.clock.advance(5_000)
    assert len(world.calls) == 1_000
    assert len({call.work.run_id for call in world.calls}) == 1_000
    assert not scheduler.gate.hosts.known
    await scheduler.drain(0)


async def test_store_that_fails_gives_the_places_back() -> None:
    from tickwheel.domain.errors import StoreUnavailable

    world = world_with_hanging_host()
    original, failures = world.memory.claim, 10

    async def flaky(*args: object, **more: object) -> object:
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnavailable("down")
        return await original(*args, **more)  # type: ignore[arg-type]  # passed on as they came

    world.memory.claim = flaky  # type: ignore[method-assign,assignment]
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=10, endpoint=QUICK) for _ in range(100)))
    await world.clock.advance(60_000)
    assert len(world.calls) == 100
    assert not scheduler.gate.hosts.known
    await scheduler.drain(0)


def test_host_is_read_off_the_url() -> None:
    assert host_of("https://API.example:8443/a/b?c") == "api.example:8443"
    assert host_of("http://a.example?x=1") == "a.example"
    assert host_of("http://a.example") == "a.example"
    assert host_of("nonsense") == ""


@given(st.lists(st.tuples(st.sampled_from(Lane), st.sampled_from([HANGING, QUICK])), min_size=1, max_size=40))
def test_a_batch_is_admitted_like_its_rows_one_by_one(rows: list[tuple[Lane, str]]) -> None:
    timers = empty(TIMER, len(rows))
    timers["flags"] = [lane for lane, _ in rows]
    specs = [Spec(target=Target(type=TargetType.HTTP_WEBHOOK, endpoint=endpoint)) for _, endpoint in rows]
    whole, single = (
        HostGate(
            limit=8,
            ready=ReadyRing(),
            clock=VirtualClock(),
            randomness=SeededRandomness(1),
            events=Events(),
        )
        for _ in range(2)
    )
    held = [n for n in range(len(rows)) if single.admit(timers[n : n + 1], specs[n : n + 1], ())]
    assert whole.admit(timers, specs, ()) == held
    assert whole.held_count == single.held_count == len(held)
    assert sorted(whole.rows()["flags"].tolist()) == sorted(single.rows()["flags"].tolist())


async def test_runs_of_shards_that_left_are_promised_no_place() -> None:
    world = World(settings=SchedulerSettings(webhook_slots=16, webhook_host_limit=4, handler_slots=16))
    world.behave = lambda work: None
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=10) for _ in range(30)))
    await world.clock.advance(200)
    assert scheduler.gate.held_count > 20
    scheduler.gate.forget(range(256))
    assert (scheduler.gate.held_count, len(scheduler.gate.rows())) == (0, 0)
    await scheduler.drain(0)


def test_what_waits_for_a_host_stays_in_due_order_when_some_expire() -> None:
    waiting = Waiting(KIND_WEBHOOK)
    timers = empty(TIMER, 60)
    timers["due_ms"] = timers["scheduled_ms"] = np.arange(60)
    timers["job_id"] = [n.to_bytes(16) for n in range(60)]
    waiting.push(timers[:10], [5, *[None] * 9])
    waiting.push(timers[10:], [None] * 50)
    assert waiting.take_expired(5)["due_ms"].tolist() == [0]
    assert waiting.take(0, 100)["due_ms"].tolist() == list(range(1, 60))
