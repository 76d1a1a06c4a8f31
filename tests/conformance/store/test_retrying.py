from typing import Any

import pytest

from tickwheel.domain.columns import FLAG_LANE_MASK, ClaimVerdict, CompletionCause
from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.store import FirstTimer, NewJob

from .arena import Arena
from .decisions import redrive
from .owner import LEASE_MS, REAPED, Held, Owner

UNSTARTED: dict[str, Any] = {"cause": CompletionCause.UNSTARTED, "outcome": OutcomeClass.UNSTARTED}
FREE_RETURNS = 20


async def inserted(arena: Arena) -> NewJob:
    new = arena.one_off()
    await arena.insert(new)
    return new


async def test_a_retry_replaces_the_timer_and_raises_gen(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    timer = new.timer
    for gen in (1, 2, 3):
        held = await owner.win(new, timer)
        assert held.attempt == gen
        due_ms = arena.now_ms + 700
        timer = await owner.retry_later(held, 700)
        assert timer == FirstTimer(due_ms, arena.now_ms - (gen - 1) * 700, -gen)
        run = await arena.run(new)
        assert (run.state, run.gen, run.attempt, run.retry_ms) == (RunState.SCHEDULED, gen, gen, due_ms)
        assert (run.fence, run.worker, run.lease_ms) == (held.fence, None, None)
        assert await arena.timers() == [timer]
        arena.clock.step_ms(700)


@pytest.mark.pitfall(79)
@pytest.mark.parametrize("begun", [False, True])
async def test_a_run_that_is_handed_back_keeps_a_record_of_what_had_begun(
    arena: Arena, owner: Owner, begun: bool
) -> None:
    new = await inserted(arena)
    held = await owner.win(new)
    if begun:
        await owner.renew(held, mark_running=1)
    await owner.retry_later(held, **UNSTARTED)
    run = await arena.run(new)
    assert run.attempt == 0, "it uses no attempt up"
    assert [(a.attempt, a.fence, a.outcome) for a in run.attempts] == [(1, held.fence, "unstarted")] * begun


async def test_an_older_timer_never_starts_a_row_that_waits_for_another(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    second = await owner.retry_later(await owner.win(new))
    third = await owner.retry_later(await owner.win(new, second))
    for old in (new.timer, second):
        assert (await owner.claim(new, old)).verdict is ClaimVerdict.RESOLVED
    assert (await arena.run(new)).state is RunState.SCHEDULED
    assert await arena.timers() == [third]
    assert (await owner.win(new, third)).attempt == 3


async def test_an_older_timer_is_resolved_while_a_later_attempt_is_in_flight(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    second = await owner.retry_later(await owner.win(new))
    held = await owner.win(new, second)
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    again = await owner.claim(new, second)
    assert (again.verdict, again.fence) == (ClaimVerdict.IN_FLIGHT, held.fence)


async def test_an_old_timer_does_not_fire_a_redriven_run_without_its_wait(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    second = await owner.retry_later(await owner.win(new))
    await owner.complete(await owner.win(new, second), RunState.FAILED)
    changed = await arena.store.change_run(new.job.tenant_id, new.job.job_id, arena.now_ms, redrive)
    assert changed is not None
    held = await owner.win(new, changed.timers[0])
    assert held.attempt == 1
    await owner.retry_later(held, 60_000)
    assert (await owner.claim(new, second)).verdict is ClaimVerdict.RESOLVED
    assert (await arena.run(new)).attempt == 1


async def test_a_token_that_is_not_higher_starts_nothing_and_resolves_nothing(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    held = await owner.win(new)
    follow_up = await owner.retry_later(held)
    for fence in (held.fence, held.fence - 1):
        answer = await owner.claim(new, follow_up, fence=fence)
        assert answer.verdict is ClaimVerdict.UNRESOLVED
    assert (await arena.run(new)).state is RunState.SCHEDULED
    assert await arena.timers() == [follow_up]
    assert (await owner.win(new, follow_up)).fence > held.fence


@pytest.mark.parametrize("lane", list(Lane))
async def test_the_follow_up_keeps_lane_and_kind_also_when_a_reaper_sends_none(
    arena: Arena, owner: Owner, lane: Lane
) -> None:
    new = arena.recurring(lane=lane)
    await arena.insert(new)
    held = await owner.win(new, next_ms=arena.now_ms + 600_000)
    arena.clock.step_ms(LEASE_MS)
    assert new.timer is not None
    blank = Held(held.job_id, FirstTimer(-1, new.timer.scheduled_ms, 0), 0, *_answer(held))
    follow_up = await owner.retry_later(blank, 5, **REAPED)
    rows = await arena.store.load_timers(follow_up.due_ms, follow_up.due_ms + 1, 10)
    assert rows["flags"].tolist() == [new.job.timer_flags]
    assert rows["flags"][0] & FLAG_LANE_MASK == lane
    assert (follow_up.scheduled_ms, follow_up.gen) == (new.timer.scheduled_ms, -1)


def _answer(held: Held) -> tuple[ClaimVerdict, int, int, int, int, int]:
    return held.verdict, held.attempt, held.lost_count, held.version, held.fence, held.lease_ms


async def test_workers_lost_in_a_row_are_kept_for_the_next_claim(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    held = await owner.win(new)
    arena.clock.step_ms(LEASE_MS)
    follow_up = await owner.retry_later(held, lost_count=1, **REAPED)
    second = await owner.win(new, follow_up)
    assert (second.attempt, second.lost_count) == (2, 1)
    follow_up = await owner.retry_later(second, lost_count=0)
    assert (await owner.win(new, follow_up)).lost_count == 0


async def test_an_attempt_that_never_began_is_not_used_up(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    held = await owner.win(new)
    follow_up = await owner.retry_later(held, **UNSTARTED)
    run = await arena.run(new)
    assert (run.attempt, run.fence, run.gen) == (0, held.fence, 1), "only claims draw tokens"
    assert run.attempts == ()
    assert (await owner.win(new, follow_up)).attempt == 1


async def test_a_snoozed_attempt_is_not_used_up(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    held = await owner.win(new)
    follow_up = await owner.retry_later(held, 90_000, cause=CompletionCause.UNSTARTED, outcome=OutcomeClass.SNOOZE)
    arena.clock.step_ms(90_000)
    assert (await owner.win(new, follow_up)).attempt == 1


async def test_snoozing_on_and_on_never_uses_an_attempt_up(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    timer = new.timer
    for _ in range(FREE_RETURNS + 5):
        held = await owner.win(new, timer, max_attempts=2)
        assert held.attempt == 1
        await owner.renew(held, mark_running=1)
        timer = await owner.retry_later(held, cause=CompletionCause.UNSTARTED, outcome=OutcomeClass.SNOOZE)
    assert (await arena.run(new)).attempt == 0


async def test_after_twenty_free_returns_each_return_uses_an_attempt_up(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    timer = new.timer
    for _ in range(FREE_RETURNS):
        held = await owner.win(new, timer)
        assert held.attempt == 1
        timer = await owner.retry_later(held, **UNSTARTED)
    for attempt in (1, 2):
        held = await owner.win(new, timer)
        assert held.attempt == attempt
        timer = await owner.retry_later(held, **UNSTARTED)


async def test_a_started_attempt_that_is_lost_is_used_up(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    held = await owner.win(new, max_attempts=2)
    arena.clock.step_ms(LEASE_MS)
    await owner.retry_later(held, **REAPED)
    assert (await arena.run(new)).attempt == 1


@pytest.mark.parametrize("max_attempts", [1, 2])
async def test_the_last_attempt_counts_only_once_running_is_written(
    arena: Arena, owner: Owner, max_attempts: int
) -> None:
    new = await inserted(arena)
    timer = new.timer
    if max_attempts == 2:
        timer = await owner.retry_later(await owner.win(new, max_attempts=2))
    held = await owner.win(new, timer, max_attempts=max_attempts)
    run = await arena.run(new)
    assert (held.attempt, run.attempt, run.state) == (max_attempts, max_attempts - 1, RunState.DISPATCHED)
    assert await owner.renew(held, mark_running=1)
    run = await arena.run(new)
    assert (run.attempt, run.state) == (max_attempts, RunState.RUNNING)
    assert await owner.renew(held, mark_running=1)
    assert (await arena.run(new)).attempt == max_attempts


async def test_a_last_attempt_lost_before_it_ran_goes_back_unused(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    held = await owner.win(new, max_attempts=1)
    arena.clock.step_ms(LEASE_MS)
    follow_up = await owner.retry_later(held, attempt=0, **REAPED)
    assert (await arena.run(new)).attempt == 0
    assert (await owner.win(new, follow_up, max_attempts=1)).attempt == 1


async def test_a_last_attempt_lost_while_it_ran_is_used_up(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    held = await owner.win(new, max_attempts=1)
    await owner.renew(held, mark_running=1)
    arena.clock.step_ms(LEASE_MS)
    [seen] = await arena.store.expired(arena.now_ms, 10)
    assert (seen.attempt, seen.state) == (1, RunState.RUNNING)
    assert (await owner.complete(held, RunState.FAILED, lost_count=1, **REAPED)).applied
    run = await arena.run(new)
    assert (run.state, run.attempt) == (RunState.FAILED, 1)


async def test_a_last_attempt_lost_over_and_over_before_it_ran_ends_dead(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    timer = new.timer
    for _ in range(FREE_RETURNS):
        held = await owner.win(new, timer, max_attempts=1)
        assert held.attempt == 1
        arena.clock.step_ms(LEASE_MS)
        timer = await owner.retry_later(held, attempt=0, **REAPED)
    held = await owner.win(new, timer, max_attempts=1)
    arena.clock.step_ms(LEASE_MS)
    ended = await owner.complete(held, RunState.SCHEDULED, attempt=0, **REAPED)
    assert (ended.applied, ended.follow_up) == (True, None)
    run = await arena.run(new)
    assert (run.state, run.attempt) == (RunState.FAILED, 1)
    assert len((await arena.store.list_dead(new.job.tenant_id, 10, None)).items) == 1
    assert await arena.timers() == []


async def test_a_short_last_attempt_counts_when_it_reports(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    held = await owner.win(new, max_attempts=1)
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert (await arena.run(new)).attempt == 1


async def test_a_policy_that_shrank_still_makes_the_attempt_the_last(arena: Arena, owner: Owner) -> None:
    new = await inserted(arena)
    timer = await owner.retry_later(await owner.win(new))
    timer = await owner.retry_later(await owner.win(new, timer))
    held = await owner.win(new, timer, max_attempts=1)
    assert held.attempt == 3
    assert (await arena.run(new)).attempt == 2
