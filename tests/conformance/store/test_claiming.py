import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import ClaimAction, ClaimVerdict
from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.ports.store import Change

from .arena import Arena
from .decisions import cancel, delete, move_one_off, pause, resume, write
from .owner import LEASE_MS, Owner


async def test_a_won_claim_is_a_dispatched_run_under_the_new_token(arena: Arena, owner: Owner) -> None:
    new = arena.one_off(arena.now_ms - 250)
    await arena.insert(new)
    held = await owner.win(new)
    assert (held.attempt, held.lost_count, held.version) == (1, 0, 1)
    assert held.fence == held.asked_fence
    run = await arena.run(new)
    assert (run.state, run.fence, run.attempt, run.gen) == (RunState.DISPATCHED, held.fence, 1, 0)
    assert (run.worker, run.claimed_ms, run.lease_ms) == (owner.worker, arena.now_ms, arena.now_ms + LEASE_MS)
    assert (run.job_id, run.scheduled_ms, run.tenant_id) == (
        new.job.job_id,
        new.job.scheduled_ms,
        new.job.tenant_id,
    )


async def test_a_second_claim_learns_who_holds_the_run(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    first = await owner.win(new)
    second = await owner.claim(new)
    assert second.verdict is ClaimVerdict.IN_FLIGHT
    assert (second.fence, second.lease_ms) == (first.fence, arena.now_ms + LEASE_MS)
    assert (await arena.run(new)).fence == first.fence


async def test_two_claims_of_one_run_in_one_batch_start_it_once(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    answers = await owner.claim_rows(owner.claim_row(new), owner.claim_row(new))
    assert sorted(held.verdict for held in answers) == [ClaimVerdict.WON, ClaimVerdict.IN_FLIGHT]
    winner = next(held for held in answers if held.won)
    assert {held.fence for held in answers} == {winner.asked_fence}
    assert (await arena.run(new)).fence == winner.asked_fence


@pytest.mark.parametrize("max_attempts", [1, 4])
async def test_repeating_a_claim_whose_answer_was_lost_gives_the_same_answer(
    arena: Arena, owner: Owner, max_attempts: int
) -> None:
    new, waiting = arena.one_off(), arena.one_off()
    await arena.insert(new, waiting)
    follow_up = await owner.retry_later(await owner.win(waiting), lost_count=2)
    for job, timer in ((new, None), (waiting, follow_up)):
        first = await owner.win(job, timer, max_attempts=max_attempts)
        before = await arena.run(job)
        assert await owner.claim(job, timer, fence=first.fence, max_attempts=max_attempts) == first
        assert await arena.run(job) == before


async def test_answers_come_in_the_order_of_the_batch(arena: Arena, owner: Owner) -> None:
    jobs = [arena.one_off(shard=(31 * n) % 256) for n in range(30)]
    await arena.insert(*jobs)
    early = owner.claim_row(jobs[4]) | {"due_ms": arena.now_ms + 1}
    rows = [early if n == 4 else owner.claim_row(new) for n, new in enumerate(jobs)][::-1]
    answers = await owner.claim_rows(*rows)
    verdicts = [held.verdict for held in answers]
    assert verdicts.count(ClaimVerdict.WON) == 29
    assert verdicts[-5] is ClaimVerdict.NOT_DUE
    for new, held in zip(reversed(jobs), answers, strict=True):
        if held.won:
            assert (await arena.run(new)).fence == held.fence


async def test_an_empty_batch_is_answered(arena: Arena, owner: Owner) -> None:
    assert await owner.claim_rows() == []
    assert await owner.complete_rows() == ([], [])


async def test_nothing_is_claimed_early(arena: Arena, owner: Owner) -> None:
    new = arena.one_off(arena.now_ms + 1)
    await arena.insert(new)
    assert (await owner.claim(new)).verdict is ClaimVerdict.NOT_DUE
    assert (await arena.view(new)).last_run is None
    assert await arena.timers() == [new.timer]
    arena.clock.step_ms(1)
    assert (await owner.claim(new)).won


async def test_a_follow_up_is_not_claimed_early_either(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    follow_up = await owner.retry_later(await owner.win(new), 100)
    arena.clock.step_ms(99)
    assert (await owner.claim(new, follow_up)).verdict is ClaimVerdict.NOT_DUE
    arena.clock.step_ms(1)
    assert (await owner.claim(new, follow_up)).won


async def test_every_acquisition_raises_all_epochs(arena: Arena) -> None:
    first = await Owner(arena, "a").acquire()
    second = await Owner(arena, "a").acquire()
    await arena.restart()
    third = await Owner(arena, "b").acquire()
    assert len(first.epochs) == 256
    assert min(first.epochs) >= 1
    assert [b - a for a, b in zip(first.epochs, second.epochs, strict=True)] == [1] * 256
    assert [b - a for a, b in zip(second.epochs, third.epochs, strict=True)] == [1] * 256


async def test_a_deposed_owner_claims_nothing(arena: Arena, owner: Owner) -> None:
    new, waiting = arena.one_off(), arena.one_off()
    await arena.insert(new, waiting)
    follow_up = await owner.retry_later(await owner.win(waiting))
    await Owner(arena, "worker-2").acquire()
    assert (await owner.claim(new)).verdict is ClaimVerdict.DEPOSED
    assert (await owner.claim(waiting, follow_up)).verdict is ClaimVerdict.DEPOSED
    assert (await arena.view(new)).last_run is None
    assert (await arena.run(waiting)).state is RunState.SCHEDULED
    assert len(await arena.timers()) == 2


async def test_tokens_of_a_job_rise_over_attempts_and_owners(arena: Arena) -> None:
    new = arena.one_off()
    await arena.insert(new)
    fences, timer = [], new.timer
    for number in range(3):
        owner = await Owner(arena, f"worker-{number}").acquire()
        held = await owner.win(new, timer)
        fences.append(held.fence)
        timer = await owner.retry_later(held)
    assert fences == sorted(set(fences))


@pytest.mark.parametrize(
    "end", [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED], ids=lambda state: state.name
)
async def test_a_run_that_ended_is_resolved(arena: Arena, owner: Owner, end: RunState) -> None:
    new = arena.one_off()
    await arena.insert(new)
    await owner.complete(await owner.win(new), end)
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    assert (await arena.run(new)).state is end


async def test_a_claim_may_ask_for_a_skip(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.claim(new, action=ClaimAction.SKIP, reason=SkipReason.DEADLINE)
    assert held.verdict is ClaimVerdict.SKIPPED
    run = await arena.run(new)
    assert (run.state, run.skip_reason, run.attempt) == (RunState.SKIPPED, SkipReason.DEADLINE, 0)
    assert run.finished_ms == arena.now_ms
    assert await arena.timers() == []
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED


async def test_a_waiting_run_that_never_began_may_be_skipped_by_its_follow_up(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    changed = await arena.store.change_job(
        "default", new.job.job_id, write(RunState.SCHEDULED, follow_up_ms=arena.now_ms)
    )
    assert changed is not None
    held = await owner.claim(new, changed.timers[0], action=ClaimAction.SKIP, reason=SkipReason.DEADLINE)
    assert held.verdict is ClaimVerdict.SKIPPED
    run = await arena.run(new)
    assert (run.state, run.skip_reason, run.attempt) == (RunState.SKIPPED, SkipReason.DEADLINE, 0)
    assert await arena.timers() == []


async def test_a_retry_is_never_skipped(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    follow_up = await owner.retry_later(await owner.win(new))
    held = await owner.win(new, follow_up, action=ClaimAction.SKIP, reason=SkipReason.DEADLINE)
    assert held.attempt == 2


async def test_a_job_that_does_not_exist_is_resolved(arena: Arena, owner: Owner) -> None:
    ghost = arena.one_off()
    assert (await owner.claim(ghost)).verdict is ClaimVerdict.RESOLVED


async def test_a_cancelled_one_off_without_a_row_is_resolved(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    cancelled = replace(new.job, state=JobState.CANCELLED)
    await arena.store.change_job("default", new.job.job_id, lambda view, now_ms: Change(job=cancelled))
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    assert (await arena.view(new)).last_run is None


@pytest.mark.pitfall(92)
@pytest.mark.parametrize("end", [cancel, delete])
async def test_a_job_cancelled_while_nobody_worked_never_starts(arena: Arena, end: object) -> None:
    new = arena.one_off()
    await arena.insert(new)
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, end)  # type: ignore[arg-type]  # a decision
    await arena.restart()
    owner = await Owner(arena, "worker-2").acquire()
    assert await arena.timers() == []
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    assert (await arena.run(new)).state is RunState.CANCELLED


async def test_a_moved_one_off_fires_at_its_new_instant_only(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    later_ms = arena.now_ms + 500
    changed = await arena.store.change_job(new.job.tenant_id, new.job.job_id, move_one_off(later_ms))
    assert changed is not None
    [timer] = changed.timers
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    assert (await arena.run(new)).skip_reason is SkipReason.SUPERSEDED
    arena.clock.step_ms(500)
    assert (await owner.claim(new, timer)).won


async def test_a_paused_one_off_is_resolved_and_its_resume_fires_though_the_instant_is_the_same(
    arena: Arena, owner: Owner
) -> None:
    new = arena.one_off()
    await arena.insert(new)
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, pause)
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    assert (await arena.run(new)).state is RunState.PAUSED
    changed = await arena.store.change_job(new.job.tenant_id, new.job.job_id, resume(arena.now_ms))
    assert changed is not None
    [timer] = changed.timers
    assert timer.gen < 0
    assert await arena.timers() == [timer]
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED, "the first timer never starts a waiting row"
    assert (await owner.win(new, timer)).attempt == 1
