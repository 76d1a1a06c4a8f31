from typing import Any

import pytest

from tickwheel.domain.columns import ClaimVerdict, OverlapCode
from tickwheel.domain.run import IN_FLIGHT, RunState, SkipReason
from tickwheel.ports.store import FirstTimer, LedgerWrite, NewJob

from .arena import Arena
from .decisions import edit, redrive
from .owner import Held, Owner

PERIOD_MS = 60_000
RECHECK_MS = 1_000
SKIP: dict[str, Any] = {"overlap": OverlapCode.SKIP}
BUFFER: dict[str, Any] = {"overlap": OverlapCode.BUFFER_ONE}


async def claim_next(arena: Arena, owner: Owner, new: NewJob, **fields: object) -> Held:
    """Go to the live occurrence's instant and claim it."""
    live = (await arena.view(new)).live
    assert live is not None
    arena.clock.step_ms(max(0, live.due_ms - arena.now_ms))
    return await owner.claim(new, live, next_ms=live.due_ms + PERIOD_MS, **fields)


async def states(arena: Arena, new: NewJob) -> list[RunState]:
    page = await arena.store.list_runs(new.job.tenant_id, new.job.job_id, 100, None)
    return [run.state for run in sorted(page.items, key=lambda run: run.scheduled_ms)]


async def test_allowed_occurrences_run_side_by_side(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    assert (await claim_next(arena, owner, new)).won
    assert (await claim_next(arena, owner, new)).won
    assert await states(arena, new) == [RunState.DISPATCHED] * 2


@pytest.mark.parametrize("waits", [False, True], ids=["in flight", "waiting for a retry"])
async def test_skip_refuses_an_occurrence_while_an_earlier_run_is_open(
    arena: Arena, owner: Owner, waits: bool
) -> None:
    new = arena.recurring()
    await arena.insert(new)
    first = await claim_next(arena, owner, new, **SKIP)
    assert first.won
    if waits:
        await owner.retry_later(first, 10 * PERIOD_MS)
    second = await claim_next(arena, owner, new, **SKIP)
    assert second.verdict is ClaimVerdict.SKIPPED
    refused = await arena.run(new, second.timer.scheduled_ms)
    assert (refused.state, refused.skip_reason) == (RunState.SKIPPED, SkipReason.OVERLAP)
    live = (await arena.view(new)).live
    assert live is not None
    assert live.due_ms == second.timer.due_ms + PERIOD_MS, "the chain goes on"


async def test_skip_runs_again_once_the_earlier_run_is_over(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    await owner.complete(await claim_next(arena, owner, new, **SKIP), RunState.FAILED)
    assert (await claim_next(arena, owner, new, **SKIP)).won


async def test_another_jobs_run_is_no_overlap(arena: Arena, owner: Owner) -> None:
    one, other = arena.recurring(), arena.recurring()
    await arena.insert(one, other)
    assert (await claim_next(arena, owner, one, **SKIP)).won
    assert (await claim_next(arena, owner, other, **SKIP)).won


async def test_the_buffered_run_waits_with_a_timer_and_uses_no_attempt(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    await claim_next(arena, owner, new, **BUFFER)
    held = await claim_next(arena, owner, new, **BUFFER)
    assert held.verdict is ClaimVerdict.BUFFERED
    recheck = FirstTimer(arena.now_ms + RECHECK_MS, held.timer.scheduled_ms, -1)
    assert held.lease_ms == recheck.due_ms
    run = await arena.run(new, held.timer.scheduled_ms)
    assert (run.state, run.attempt, run.fence, run.gen) == (RunState.SCHEDULED, 0, 0, 1)
    assert run.retry_ms == recheck.due_ms
    timers = await arena.timers(new)
    assert recheck in timers
    assert held.timer not in timers, "the first timer is resolved"
    live = (await arena.view(new)).live
    assert live is not None
    assert live.due_ms == held.timer.due_ms + PERIOD_MS


async def test_the_buffered_run_waits_again_until_the_earlier_one_is_over(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    first = await claim_next(arena, owner, new, **BUFFER)
    timer = (await claim_next(arena, owner, new, **BUFFER)).timer
    recheck = FirstTimer(arena.now_ms + RECHECK_MS, timer.scheduled_ms, -1)
    for gen in (1, 2, 3):
        arena.clock.step_ms(RECHECK_MS)
        held = await owner.claim(new, recheck, **BUFFER)
        assert held.verdict is ClaimVerdict.BUFFERED
        old, recheck = recheck, FirstTimer(arena.now_ms + RECHECK_MS, timer.scheduled_ms, -gen - 1)
        assert held.lease_ms == recheck.due_ms
        timers = await arena.timers(new)
        assert recheck in timers
        assert old not in timers
        assert (await owner.claim(new, old, **BUFFER)).verdict is ClaimVerdict.RESOLVED
    await owner.complete(first, RunState.SUCCEEDED)
    assert (await arena.view(new)).current is None, "what waits for its first start has not been started"
    arena.clock.step_ms(RECHECK_MS)
    assert (await owner.win(new, recheck, **BUFFER)).attempt == 1
    assert await states(arena, new) == [RunState.SUCCEEDED, RunState.DISPATCHED]


async def test_while_one_waits_the_next_is_skipped(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    verdicts = [(await claim_next(arena, owner, new, **BUFFER)).verdict for _ in range(4)]
    assert verdicts == [
        ClaimVerdict.WON,
        ClaimVerdict.BUFFERED,
        ClaimVerdict.SKIPPED,
        ClaimVerdict.SKIPPED,
    ]
    page = await arena.store.list_runs(new.job.tenant_id, new.job.job_id, 1, None)
    assert page.items[0].skip_reason is SkipReason.OVERLAP


async def test_a_retry_that_waits_is_not_the_one_that_is_buffered(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    retry = await owner.retry_later(await claim_next(arena, owner, new, **BUFFER), 3 * PERIOD_MS)
    buffered = await claim_next(arena, owner, new, **BUFFER)
    assert buffered.verdict is ClaimVerdict.BUFFERED
    recheck = FirstTimer(buffered.lease_ms, buffered.timer.scheduled_ms, -1)
    arena.clock.step_ms(3 * PERIOD_MS)
    assert (await owner.claim(new, recheck, **BUFFER)).verdict is ClaimVerdict.BUFFERED
    assert (await owner.win(new, retry, **BUFFER)).attempt == 2, "the buffered run does not hold the retry up"


async def test_of_a_retry_and_the_next_occurrence_in_one_batch_only_one_starts(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    retry = await owner.retry_later(await claim_next(arena, owner, new, **BUFFER), PERIOD_MS)
    live = (await arena.view(new)).live
    assert live is not None
    arena.clock.step_ms(PERIOD_MS)
    answers = await owner.claim_rows(
        owner.claim_row(new, live, next_ms=live.due_ms + PERIOD_MS, **BUFFER),
        owner.claim_row(new, retry, **BUFFER),
    )
    assert [held.verdict for held in answers] == [ClaimVerdict.BUFFERED, ClaimVerdict.WON]
    in_flight = [state for state in await states(arena, new) if state in IN_FLIGHT]
    assert len(in_flight) == 1


async def test_a_settled_occurrence_is_skipped_too_while_a_run_is_open(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    first = await claim_next(arena, owner, new, **SKIP)
    arena.clock.step_ms(PERIOD_MS)
    settled = LedgerWrite(arena.now_ms, RunState.SCHEDULED, follow_up_ms=arena.now_ms)
    changed = await arena.store.change_job(
        new.job.tenant_id, new.job.job_id, edit(arena.now_ms + PERIOD_MS, settled)
    )
    assert changed is not None
    held = await owner.claim(new, changed.timers[0], **SKIP)
    assert held.verdict is ClaimVerdict.SKIPPED
    run = await arena.run(new, settled.scheduled_ms)
    assert (run.state, run.skip_reason) == (RunState.SKIPPED, SkipReason.OVERLAP)
    assert (await arena.run(new)).fence == first.fence


@pytest.mark.parametrize("overlap", [SKIP, BUFFER], ids=["skip", "buffer_one"])
async def test_a_redriven_run_waits_for_the_one_under_way(
    arena: Arena, owner: Owner, overlap: dict[str, OverlapCode]
) -> None:
    new = arena.recurring()
    await arena.insert(new)
    await owner.complete(await claim_next(arena, owner, new, **overlap), RunState.FAILED)
    under_way = await claim_next(arena, owner, new, **overlap)
    assert under_way.won
    assert new.timer is not None
    changed = await arena.store.change_run(new.job.tenant_id, new.job.job_id, new.timer.scheduled_ms, redrive)
    assert changed is not None
    [again] = changed.timers
    held = await owner.claim(new, again, **overlap)
    assert held.verdict is ClaimVerdict.BUFFERED
    await owner.complete(under_way, RunState.SUCCEEDED)
    arena.clock.step_ms(RECHECK_MS)
    recheck = FirstTimer(held.lease_ms, new.timer.scheduled_ms, again.gen - 1)
    assert (await owner.win(new, recheck, **overlap)).attempt == 1


@pytest.mark.pitfall(20)
async def test_without_workers_at_most_one_run_waits(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    for _ in range(30):
        await claim_next(arena, owner, new, **BUFFER)
    found = await states(arena, new)
    assert (found.count(RunState.DISPATCHED), found.count(RunState.SCHEDULED)) == (1, 1)
    assert found.count(RunState.SKIPPED) == 28


@pytest.mark.pitfall(19)
async def test_two_occurrences_close_together_never_run_at_once(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    first = await owner.win(new, next_ms=arena.now_ms + 1, **SKIP)
    assert (await claim_next(arena, owner, new, **SKIP)).verdict is ClaimVerdict.SKIPPED
    await owner.complete(first, RunState.SUCCEEDED)
    assert await states(arena, new) == [RunState.SUCCEEDED, RunState.SKIPPED]
