"""What the gate makes of hosts that push back, answer nothing, ask to be left alone, or have a rate."""

from collections.abc import Callable, Mapping

import pytest

from tickwheel.domain.breaker import FAILURES_TO_OPEN
from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.domain.rate import RateLimit
from tickwheel.domain.run import RunState
from tickwheel.ports.events import HostClosed, HostOpened
from tickwheel.ports.executor import Work
from tickwheel.services.gates.host_gate import host_of
from tickwheel.services.scheduler import Scheduler, SchedulerSettings

from .world import World

TROUBLED, QUICK = "https://troubled.example/x", "https://quick.example/x"
DEAD = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="the connection was refused")
BUSY = Outcome(outcome_class=OutcomeClass.RETRYABLE, http_status=503, error="answered 503")
NOT_FOUND = Outcome(outcome_class=OutcomeClass.PERMANENT, http_status=404, error="answered 404")


def world_of(
    limit: int = 32,
    host_rates: Mapping[str, RateLimit] = {},
    handler_rates: Mapping[str, RateLimit] = {},
) -> World:
    return World(
        settings=SchedulerSettings(
            webhook_slots=256,
            webhook_host_limit=limit,
            handler_slots=8,
            host_rates=host_rates,
            handler_rates=handler_rates,
        )
    )


def troubled(outcome: Outcome) -> Callable[[Work], Outcome]:
    return lambda work: outcome if host_of(work.target.endpoint) == "troubled.example" else OK


def calls_of(world: World, host: str = "troubled.example") -> list[int]:
    return [call.started_ms for call in world.calls if host_of(call.work.target.endpoint) == host]


async def started(world: World, outcome: Outcome, count: int) -> Scheduler:
    world.behave = troubled(outcome)
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=10, endpoint=TROUBLED) for _ in range(count)))
    return scheduler


async def test_dead_host_is_left_alone_and_its_backlog_burns_no_attempts() -> None:
    world = world_of()
    scheduler = await started(world, DEAD, 500)
    await world.clock.advance(60_000)
    first = [at_ms for at_ms in calls_of(world) if at_ms < world.calls[0].started_ms + 100]
    assert len(first) < FAILURES_TO_OPEN + 32
    probes = len(calls_of(world)) - len(first)
    assert 4 <= probes <= 7  # after 1, 2, 4, 8, 16 and 32 s
    (event,) = world.events.of(HostOpened)
    assert (event.host, event.cause) == ("troubled.example", "failing")
    assert not world.events.of(HostClosed)
    assert (await world.memory.counts()).waiting == 500
    quick = world.job(in_ms=10, endpoint=QUICK)
    await world.add(scheduler, quick)
    await world.clock.advance(100)
    assert (await world.run_of(quick.job.job_id)).state is RunState.SUCCEEDED
    await scheduler.drain(0)


async def test_backlog_is_released_bit_by_bit_when_the_host_answers_again() -> None:
    world = world_of(64)
    scheduler = await started(world, DEAD, 600)
    await world.clock.advance(5_000)

    webhooks, at_a_time = world.executors[0], list[int]()
    world.behave = lambda work: None
    for _ in range(1_000):
        await world.clock.advance(50)
        if webhooks.open:
            at_a_time.append(len(webhooks.open))
        for slot in list(webhooks.open):
            webhooks.finish(slot)
        if not scheduler.gate.held_count and not webhooks.open:
            break
    assert at_a_time[0] == 1  # the probe is alone
    assert max(at_a_time[:5]) <= 8  # and what follows it is no stampede
    assert max(at_a_time) > 16
    (closed,) = world.events.of(HostClosed)
    assert closed.host == "troubled.example"
    assert scheduler.gate.held_count == 0
    await scheduler.drain(0)


async def test_all_of_a_revived_hosts_runs_succeed() -> None:
    world = world_of()
    scheduler = await started(world, DEAD, 300)
    await world.clock.advance(4_000)
    world.behave = lambda work: OK
    await world.clock.advance(30_000)
    assert scheduler.gate.held_count == 0
    assert (await world.memory.counts()).waiting == 0
    assert sum(1 for call in world.calls if call.work.attempt > 4) == 0
    await scheduler.drain(0)


async def test_host_that_refuses_with_404_is_not_left_alone() -> None:
    world = world_of()
    scheduler = await started(world, NOT_FOUND, 300)
    await world.clock.advance(2_000)
    assert len(calls_of(world)) == 300
    assert not world.events.of(HostOpened)
    await scheduler.drain(0)


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_holds_for_the_host_and_one_probe_follows(status: int) -> None:
    busy = Outcome(outcome_class=OutcomeClass.RETRYABLE, http_status=status, retry_after_ms=20_000)
    world = world_of(8)
    scheduler = await started(world, busy, 200)
    await world.clock.advance(100)
    begun = len(calls_of(world))
    assert begun <= 8
    await world.clock.advance(19_800)
    assert len(calls_of(world)) == begun
    await world.clock.advance(1_000)
    assert len(calls_of(world)) == begun + 1
    assert [event.cause for event in world.events.of(HostOpened)] == ["retry_after"]
    world.behave = lambda work: OK
    await world.clock.advance(60_000)
    assert (await world.memory.counts()).waiting == 0
    await scheduler.drain(0)


async def test_host_that_pushes_back_now_and_then_is_given_less_and_is_not_left_alone() -> None:
    world = world_of(32)
    turn = iter(range(10**9))
    world.behave = lambda work: BUSY if next(turn) % 4 == 0 else OK
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=n, endpoint=TROUBLED, retries=9) for n in range(3_000)))
    await world.clock.advance(1_500)
    assert scheduler.gate.hosts.known["troubled.example"].aimd.limit < 8
    assert not world.events.of(HostOpened)
    world.behave = lambda work: OK
    await world.clock.advance(60_000)
    assert (await world.memory.counts()).waiting == 0
    await scheduler.drain(0)


async def test_deadline_that_passes_while_the_host_is_dead_skips_the_run() -> None:
    world = world_of()
    scheduler = await started(world, DEAD, 100)
    await world.clock.advance(1_000)
    late = [world.job(in_ms=10, endpoint=TROUBLED, deadline_ms=2_000) for _ in range(3)]
    kept = world.job(in_ms=10, endpoint=TROUBLED)
    await world.add(scheduler, *late, kept)
    await world.clock.advance(2_000)
    assert await world.runs(late[0].job.job_id) == []
    await world.clock.advance(1_100)
    for job in late:
        assert (await world.run_of(job.job.job_id)).state is RunState.SKIPPED
    assert await world.runs(kept.job.job_id) == []
    await scheduler.drain(0)


async def test_critical_run_is_the_probe() -> None:
    world = world_of()
    scheduler = await started(world, DEAD, 100)
    await world.clock.advance(500)
    await world.add(scheduler, world.job(in_ms=10, endpoint=TROUBLED, lane=Lane.CRITICAL))
    await world.clock.advance(1_000)
    assert world.calls[-1].work.lane == Lane.CRITICAL
    await scheduler.drain(0)


async def test_runs_that_are_skipped_meanwhile_bring_no_second_probe() -> None:
    world = world_of(64)
    scheduler = await started(world, DEAD, 100)
    await world.clock.advance(500)
    world.behave = lambda work: None  # from now on it hangs
    late = [world.job(in_ms=10, endpoint=TROUBLED, deadline_ms=6_000 + 100 * n) for n in range(50)]
    await world.add(scheduler, *late)
    await world.clock.advance(5_000)
    assert len(world.executors[0].open) == 1
    await world.clock.advance(7_000)
    assert (await world.run_of(late[0].job.job_id)).state is RunState.SKIPPED
    assert len(world.executors[0].open) == 1
    await scheduler.drain(0)


async def test_rate_of_a_host_is_kept_and_nothing_starves() -> None:
    world = world_of(64, host_rates={"troubled.example": RateLimit(50, 1_000, 5)})
    scheduler = await started(world, OK, 400)
    await world.clock.advance(4_010)
    assert 195 <= len(calls_of(world)) <= 205
    await world.add(scheduler, *(world.job(in_ms=10, endpoint=QUICK) for _ in range(100)))
    await world.clock.advance(100)
    assert len(calls_of(world, "quick.example")) == 100
    await world.clock.advance(6_000)
    assert len(calls_of(world)) == 400
    await scheduler.drain(0)


async def test_rate_of_a_handler_is_kept_and_other_handlers_are_not_held() -> None:
    world = world_of(64, handler_rates={"slow": RateLimit(20, 1_000, 2)})
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(in_ms=10, handler="slow") for _ in range(100)))
    await world.add(scheduler, *(world.job(in_ms=10, handler="other") for _ in range(100)))
    await world.clock.advance(2_010)
    names = [call.work.target.name for call in world.calls]
    assert names.count("other") == 100
    assert 38 <= names.count("slow") <= 42
    await world.clock.advance(5_000)
    assert [call.work.target.name for call in world.calls].count("slow") == 100
    await scheduler.drain(0)


async def test_what_fails_on_this_side_before_it_is_sent_says_nothing_about_the_host() -> None:
    unsent = Outcome(outcome_class=OutcomeClass.RETRYABLE, error="the header X can't be opened", unsent=True)
    world = world_of()
    scheduler = await started(world, unsent, 5 * FAILURES_TO_OPEN)
    await world.clock.advance(2_000)
    assert len(calls_of(world)) >= 5 * FAILURES_TO_OPEN
    assert not world.events.of(HostOpened)
    await scheduler.drain(0)
