"""Limits of concurrency: slots are taken by the claim, and given back by whatever ends the run."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import ClaimVerdict, CompletionCause
from tickwheel.domain.concurrency import Limit, Scope
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.ports.audit import Audited
from tickwheel.ports.store import Change, JobView, NewJob

from .arena import CRON_SPEC, SPEC, Arena
from .decisions import cancel, cancel_run, pause, redrive, resume
from .owner import LEASE_MS, REAPED, Held, Owner

KEY = Limit(1, key="k")
PERIOD_MS = 60_000


def limited(arena: Arena, *limits: Limit, **fields: Any) -> NewJob:
    return arena.one_off(spec=replace(SPEC, concurrency=limits or (KEY,)), **fields)


async def astray(arena: Arena) -> int:
    return await cast(Audited, arena.store).audit_slots()


async def is_free(arena: Arena, owner: Owner, *limits: Limit) -> bool:
    """Whether a run with these limits may start now; one that may is ended at once."""
    probe = limited(arena, *limits)
    await arena.insert(probe)
    held = await owner.claim(probe)
    if held.won:
        assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    else:
        assert held.verdict is ClaimVerdict.LIMITED
    return held.won


@pytest.mark.parametrize("own", [(), (Limit(5, Scope.TENANT),)])
async def test_a_limit_of_the_tenant_holds_whatever_its_jobs_say(
    arena: Arena, owner: Owner, own: tuple[Limit, ...]
) -> None:
    spec = replace(SPEC, concurrency=own)
    jobs = [arena.one_off(spec=spec, shard=shard) for shard in (3, 4, 5)]
    other = arena.one_off(tenant_id="other", shard=6)
    await arena.insert(*jobs, other)
    rows = [owner.claim_row(new, tenant_limit=2) for new in (*jobs, other)]
    answers = await owner.claim_rows(*rows)
    assert sum(answer.won for answer in answers[:3]) == 2
    assert answers[3].won
    [waits] = [new for new, answer in zip(jobs, answers, strict=False) if not answer.won]
    [first, _] = [answer for answer in answers[:3] if answer.won]
    assert (await owner.complete(first, RunState.SUCCEEDED)).applied
    [again] = await owner.claim_rows(owner.claim_row(waits, tenant_limit=2))
    assert again.won
    late = arena.one_off(spec=spec, shard=8)
    await arena.insert(late)
    [at_limit] = await owner.claim_rows(owner.claim_row(late, tenant_limit=2))
    assert at_limit.verdict is ClaimVerdict.LIMITED
    [raised] = await owner.claim_rows(owner.claim_row(late, tenant_limit=3))
    assert raised.won
    assert await astray(arena) == 0


async def test_no_more_run_than_the_limit_says(arena: Arena, owner: Owner) -> None:
    jobs = [limited(arena, Limit(2, key="k"), shard=shard) for shard in (3, 4, 5, 6)]
    await arena.insert(*jobs)
    answers = await owner.claim_rows(*(owner.claim_row(new) for new in jobs))
    verdicts = [answer.verdict for answer in answers]
    assert sorted(verdicts) == sorted([ClaimVerdict.WON] * 2 + [ClaimVerdict.LIMITED] * 2)
    waiting = [new for new, answer in zip(jobs, answers, strict=True) if not answer.won]
    assert (await owner.claim(waiting[0])).verdict is ClaimVerdict.LIMITED
    keys = [(new.job.job_id, arena.now_ms) for new in waiting]
    assert list(await arena.store.find_runs(keys)) == [None, None]
    assert len(await arena.timers(*waiting)) == 2, "their timers stay as they were"
    won = next(answer for answer in answers if answer.won)
    assert (await owner.complete(won, RunState.SUCCEEDED)).applied
    assert (await owner.claim(waiting[0])).won
    assert (await owner.claim(waiting[1])).verdict is ClaimVerdict.LIMITED
    assert await astray(arena) == 0


async def test_runs_without_limits_are_not_counted_and_do_not_wait(arena: Arena, owner: Owner) -> None:
    first, free = limited(arena), arena.one_off()
    await arena.insert(first, free)
    await owner.win(first)
    assert (await owner.claim(free)).won
    assert await is_free(arena, owner, Limit(1, scope=Scope.TENANT))


async def test_what_is_counted_is_told_apart_by_scope_key_name_and_tenant(arena: Arena, owner: Owner) -> None:
    first = limited(arena, KEY, Limit(1, Scope.JOB_NAME), Limit(1, Scope.TENANT), name="k")
    await arena.insert(first)
    held = await owner.win(first)
    assert not await is_free(arena, owner, KEY)
    assert not await is_free(arena, owner, Limit(1, Scope.TENANT))
    assert await is_free(arena, owner, Limit(1, key="other"))
    assert await is_free(arena, owner, Limit(1, Scope.JOB_NAME)), "a job of another name"
    same_name = limited(arena, Limit(1, Scope.JOB_NAME), name="k")
    other_tenant = limited(arena, KEY, Limit(1, Scope.TENANT), tenant_id="other")
    await arena.insert(same_name, other_tenant)
    assert (await owner.claim(same_name)).verdict is ClaimVerdict.LIMITED
    assert (await owner.claim(other_tenant)).won
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert (await owner.claim(same_name)).won


async def test_each_job_keeps_its_own_limit(arena: Arena, owner: Owner) -> None:
    jobs = [limited(arena, Limit(most, key="k")) for most in (5, 5, 2, 3)]
    await arena.insert(*jobs)
    answers = [(await owner.claim(new)).verdict for new in jobs]
    assert answers == [ClaimVerdict.WON, ClaimVerdict.WON, ClaimVerdict.LIMITED, ClaimVerdict.WON]


async def test_all_limits_have_to_hold_and_none_is_taken_alone(arena: Arena, owner: Owner) -> None:
    first, second = limited(arena), limited(arena, KEY, Limit(1, key="free"))
    await arena.insert(first, second)
    held = await owner.win(first)
    assert (await owner.claim(second)).verdict is ClaimVerdict.LIMITED
    assert await is_free(arena, owner, Limit(1, key="free"))
    await owner.complete(held, RunState.SUCCEEDED)
    assert (await owner.claim(second)).won
    assert not await is_free(arena, owner, Limit(1, key="free"))


End = Callable[[Arena, Owner, Held, NewJob], Awaitable[None]]


async def _succeed(arena: Arena, owner: Owner, held: Held, new: NewJob) -> None:
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied


async def _succeed_late(arena: Arena, owner: Owner, held: Held, new: NewJob) -> None:
    began_ms = arena.now_ms
    assert await owner.renew(held, mark_running=1)
    arena.clock.step_ms(20_000)
    assert (await owner.complete(held, RunState.SUCCEEDED, started_ms=began_ms)).applied


async def _fail(arena: Arena, owner: Owner, held: Held, new: NewJob) -> None:
    assert (await owner.complete(held, RunState.FAILED, outcome=OutcomeClass.PERMANENT)).applied


async def _retry(arena: Arena, owner: Owner, held: Held, new: NewJob) -> None:
    await owner.retry_later(held, 5_000)


async def _hand_back(arena: Arena, owner: Owner, held: Held, new: NewJob) -> None:
    await owner.retry_later(held, cause=CompletionCause.UNSTARTED, outcome=OutcomeClass.UNSTARTED)


async def _reap(arena: Arena, owner: Owner, held: Held, new: NewJob) -> None:
    arena.clock.step_ms(LEASE_MS + 1)
    await owner.retry_later(held, **REAPED)


async def _cancel(arena: Arena, owner: Owner, held: Held, new: NewJob) -> None:
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, cancel)


ENDS = [_succeed, _succeed_late, _fail, _retry, _hand_back, _reap, _cancel]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__[1:])
async def test_every_end_of_an_attempt_frees_its_slot(arena: Arena, owner: Owner, end: End) -> None:
    await arena.insert(new := limited(arena))
    held = await owner.win(new)
    assert not await is_free(arena, owner)
    await end(arena, owner, held, new)
    assert await is_free(arena, owner)
    assert await astray(arena) == 0


async def test_a_late_end_frees_nothing_that_another_attempt_holds(arena: Arena, owner: Owner) -> None:
    await arena.insert(new := limited(arena))
    first = await owner.win(new)
    arena.clock.step_ms(LEASE_MS + 1)
    waiting = await owner.retry_later(first, **REAPED)
    await owner.win(new, waiting)
    assert not (await owner.complete(first, RunState.SUCCEEDED)).applied
    assert not await is_free(arena, owner)


async def test_a_retry_waits_for_a_slot_like_any_other(arena: Arena, owner: Owner) -> None:
    new, other = limited(arena), limited(arena)
    await arena.insert(new, other)
    waiting = await owner.retry_later(await owner.win(new), 1_000)
    beside = await owner.win(other)
    arena.clock.step_ms(1_000)
    assert (await owner.claim(new, waiting)).verdict is ClaimVerdict.LIMITED
    run = await arena.run(new)
    assert (run.state, run.gen) == (RunState.SCHEDULED, 1), "nothing was written"
    await owner.complete(beside, RunState.SUCCEEDED)
    assert (await owner.claim(new, waiting)).won
    assert not await is_free(arena, owner)


async def test_a_redriven_run_takes_a_slot_again(arena: Arena, owner: Owner) -> None:
    await arena.insert(new := limited(arena))
    await owner.complete(await owner.win(new), RunState.FAILED, outcome=OutcomeClass.PERMANENT)
    changed = await arena.store.change_run(new.job.tenant_id, new.job.job_id, arena.now_ms, redrive)
    assert changed is not None
    [timer] = changed.timers
    assert await is_free(arena, owner)
    await owner.win(new, timer)
    assert not await is_free(arena, owner)


async def test_the_same_claim_again_takes_no_second_slot(arena: Arena, owner: Owner) -> None:
    two = Limit(2, key="k")
    await arena.insert(new := limited(arena, two))
    held = await owner.win(new)
    assert (await owner.claim(new, fence=held.fence)).won, "its first answer was lost"
    assert await is_free(arena, owner, two)


async def test_a_queued_run_holds_its_slot_from_its_claim_on(arena: Arena, owner: Owner) -> None:
    await arena.insert(new := limited(arena))
    held = await owner.queue(new)
    assert not await is_free(arena, owner)
    await _cancel(arena, owner, held, new)
    assert await is_free(arena, owner)


async def test_a_recurring_job_at_its_limit_waits_with_its_chain(arena: Arena, owner: Owner) -> None:
    new, first = arena.recurring(spec=replace(CRON_SPEC, concurrency=(KEY,))), limited(arena)
    await arena.insert(new, first)
    held = await owner.win(first)
    next_ms = arena.now_ms + PERIOD_MS
    assert (await owner.claim(new, next_ms=next_ms)).verdict is ClaimVerdict.LIMITED
    assert [timer.due_ms for timer in await arena.timers(new)] == [arena.now_ms]
    await owner.complete(held, RunState.SUCCEEDED)
    assert (await owner.claim(new, next_ms=next_ms)).won
    live = (await arena.view(new)).live
    assert live is not None
    assert live.due_ms == next_ms


async def test_only_so_many_wait_and_the_rest_is_skipped(arena: Arena, owner: Owner) -> None:
    bounded = Limit(1, key="k", max_waiting=1)
    jobs = [limited(arena, bounded) for _ in range(4)]
    await arena.insert(*jobs)
    held = await owner.win(jobs[0])
    waits = await owner.claim(jobs[1])
    assert waits.verdict is ClaimVerdict.BUFFERED
    verdicts = [(await owner.claim(new)).verdict for new in jobs[2:]]
    assert verdicts == [ClaimVerdict.SKIPPED] * 2
    refused = await arena.run(jobs[2])
    assert (refused.state, refused.skip_reason) == (RunState.SKIPPED, SkipReason.LIMIT)
    arena.clock.step_ms(waits.lease_ms - arena.now_ms)
    [timer] = await arena.timers(jobs[1])
    assert (await owner.claim(jobs[1], timer)).verdict is ClaimVerdict.LIMITED
    await owner.complete(held, RunState.SUCCEEDED)
    second = await owner.win(jobs[1], timer)
    await arena.insert(late := limited(arena, bounded))
    assert (await owner.claim(late)).verdict is ClaimVerdict.BUFFERED, "nobody waits any more"
    await owner.complete(second, RunState.SUCCEEDED)
    assert await astray(arena) == 0


async def test_with_none_to_wait_a_run_is_skipped_at_once(arena: Arena, owner: Owner) -> None:
    jobs = [limited(arena, Limit(1, key="k", max_waiting=0)) for _ in range(2)]
    await arena.insert(*jobs)
    answers = await owner.claim_rows(*(owner.claim_row(new) for new in jobs))
    assert sorted(answer.verdict for answer in answers) == [ClaimVerdict.WON, ClaimVerdict.SKIPPED]


async def test_of_a_batch_as_many_wait_as_may(arena: Arena, owner: Owner) -> None:
    jobs = [limited(arena, Limit(1, key="k", max_waiting=2)) for _ in range(5)]
    await arena.insert(*jobs)
    answers = await owner.claim_rows(*(owner.claim_row(new) for new in jobs))
    wanted = [ClaimVerdict.WON] + [ClaimVerdict.BUFFERED] * 2 + [ClaimVerdict.SKIPPED] * 2
    assert sorted(answer.verdict for answer in answers) == sorted(wanted)


@pytest.mark.parametrize("how", ["cancel", "cancel its run"])
async def test_a_run_that_waits_no_more_makes_room(arena: Arena, owner: Owner, how: str) -> None:
    bounded = Limit(1, key="k", max_waiting=1)
    jobs = [limited(arena, bounded) for _ in range(3)]
    await arena.insert(*jobs)
    held = await owner.win(jobs[0])
    assert (await owner.claim(jobs[1])).verdict is ClaimVerdict.BUFFERED
    job = jobs[1].job
    if how == "cancel":
        await arena.store.change_job(job.tenant_id, job.job_id, cancel)
    else:
        await arena.store.change_run(job.tenant_id, job.job_id, arena.now_ms, cancel_run)
    assert (await owner.claim(jobs[2])).verdict is ClaimVerdict.BUFFERED
    await owner.complete(held, RunState.SUCCEEDED)
    assert await astray(arena) == 0


async def test_a_paused_run_does_not_count_as_waiting(arena: Arena, owner: Owner) -> None:
    first, new = limited(arena), limited(arena)
    await arena.insert(first, new)
    await owner.win(first)
    key = new.job.tenant_id, new.job.job_id
    assert (await owner.claim(new)).verdict is ClaimVerdict.LIMITED
    await arena.store.change_job(*key, pause)
    changed = await arena.store.change_job(*key, resume(arena.now_ms))
    assert changed is not None
    assert (await owner.claim(new, changed.timers[0])).verdict is ClaimVerdict.LIMITED
    assert await astray(arena) == 0


async def test_an_edit_of_the_limits_counts_from_the_next_start_on(arena: Arena, owner: Owner) -> None:
    new, other = limited(arena), limited(arena)
    await arena.insert(new, other)
    waiting = await owner.retry_later(await owner.win(new))
    await owner.win(other)

    def lift(view: JobView, now_ms: int) -> Change:
        spec = replace(view.job.spec, concurrency=(Limit(1, key="another"),))
        return Change(job=replace(view.job, spec=spec, version=view.job.version + 1))

    assert (await owner.claim(new, waiting)).verdict is ClaimVerdict.LIMITED
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, lift)
    await owner.win(new, waiting)
    assert not await is_free(arena, owner, Limit(1, key="another"))
    assert await astray(arena) == 0


async def test_a_run_that_waited_and_starts_without_limits_waits_no_more(arena: Arena, owner: Owner) -> None:
    bounded = Limit(1, key="k", max_waiting=1)
    jobs = [limited(arena, bounded) for _ in range(3)]
    await arena.insert(*jobs)
    held, new = await owner.win(jobs[0]), jobs[1]
    waits = await owner.claim(new)
    assert waits.verdict is ClaimVerdict.BUFFERED

    def lift(view: JobView, now_ms: int) -> Change:
        spec = replace(view.job.spec, concurrency=())
        return Change(job=replace(view.job, spec=spec, version=view.job.version + 1))

    await arena.store.change_job(new.job.tenant_id, new.job.job_id, lift)
    arena.clock.step_ms(waits.lease_ms - arena.now_ms)
    [timer] = await arena.timers(new)
    free = await owner.win(new, timer, limited=0)
    assert await astray(arena) == 0
    assert (await owner.claim(jobs[2])).verdict is ClaimVerdict.BUFFERED, "nobody waits any more"
    await owner.complete(free, RunState.SUCCEEDED)
    await owner.complete(held, RunState.SUCCEEDED)
    assert await astray(arena) == 0


async def test_a_retry_takes_its_turn_again_under_the_limit_of_the_tenant(arena: Arena, owner: Owner) -> None:
    first, second = (arena.one_off(shard=shard) for shard in (3, 4))
    await arena.insert(first, second)
    [held] = await owner.claim_rows(owner.claim_row(first, tenant_limit=1))
    retry = await owner.retry_later(held)
    [other] = await owner.claim_rows(owner.claim_row(second, tenant_limit=1))
    assert other.won
    [again] = await owner.claim_rows(owner.claim_row(first, retry, tenant_limit=1))
    assert again.verdict is ClaimVerdict.LIMITED
    assert (await owner.complete(other, RunState.SUCCEEDED)).applied
    [again] = await owner.claim_rows(owner.claim_row(first, retry, tenant_limit=1))
    assert again.won
    assert (await owner.complete(again, RunState.SUCCEEDED)).applied
    assert not await astray(arena)


async def test_a_limit_of_the_tenant_that_is_lifted_holds_nobody(arena: Arena, owner: Owner) -> None:
    jobs = [arena.one_off(shard=shard) for shard in (3, 4, 5)]
    await arena.insert(*jobs)
    [first, second, _] = await owner.claim_rows(*(owner.claim_row(new, tenant_limit=1) for new in jobs))
    assert [first.won, second.won].count(True) <= 1
    answers = await owner.claim_rows(*(owner.claim_row(new) for new in jobs))
    assert sum(answer.won for answer in answers) == 2
