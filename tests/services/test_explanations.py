"""Why did it not run, run late, run twice? Each story ends in a headline and codes that say what happened."""

import pytest
from msgspec.structs import replace

from tickwheel.domain.concurrency import Limit, Scope
from tickwheel.domain.errors import InvalidRequest, NotFound
from tickwheel.domain.explanation import Code, Reached, Verdict
from tickwheel.domain.job import CatchUp, Overlap
from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.domain.quotas import TenantLimits, TenantSettings
from tickwheel.domain.requests.instants import parse_instant
from tickwheel.ports.registry import Act
from tickwheel.ports.store import NewJob
from tickwheel.services.explanations import Explained
from tickwheel.services.scheduler_settings import SchedulerSettings
from tickwheel.services.tenants import Tenants
from tickwheel.testing.virtual_clock import VirtualClock

from .explaining_world import ExplainingWorld
from .test_limits import takes
from .world import FAILED, REFUSED

MINUTE_MS = 60_000
TIMED_OUT = Outcome(outcome_class=OutcomeClass.TIMEOUT, error="no complete answer within 30000 ms")
ACT = Act(actor="key:1", source="127.0.0.1", action="job.pause")


def codes(explained: Explained) -> list[Code]:
    return [cause.code for cause in explained.explanation.causes]


def headline(explained: Explained) -> str:
    return explained.explanation.headline


def limited(world: ExplainingWorld, limit: Limit, *, in_ms: int = 0) -> NewJob:
    new = world.job(in_ms=in_ms)
    return replace(new, job=replace(new.job, spec=replace(new.job.spec, concurrency=(limit,))))


async def test_run_on_time() -> None:
    world = ExplainingWorld()
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job(in_ms=5_000))
    await world.clock.advance(6_000)
    explained = await world.explain(job_id)
    await world.crash(scheduler)
    assert explained.explanation.verdict is Verdict.ON_TIME
    assert headline(explained).startswith("Ran on time, ")
    assert headline(explained).endswith(" after its instant. The first attempt succeeded.")
    assert codes(explained) == []
    steps = [step.step for step in explained.explanation.steps]
    assert steps == ["created", "due", "claimed", "dispatched", "started", "finished"]


async def test_run_that_is_to_come() -> None:
    world = ExplainingWorld()
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job(in_ms=90_000))
    explained = await world.explain(job_id)
    await world.crash(scheduler)
    assert explained.explanation.verdict is Verdict.UPCOMING
    assert headline(explained).startswith("Has not run yet: it is due at ")
    assert headline(explained).endswith(", in 1 min 30 s.")
    assert codes(explained) == [Code.FUTURE]


async def test_late_for_no_server_ran() -> None:
    world = ExplainingWorld()
    first = await world.start()
    [job_id] = await world.add(first, world.job(in_ms=45_000))
    await world.clock.advance(30_000)
    await world.crash(first)
    await world.clock.advance(60_000)
    second = await world.start()
    await world.clock.advance(5_000)
    explained = await world.explain(job_id)
    await world.crash(second)
    assert explained.explanation.verdict is Verdict.LATE
    assert headline(explained).startswith("Ran 45 s late: no server was running from ")
    assert codes(explained) == [Code.NOT_RUNNING]


async def test_late_by_a_limit() -> None:
    world = ExplainingWorld()
    takes(world, 10_000)
    scheduler = await world.start()
    key = Limit(1, key="customer-42")
    [_, second] = await world.add(scheduler, limited(world, key), limited(world, key, in_ms=1_000))
    await world.clock.advance(15_000)
    explained = await world.explain(second)
    await world.clock.advance(15_000)
    await world.crash(scheduler)
    assert explained.explanation.verdict is Verdict.LATE
    assert "the only slot of its limit for the key 'customer-42' was taken" in headline(explained)
    assert codes(explained) == [Code.LIMIT]


async def test_late_by_the_limit_of_its_tenant() -> None:
    world = ExplainingWorld()
    takes(world, 10_000)
    scheduler = await world.start()
    whole = Limit(1, scope=Scope.TENANT)
    [_, second] = await world.add(scheduler, limited(world, whole), limited(world, whole, in_ms=1_000))
    await world.clock.advance(15_000)
    explained = await world.explain(second)
    await world.clock.advance(15_000)
    await world.crash(scheduler)
    assert codes(explained) == [Code.TENANT_LIMIT]


async def test_late_for_its_tenant_was_disabled_or_used_up_its_rate() -> None:
    world = ExplainingWorld()
    scheduler = await world.start()
    tenants = Tenants(world.store, world.clock)
    scheduler.follow(tenants)
    put = replace(ACT, action="tenant.put")
    await tenants.put("default", TenantSettings(disabled=True), put)
    [disabled] = await world.add(scheduler, world.job(in_ms=1_000))
    await world.clock.advance(10_000)
    waiting = await world.explain(disabled)
    await tenants.put("default", TenantSettings(TenantLimits(due_per_second=1)), put)
    await world.clock.advance(60_000)
    *_, last = await world.add(scheduler, *(world.job(in_ms=500) for _ in range(5)))
    await world.clock.advance(20_000)
    by_rate = await world.explain(last)
    was_disabled = await world.explain(disabled)
    await world.crash(scheduler)
    assert codes(was_disabled) == [Code.TENANT_DISABLED]
    assert codes(waiting) == [Code.TENANT_DISABLED]
    assert codes(by_rate) == [Code.TENANT_RATE]


async def test_late_by_busy_slots() -> None:
    world = ExplainingWorld(settings=SchedulerSettings(webhook_slots=1, handler_slots=1))
    takes(world, 8_000)
    scheduler = await world.start()
    [_, second] = await world.add(scheduler, world.job(), world.job(in_ms=500))
    await world.clock.advance(12_000)
    explained = await world.explain(second)
    await world.clock.advance(12_000)
    await world.crash(scheduler)
    assert headline(explained).startswith("Ran 7.")
    assert "all slots for webhooks on node-1 were taken that the lane DEFAULT may use" in headline(explained)
    assert codes(explained) == [Code.SLOTS_TAKEN]


async def test_late_for_its_host_was_in_trouble() -> None:
    world = ExplainingWorld()
    world.behave = lambda work: Outcome(outcome_class=OutcomeClass.RETRYABLE, error="the connection was refused")
    scheduler = await world.start()
    await world.add(scheduler, *(world.job(retries=0, name=f"n{n}") for n in range(30)))
    await world.clock.advance(1_000)
    [late] = await world.add(scheduler, world.job())
    world.behave = lambda work: OK
    await world.clock.advance(800)
    waiting = await world.explain(late)
    await world.clock.advance(120_000)
    explained = await world.explain(late)
    await world.crash(scheduler)
    assert waiting.explanation.verdict is Verdict.WAITING
    assert codes(waiting)[0] is Code.TARGET_TROUBLED
    assert explained.explanation.verdict is Verdict.LATE
    assert "the host a.example answered nothing" in headline(explained)
    assert codes(explained) == [Code.TARGET_TROUBLED]


async def test_waits_for_a_handler_that_nobody_has() -> None:
    world = ExplainingWorld()
    world.serves = lambda target: not target.name
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job(handler="send_email"))
    await world.clock.advance(20_000)
    explained = await world.explain(job_id)
    await world.crash(scheduler)
    assert explained.explanation.verdict is Verdict.WAITING
    assert "no worker that lived did the handler 'send_email'" in headline(explained)
    assert codes(explained) == [Code.WORKER_ABSENT]


async def test_retried() -> None:
    world = ExplainingWorld()
    world.behave = lambda work: FAILED if work.attempt < 3 else OK
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job())
    await world.clock.advance(60_000)
    explained = await world.explain(job_id)
    await world.crash(scheduler)
    assert explained.explanation.verdict is Verdict.ON_TIME
    assert "The third attempt succeeded." in headline(explained)
    assert codes(explained) == [Code.RETRY, Code.RETRY]
    assert [story.attempt for story in explained.explanation.attempts] == [1, 2, 3]
    why = explained.explanation.attempts[1].why
    assert why is not None
    assert why.sentence.startswith("Attempt 1 failed: no luck, so the second was made ")


async def test_between_two_attempts() -> None:
    world = ExplainingWorld()
    world.behave = lambda work: FAILED
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job())
    await world.clock.advance(50)
    explained = await world.explain(job_id)
    await world.crash(scheduler)
    assert "Attempt 1 failed: no luck; it is tried again at " in headline(explained)
    assert explained.explanation.steps[-1].step == "due again"


async def test_dead_lettered() -> None:
    world = ExplainingWorld()
    world.behave = lambda work: REFUSED
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job())
    await world.clock.advance(1_000)
    explained = await world.explain(job_id)
    await world.crash(scheduler)
    assert headline(explained).endswith("It failed for good after one attempt: never.")
    assert codes(explained) == [Code.FAILED]


async def test_target_was_called_twice_after_a_timeout() -> None:
    world = ExplainingWorld()
    world.behave = lambda work: TIMED_OUT if work.attempt == 1 else OK
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job())
    await world.clock.advance(60_000)
    explained = await world.explain(job_id)
    await world.crash(scheduler)
    first, second = explained.explanation.attempts
    assert (first.reached, second.reached) == (Reached.UNKNOWN, Reached.YES)
    assert f"the target may have been called twice; attempt 2 holds the token {second.fence}" in headline(
        explained
    ).replace("The target", "the target")
    assert first.fence < second.fence
    assert codes(explained) == [Code.TIMEOUT]
    assert second.why is not None
    assert "the target may have done the work all the same" in second.why.sentence


async def test_run_again_after_its_worker_was_lost() -> None:
    world = ExplainingWorld()
    world.behave = lambda work: None
    first = await world.start()
    [job_id] = await world.add(first, world.job(in_ms=100))
    await world.clock.advance(2_000)
    await world.crash(first)
    world.behave = lambda work: OK
    second = await world.start()
    await world.clock.advance(90_000)
    explained = await world.explain(job_id)
    await world.crash(second)
    assert explained.explanation.verdict is Verdict.ON_TIME
    assert codes(explained) == [Code.WORKER_LOST]
    assert "The target may have been called twice" in headline(explained)


async def test_skipped_by_overlap() -> None:
    world = ExplainingWorld()
    world.behave = lambda work: None
    scheduler = await world.start()
    due_ms = world.next_minute_ms()
    [job_id] = await world.add(scheduler, world.job(cron="* * * * *", first_ms=due_ms, overlap=Overlap.SKIP))
    await world.clock.advance(due_ms + MINUTE_MS + 5_000 - world.clock.now_ms())
    explained = await world.explain(job_id, due_ms + MINUTE_MS)
    await world.crash(scheduler)
    assert explained.explanation.verdict is Verdict.SKIPPED
    assert headline(explained).startswith("Did not run: the job's run of ")
    assert headline(explained).endswith("is still not over, and its overlap policy is `skip`.")
    assert codes(explained) == [Code.OVERLAP]


async def test_late_by_overlap() -> None:
    world = ExplainingWorld()
    takes(world, 90_000)
    scheduler = await world.start()
    due_ms = world.next_minute_ms()
    new = world.job(cron="* * * * *", first_ms=due_ms, overlap=Overlap.BUFFER_ONE)
    [job_id] = await world.add(scheduler, new)
    await world.clock.advance(due_ms + 80_000 - world.clock.now_ms())
    world.behave = lambda work: OK
    await world.clock.advance(20_000)
    explained = await world.explain(job_id, due_ms + MINUTE_MS)
    await world.crash(scheduler)
    assert headline(explained).startswith("Ran 3")
    assert codes(explained) == [Code.OVERLAP]


async def test_skipped_by_catch_up() -> None:
    world = ExplainingWorld()
    first = await world.start()
    due_ms = world.next_minute_ms()
    [job_id] = await world.add(first, world.job(cron="* * * * *", first_ms=due_ms, catch_up=CatchUp.SKIP))
    await world.clock.advance(1_000)
    await world.crash(first)
    await world.clock.advance(due_ms + 10 * MINUTE_MS + 30_000 - world.clock.now_ms())
    second = await world.start()
    await world.clock.advance(10_000)
    explained = await world.explain(job_id, due_ms + MINUTE_MS)
    await world.crash(second)
    assert explained.explanation.verdict is Verdict.SKIPPED
    assert "it was missed, noticed 9 min 30 s after its instant" in headline(explained)
    assert codes(explained) == [Code.CATCH_UP, Code.NOT_RUNNING]


async def test_one_run_stood_for_all_that_were_missed() -> None:
    world = ExplainingWorld()
    first = await world.start()
    due_ms = world.next_minute_ms()
    [job_id] = await world.add(first, world.job(cron="* * * * *", first_ms=due_ms))
    await world.clock.advance(1_000)
    await world.crash(first)
    await world.clock.advance(due_ms + 10 * MINUTE_MS + 30_000 - world.clock.now_ms())
    second = await world.start()
    await world.clock.advance(10_000)
    stood = await world.explain(job_id, due_ms + 2 * MINUTE_MS)
    ran = await world.explain(job_id, due_ms)
    await world.crash(second)
    assert stood.explanation.verdict is Verdict.NO_RUN
    assert codes(stood) == [Code.CATCH_UP]
    assert "`fire_once` runs once for all that were missed" in headline(stood)
    assert headline(ran).startswith("Ran 10 min 30 s late: no server was running from ")


async def test_skipped_by_a_pause() -> None:
    world = ExplainingWorld()
    scheduler = await world.start()
    due_ms = world.next_minute_ms()
    [job_id] = await world.add(scheduler, world.job(cron="* * * * *", first_ms=due_ms, catch_up=CatchUp.SKIP))
    await world.clock.advance(1_000)
    await world.jobs.pause("default", job_id, act=ACT)
    paused_ms = world.clock.now_ms()
    await world.clock.advance(due_ms + 5 * MINUTE_MS + 1_000 - paused_ms)
    during = await world.explain(job_id, due_ms)
    await world.jobs.resume("default", job_id, act=replace(ACT, action="job.resume"))
    after = await world.explain(job_id, due_ms)
    await world.crash(scheduler)
    assert codes(during) == [Code.PAUSED]
    assert during.explanation.causes[0].from_ms == paused_ms
    assert after.explanation.verdict is Verdict.SKIPPED
    assert codes(after) == [Code.PAUSED]


async def test_one_off_waits_while_its_job_is_paused() -> None:
    world = ExplainingWorld()
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job(in_ms=5_000))
    await world.jobs.pause("default", job_id, act=ACT)
    await world.clock.advance(60_000)
    held = await world.explain(job_id)
    await world.jobs.resume("default", job_id, act=replace(ACT, action="job.resume"))
    await world.clock.advance(5_000)
    ran = await world.explain(job_id)
    await world.crash(scheduler)
    assert held.explanation.verdict is Verdict.PAUSED
    assert headline(held).startswith("Does not run: its job is paused since ")
    assert ran.explanation.verdict is Verdict.LATE
    assert codes(ran) == [Code.PAUSED]


async def test_cancelled_before_it_was_due() -> None:
    world = ExplainingWorld()
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job(in_ms=60_000))
    await world.clock.advance(20_000)
    await world.jobs.cancel("default", job_id)
    explained = await world.explain(job_id)
    await world.crash(scheduler)
    assert explained.explanation.verdict is Verdict.CANCELLED
    assert headline(explained).endswith("40 s before it was due.")
    assert codes(explained) == [Code.CANCELLED]


async def test_too_late_for_its_deadline() -> None:
    world = ExplainingWorld()
    first = await world.start()
    [job_id] = await world.add(first, world.job(in_ms=45_000, deadline_ms=10_000))
    await world.clock.advance(25_000)
    await world.crash(first)
    await world.clock.advance(60_000)
    second = await world.start()
    await world.clock.advance(5_000)
    explained = await world.explain(job_id)
    await world.crash(second)
    assert explained.explanation.verdict is Verdict.SKIPPED
    assert "its deadline lets it begin within 10 s only" in headline(explained)
    assert codes(explained) == [Code.DEADLINE, Code.NOT_RUNNING]


async def test_created_after_its_instant() -> None:
    world = ExplainingWorld()
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job(in_ms=-30_000))
    await world.clock.advance(2_000)
    explained = await world.explain(job_id)
    await world.crash(scheduler)
    assert headline(explained).startswith("Ran 30 s late: it was created 30 s after its instant.")
    assert codes(explained) == [Code.CREATED_LATE]


async def test_foreign_runs_are_not_found() -> None:
    world = ExplainingWorld()
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, world.job())
    await world.clock.advance(1_000)
    for ask in (
        world.explanations.of_run("other", job_id, 0),
        world.explanations.of_instant("other", job_id, None),
    ):
        with pytest.raises(NotFound):
            await ask
    await world.crash(scheduler)


def berlin(world: ExplainingWorld, cron: str, first: str) -> NewJob:
    new = world.job(cron=cron, first_ms=parse_instant(first))
    return replace(new, job=replace(new.job, spec=replace(new.job.spec, timezone="Europe/Berlin")))


async def test_time_that_the_clock_leapt_over() -> None:
    world = ExplainingWorld(clock=VirtualClock(start_ms=parse_instant("2026-03-29T00:59:30Z")))
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, berlin(world, "30 2 * * *", "2026-03-29T01:00:00Z"))
    await world.clock.advance(60_000)
    explained = await world.explanations.of_instant("default", job_id, "2026-03-29T02:30:00")
    await world.crash(scheduler)
    assert explained.explanation.verdict is Verdict.NO_RUN
    assert "so 2026-03-29 02:30:00 never comes; what was due in the gap runs once" in headline(explained)
    assert codes(explained)[0] is Code.CLOCK_CHANGE
    assert explained.others_ms == (parse_instant("2026-03-29T01:00:00Z"),)


async def test_time_that_came_twice() -> None:
    world = ExplainingWorld(clock=VirtualClock(start_ms=parse_instant("2026-10-25T00:29:30Z")))
    scheduler = await world.start()
    [job_id] = await world.add(scheduler, berlin(world, "30 2 * * *", "2026-10-25T00:30:00Z"))
    await world.clock.advance(60_000)
    explained = await world.explanations.of_instant("default", job_id, "2026-10-25T02:30")
    second = await world.explanations.of_instant("default", job_id, "2026-10-25T02:30:00+01:00")
    await world.crash(scheduler)
    assert explained.explanation.verdict is Verdict.ON_TIME
    assert explained.scheduled_ms == parse_instant("2026-10-25T00:30:00Z")
    assert explained.others_ms == (parse_instant("2026-10-25T01:30:00Z"),)
    assert "in the first pass only" in headline(second)
    assert codes(second) == [Code.CLOCK_CHANGE, Code.NOT_IN_SCHEDULE]


async def test_instants_that_have_no_run() -> None:
    world = ExplainingWorld(clock=VirtualClock(start_ms=parse_instant("2026-10-04T08:59:30Z")))
    scheduler = await world.start()
    new = world.job(cron="0 9 * * *", first_ms=parse_instant("2026-10-04T09:00:00Z"))
    spec = replace(new.job.spec, end_ms=parse_instant("2026-10-10T00:00:00Z"))
    [job_id] = await world.add(scheduler, replace(new, job=replace(new.job, spec=spec)))
    await world.clock.advance(60_000)
    told = {
        at: await world.explanations.of_instant("default", job_id, at)
        for at in ("2026-10-04T08:00:00Z", "2026-10-03T09:00:00Z", "2026-10-06T09:00", "2026-10-12T09:00")
    }
    with pytest.raises(
        InvalidRequest, match=r"at: expected an RFC 3339 instant .*; or give a time of the job's zone"
    ):
        await world.explanations.of_instant("default", job_id, "yesterday")
    await world.crash(scheduler)
    outside, before, future, after = told.values()
    assert codes(outside) == [Code.NOT_IN_SCHEDULE]
    assert outside.explanation.before_ms == parse_instant("2026-10-03T09:00:00Z")
    assert outside.explanation.after_ms == parse_instant("2026-10-04T09:00:00Z")
    assert codes(before) == [Code.BEFORE_VERSION]
    assert codes(future) == [Code.FUTURE]
    assert codes(after) == [Code.AFTER_END]
