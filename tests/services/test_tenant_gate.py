"""Limits of tenants from the firing side: who waits, in which second it goes, and who is not touched by it."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tickwheel.domain.outcome import OK
from tickwheel.domain.quotas import TenantLimits, TenantSettings
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.domain.tenants import tenant_bucket
from tickwheel.ports.executor import Work
from tickwheel.ports.registry import Act
from tickwheel.ports.store import NewJob, Run
from tickwheel.services import safety_net
from tickwheel.services.gates import tenant_gate
from tickwheel.services.scheduler import Scheduler, SchedulerSettings
from tickwheel.services.tenant_rules import weights_of
from tickwheel.services.tenants import DEFAULTS, Tenants

from .world import FAILED, Call, World, lateness_ms

ACT = Act("somebody", "tenant.put")
NOISY, QUIET = "noisy", "quiet"


class TenantWorld(World):
    """A firing side that follows the records of tenants."""

    scheduler: Scheduler
    tenants: Tenants

    async def open(self) -> "TenantWorld":
        self.tenants = Tenants(self.store, self.clock)
        await self.begin()
        return self

    async def begin(self) -> None:
        self.scheduler = await self.start()
        self.scheduler.follow(self.tenants)

    async def limit(self, tenant_id: str = NOISY, *, disabled: bool = False, **limits: Any) -> None:
        await self.tenants.put(tenant_id, TenantSettings(TenantLimits(**limits), disabled=disabled), ACT)

    async def insert(self, *jobs: NewJob) -> list[bytes]:
        return await self.add(self.scheduler, *jobs)

    def some(self, count: int, *, in_ms: int, tenant_id: str = NOISY, **fields: Any) -> list[NewJob]:
        return [self.job(in_ms=in_ms, tenant_id=tenant_id, **fields) for _ in range(count)]

    def calls_of(self, tenant_id: str) -> list[Call]:
        return [call for call in self.calls if call.work.tenant_id == tenant_id]

    def by_second(self, tenant_id: str = NOISY) -> list[int]:
        """How many of its attempts began in each second in which any did."""
        seconds = Counter(call.started_ms // 1_000 for call in self.calls_of(tenant_id))
        return [seconds[second] for second in range(min(seconds), max(seconds) + 1)]

    async def state_of(self, tenant_id: str, job_id: bytes) -> Sequence[tuple[RunState, SkipReason]]:
        page = await self.memory.list_runs(tenant_id, job_id, 100, None)
        return [(run.state, run.skip_reason) for run in page.items]


@pytest.fixture
async def world() -> AsyncIterator[TenantWorld]:
    opened = await TenantWorld(settings=SchedulerSettings(webhook_slots=64, handler_slots=64)).open()
    yield opened
    await opened.crash(opened.scheduler)


async def to_the_second(world: TenantWorld) -> None:
    await world.clock.advance(1_000 - world.clock.now_ms() % 1_000)


async def test_no_more_start_in_a_second_than_the_limit(world: TenantWorld) -> None:
    await world.limit(due_per_second=10)
    await to_the_second(world)
    await world.insert(*world.some(35, in_ms=1_500))
    await world.clock.advance(1_900)
    assert world.scheduler.waits_for(NOISY) == "due_per_second"
    assert len(world.scheduler.tenants) == 25
    await world.clock.advance(5_000)
    assert world.by_second() == [10, 10, 10, 5]
    assert world.scheduler.waits_for(NOISY) is None
    assert not len(world.scheduler.tenants)


async def test_what_the_limit_allows_is_on_time(world: TenantWorld) -> None:
    await world.limit(due_per_second=10)
    await to_the_second(world)
    jobs = [new for second in range(5) for new in world.some(10, in_ms=1_000 + second * 1_000)]
    await world.insert(*jobs)
    await world.clock.advance(8_000)
    assert world.by_second() == [10] * 5
    by_id = {new.job.job_id: new for new in jobs}
    assert max(lateness_ms(call, by_id[call.work.job_id]) for call in world.calls) < 100


async def test_they_go_in_due_order_whatever_comes_due_meanwhile(world: TenantWorld) -> None:
    await world.crash(world.scheduler)
    await world.limit(due_per_second=5)
    await to_the_second(world)
    overdue = await world.add(None, *(world.job(in_ms=10 * n, tenant_id=NOISY) for n in range(20)))
    await world.clock.advance(1_000)
    upcoming = await world.add(None, *(world.job(in_ms=100 * n, tenant_id=NOISY) for n in range(40)))
    await world.begin()
    await world.clock.advance(15_000)
    assert [call.work.job_id for call in world.calls] == overdue + upcoming
    assert max(world.by_second()) == 5
    await world.crash(world.scheduler)


async def test_what_is_skipped_takes_no_place_of_the_second(world: TenantWorld) -> None:
    await world.crash(world.scheduler)
    await world.limit(due_per_second=2)
    late = await world.add(None, *world.some(50, in_ms=0, deadline_ms=1_000))
    [runs] = await world.add(None, *world.some(1, in_ms=5))
    await world.clock.advance(5_000)
    await world.begin()
    await world.clock.advance(900)
    assert [call.work.job_id for call in world.calls] == [runs]
    skipped = [await world.state_of(NOISY, job_id) for job_id in late]
    assert skipped == [[(RunState.SKIPPED, SkipReason.DEADLINE)]] * 50
    await world.crash(world.scheduler)


async def test_a_noisy_tenant_at_its_limit_leaves_the_others_on_time(world: TenantWorld) -> None:
    await world.limit(due_per_second=20, concurrency=4)
    await to_the_second(world)
    quiet = [world.job(in_ms=1_000 + 100 * n, tenant_id=QUIET) for n in range(60)]
    await world.insert(*world.some(3_000, in_ms=1_000), *quiet)
    await world.clock.advance(8_000)
    assert max(world.by_second()) <= 20
    by_id = {new.job.job_id: new for new in quiet}
    late = [lateness_ms(call, by_id[call.work.job_id]) for call in world.calls_of(QUIET)]
    assert len(late) == 60
    assert max(late) < 100


async def test_retries_count_as_starts(world: TenantWorld) -> None:
    world.behave = lambda work: FAILED
    await world.limit(due_per_second=2)
    await world.insert(*world.some(8, in_ms=1_000, retries=2, handler="h"))
    await world.clock.advance(60_000)
    assert len(world.calls) == 8 * 3
    assert max(world.by_second()) <= 2


async def test_runs_in_flight_are_bounded_by_the_record(world: TenantWorld) -> None:
    world.behave = lambda work: None
    await world.limit(concurrency=3)
    await world.insert(*world.some(10, in_ms=1_000), *world.some(5, in_ms=1_000, tenant_id=QUIET))
    await world.clock.advance(3_000)
    assert Counter(call.work.tenant_id for call in world.calls) == {NOISY: 3, QUIET: 5}
    assert world.scheduler.waits_for(NOISY) == "concurrency"
    assert world.scheduler.waits_for(QUIET) is None
    await world.limit(concurrency=5)
    await world.clock.advance(1_000)
    assert len(world.calls_of(NOISY)) == 5
    await world.tenants.delete(NOISY, ACT)
    await world.clock.advance(1_000)
    assert len(world.calls_of(NOISY)) == 10


async def test_a_run_that_waits_for_a_slot_takes_no_place_of_the_second(world: TenantWorld) -> None:
    ended: list[Work] = []
    world.behave = lambda work: ended.append(work) or (None if len(ended) == 1 else OK)  # type: ignore[func-returns-value]
    await world.limit(concurrency=1, due_per_second=3)
    await world.insert(*world.some(10, in_ms=1_000))
    await world.clock.advance(10_000)
    assert len(world.calls) == 1
    await to_the_second(world)
    world.executors[0].finish(next(iter(world.executors[0].open)))
    await world.clock.advance(900)
    assert len(world.calls) == 4  # the one that ended, and what a second allows
    await world.clock.advance(5_000)
    assert len(world.calls) == 10


async def test_runs_of_a_disabled_tenant_wait_until_it_is_enabled(world: TenantWorld) -> None:
    await world.limit(disabled=True)
    [noisy, *_] = await world.insert(*world.some(300, in_ms=1_000))
    await world.insert(*world.some(3, in_ms=1_000, tenant_id=QUIET))
    await world.clock.advance(60_000)
    assert len(world.calls_of(QUIET)) == 3
    assert not world.calls_of(NOISY)
    assert world.scheduler.waits_for(NOISY) == "disabled"
    assert not len(world.scheduler.tenants)  # they take no memory
    assert world.scheduler._unresolved.lowest_ms().min() < world.clock.now_ms() - 50_000
    assert await world.state_of(NOISY, noisy) == []
    await world.limit()
    await world.clock.advance(3_000)
    assert len(world.calls_of(NOISY)) == 300


async def test_what_recurs_catches_up_once_when_its_tenant_is_enabled(world: TenantWorld) -> None:
    await world.limit(disabled=True)
    first_ms = world.next_minute_ms()
    [job_id] = await world.insert(world.job(cron="* * * * *", first_ms=first_ms, tenant_id=NOISY))
    await world.clock.advance(10 * 60_000)
    assert not world.calls
    await world.limit()
    await world.clock.advance(10_000)
    assert len(world.calls) == 1
    await world.clock.advance(60_000)
    assert len(world.calls) == 2
    assert [state for state, _ in await world.state_of(NOISY, job_id)].count(RunState.SUCCEEDED) == 2


async def test_a_deadline_passes_while_a_tenant_is_disabled(world: TenantWorld) -> None:
    await world.limit(disabled=True)
    [job_id] = await world.insert(*world.some(1, in_ms=1_000, deadline_ms=5_000))
    await world.clock.advance(20_000)
    await world.limit()
    await world.clock.advance(5_000)
    assert not world.calls
    assert await world.state_of(NOISY, job_id) == [(RunState.SKIPPED, SkipReason.DEADLINE)]


async def test_attempts_of_a_tenant_end_well_after_it_is_disabled(world: TenantWorld) -> None:
    world.behave = lambda work: None
    [job_id] = await world.insert(*world.some(1, in_ms=1_000))
    await world.clock.advance(2_000)
    await world.limit(disabled=True)
    await world.clock.advance(60_000)  # two leases
    world.executors[0].finish(next(iter(world.executors[0].open)))
    await world.clock.advance(1_000)
    assert await world.state_of(NOISY, job_id) == [(RunState.SUCCEEDED, SkipReason.NONE)]
    assert len(world.calls) == 1


async def test_a_run_whose_owner_died_is_watched_though_its_tenant_is_disabled(world: TenantWorld) -> None:
    async def no_leases(*args: Any) -> list[Run]:
        return []

    world.memory.expired = no_leases  # type: ignore[method-assign,assignment]  # nothing but the timer leads to the run
    world.behave = lambda work: None
    [job_id] = await world.insert(*world.some(1, in_ms=1_000, retries=0))
    await world.clock.advance(2_000)
    await world.crash(world.scheduler)
    await world.limit(disabled=True)
    await world.begin()
    await world.clock.advance(60_000)
    assert await world.state_of(NOISY, job_id) == [(RunState.FAILED, SkipReason.NONE)]
    assert len(world.calls) == 1
    await world.crash(world.scheduler)


@pytest.mark.parametrize("each", [50, 5_000])
async def test_far_above_its_limit_a_tenant_takes_little_memory_and_loses_nothing(
    world: TenantWorld, monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    monkeypatch.setattr(tenant_gate, "HELD_EACH", each)
    await world.limit(due_per_second=20)
    ids = await world.insert(*world.some(400, in_ms=1_000))
    for _ in range(300):
        await world.clock.advance(100)
        assert len(world.scheduler.tenants) <= each
        if len(world.calls) == 400:
            break
    assert {call.work.job_id for call in world.calls} == set(ids)
    assert len(world.calls) == 400
    assert max(world.by_second()) <= 20
    if each == 50:
        assert len(world.by_second()) < 30  # it may lose some seconds while the store is read again


async def test_a_tenant_that_is_always_above_its_limit_keeps_no_other_from_what_was_dropped(
    world: TenantWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again behind a mass that stays dropped, which takes longer than the noisy one rests."""
    monkeypatch.setattr(tenant_gate, "HELD_EACH", 10)
    monkeypatch.setattr(safety_net, "PAGE_TIMERS", 20)
    monkeypatch.setattr(safety_net, "HURRY_MS", 500)
    await world.limit("shut", disabled=True)
    await world.limit(QUIET, disabled=True)
    await world.limit(due_per_second=5)
    await world.insert(*(world.job(in_ms=n, tenant_id="shut") for n in range(400)))
    await world.insert(*world.some(30, in_ms=1_100, tenant_id=QUIET))
    await world.insert(*(world.job(in_ms=2_000 + 120 * n, tenant_id=NOISY) for n in range(400)))
    await world.clock.advance(10_000)
    await world.limit(QUIET)
    await world.clock.advance(30_000)
    assert len(world.calls_of(QUIET)) == 30
    assert len(world.calls_of(NOISY)) < 200
    assert not world.calls_of("shut")


async def test_the_gate_forgets_what_shards_took_with_them(world: TenantWorld) -> None:
    await world.limit(due_per_second=1)
    await world.insert(*world.some(200, in_ms=1_000))
    await world.clock.advance(1_500)
    gate = world.scheduler.tenants
    held = len(gate)
    assert held > 150
    assert len(gate.rows()) == held
    gate.forget(range(128))
    assert 0 < len(gate) < held
    gate.forget(range(256))
    assert not len(gate)
    assert gate.lowest_due_ms() is None


async def test_defaults_hold_for_all_and_a_lifted_limit_lets_all_go(world: TenantWorld) -> None:
    await world.limit(DEFAULTS, due_per_second=5)
    await to_the_second(world)
    await world.insert(*world.some(30, in_ms=500), *world.some(30, in_ms=500, tenant_id=QUIET))
    await world.clock.advance(900)
    assert (len(world.calls_of(NOISY)), len(world.calls_of(QUIET))) == (5, 5)
    await world.tenants.delete(DEFAULTS, ACT)
    await world.clock.advance(50)
    assert len(world.calls) == 60


async def test_a_node_starts_as_much_as_it_has_of_the_shards() -> None:
    world = await TenantWorld().open()
    gate = world.scheduler.tenants
    gate._share = lambda: 0.25
    await world.limit(due_per_second=40)
    await to_the_second(world)
    await world.insert(*world.some(50, in_ms=500))
    await world.clock.advance(900)
    assert len(world.calls) == 10
    await world.crash(world.scheduler)


async def test_weights_of_records_share_out_the_slots() -> None:
    world = await TenantWorld(settings=SchedulerSettings(webhook_slots=20)).open()
    world.behave = lambda work: None
    await world.limit(weight=3)
    await world.limit(QUIET, weight=1)
    await world.insert(*world.some(200, in_ms=1_000), *world.some(200, in_ms=1_000, tenant_id=QUIET))
    await world.clock.advance(2_000)
    for _ in range(30):
        for slot in list(world.executors[0].open)[:5]:
            world.executors[0].finish(slot)
        await world.clock.advance(100)
    noisy, quiet = len(world.calls_of(NOISY)), len(world.calls_of(QUIET))
    assert noisy > 2 * quiet > 0
    await world.crash(world.scheduler)


def test_weights_by_bucket() -> None:
    nothing = TenantSettings()
    assert set(weights_of(nothing, {"a": nothing}).tolist()) == {1.0}
    light, heavy = TenantSettings(TenantLimits(weight=0.5)), TenantSettings(TenantLimits(weight=4))
    weights = weights_of(light, {"a": heavy, "b": light})
    assert (weights[tenant_bucket("a")], weights[tenant_bucket("b")], weights[tenant_bucket("c")]) == (
        4.0,
        0.5,
        0.5,
    )
