import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import ClaimAction, ClaimVerdict
from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.ports.store import Change, FirstTimer, LedgerWrite, NewJob

from .arena import Arena
from .decisions import cancel, edit, nothing, pause, resume
from .owner import Owner

PERIOD_MS = 600_000


async def live_timers(arena: Arena, new: NewJob) -> list[FirstTimer]:
    """First timers of occurrences without a ledger row: an active job has exactly one."""
    runs = await arena.store.list_runs(new.job.tenant_id, new.job.job_id, 1000, None)
    taken = {run.scheduled_ms for run in runs.items}
    return [t for t in await arena.timers(new) if t.gen > 0 and t.scheduled_ms not in taken]


async def test_winning_an_occurrence_plants_the_next_one(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    next_ms = arena.now_ms + PERIOD_MS
    await owner.win(new, next_ms=next_ms)
    following = FirstTimer(next_ms, next_ms, 1)
    assert await arena.timers(new) == [new.timer, following]
    assert (await arena.view(new)).live == following
    rows = await arena.store.load_timers(next_ms, next_ms + 1, 10)
    assert rows["flags"].tolist() == [new.job.timer_flags]


async def test_losing_an_occurrence_plants_nothing(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    await owner.win(new, next_ms=arena.now_ms + PERIOD_MS)
    lost = await owner.claim(new, next_ms=arena.now_ms + 7)
    assert lost.verdict is ClaimVerdict.IN_FLIGHT
    assert await live_timers(arena, new) == [FirstTimer(arena.now_ms + PERIOD_MS, arena.now_ms + PERIOD_MS, 1)]


@pytest.mark.parametrize("end", [RunState.SUCCEEDED, RunState.FAILED, RunState.SCHEDULED])
async def test_a_late_claim_of_an_ended_occurrence_plants_nothing(
    arena: Arena, owner: Owner, end: RunState
) -> None:
    new = arena.recurring()
    await arena.insert(new)
    held = await owner.win(new, next_ms=arena.now_ms + PERIOD_MS)
    await owner.complete(held, end, retry_ms=arena.now_ms + 5 if end is RunState.SCHEDULED else -1)
    late = await owner.claim(new, next_ms=arena.now_ms + 2 * PERIOD_MS)
    assert late.verdict is ClaimVerdict.RESOLVED
    firsts = [timer.due_ms for timer in await arena.timers(new) if timer.gen > 0]
    assert firsts == [arena.now_ms + PERIOD_MS]


async def test_a_skipped_occurrence_leaves_a_row_and_plants_the_next_one(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    next_ms = arena.now_ms + PERIOD_MS
    held = await owner.claim(new, action=ClaimAction.SKIP, reason=SkipReason.CATCH_UP, next_ms=next_ms)
    assert held.verdict is ClaimVerdict.SKIPPED
    run = await arena.run(new)
    assert (run.state, run.skip_reason) == (RunState.SKIPPED, SkipReason.CATCH_UP)
    assert await arena.timers(new) == [FirstTimer(next_ms, next_ms, 1)]


async def test_neither_an_early_nor_a_deposed_claim_plants_anything(arena: Arena, owner: Owner) -> None:
    new = arena.recurring(arena.now_ms + 5)
    await arena.insert(new)
    assert (await owner.claim(new, next_ms=arena.now_ms + 9)).verdict is ClaimVerdict.NOT_DUE
    arena.clock.step_ms(5)
    await Owner(arena, "worker-2").acquire()
    assert (await owner.claim(new, next_ms=arena.now_ms + 9)).verdict is ClaimVerdict.DEPOSED
    assert await arena.timers(new) == [new.timer]


async def test_the_last_occurrence_completes_the_job(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    held = await owner.win(new, next_ms=-1)
    view = await arena.view(new)
    assert (view.job.state, view.live) == (JobState.COMPLETED, None)
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert (await arena.view(new)).job.state is JobState.COMPLETED


@pytest.mark.parametrize("next_in_ms", [PERIOD_MS, None])
async def test_a_repeated_claim_plants_nothing_after_an_edit(
    arena: Arena, owner: Owner, next_in_ms: int | None
) -> None:
    new = arena.recurring()
    await arena.insert(new)
    next_ms = -1 if next_in_ms is None else arena.now_ms + next_in_ms
    held = await owner.win(new, next_ms=next_ms)
    edited_ms = arena.now_ms + 42
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, edit(edited_ms))
    assert (await owner.claim(new, fence=held.fence, next_ms=next_ms)).won
    assert await live_timers(arena, new) == [FirstTimer(edited_ms, edited_ms, 2)]
    assert (await arena.view(new)).job.state is JobState.ACTIVE


async def test_a_repeated_claim_plants_nothing_after_a_pause(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    held = await owner.win(new, next_ms=arena.now_ms + PERIOD_MS)
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, pause)
    assert (await owner.claim(new, fence=held.fence, next_ms=arena.now_ms + PERIOD_MS)).won
    assert await live_timers(arena, new) == []


async def test_a_batch_with_one_lost_claim_still_plants_for_the_others(arena: Arena, owner: Owner) -> None:
    taken, free = arena.recurring(), arena.recurring()
    await arena.insert(taken, free)
    next_ms = arena.now_ms + PERIOD_MS
    await owner.win(taken, next_ms=next_ms)
    answers = await owner.claim_rows(
        owner.claim_row(free, next_ms=next_ms), owner.claim_row(taken, next_ms=next_ms + 1)
    )
    assert [held.verdict for held in answers] == [ClaimVerdict.WON, ClaimVerdict.IN_FLIGHT]
    for new in (taken, free):
        assert await live_timers(arena, new) == [FirstTimer(next_ms, next_ms, 1)]


@pytest.mark.parametrize("delay_ms", [0, PERIOD_MS])
async def test_a_late_chain_keeps_exactly_one_live_timer(arena: Arena, owner: Owner, delay_ms: int) -> None:
    new = arena.recurring(arena.now_ms - 4 * PERIOD_MS)
    await arena.insert(new)
    timer = new.timer
    for _ in range(4):
        assert timer is not None
        next_ms, clamped_ms = timer.scheduled_ms + PERIOD_MS, max(timer.scheduled_ms + PERIOD_MS, arena.now_ms)
        held = await owner.win(new, timer, next_ms=next_ms)
        arena.clock.step_ms(delay_ms)
        [timer] = await live_timers(arena, new)
        # A store of a cluster moves a timer that is past up to its clock (A2).
        assert timer in (FirstTimer(next_ms, next_ms, 1), FirstTimer(clamped_ms, next_ms, 1))
        await owner.complete(held, RunState.SUCCEEDED)
    assert len(await arena.timers(new)) == 1


async def test_a_claim_of_an_older_version_finds_its_occurrence_gone(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    next_ms = arena.now_ms + PERIOD_MS
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, edit(next_ms))
    held = await owner.claim(new, next_ms=arena.now_ms + 1)
    assert held.verdict is ClaimVerdict.RESOLVED
    assert (await arena.view(new)).last_run is None
    assert await arena.timers(new) == [FirstTimer(next_ms, next_ms, 2)]


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.CANCELLED, JobState.COMPLETED])
async def test_only_an_active_job_is_claimed_whatever_its_version(
    arena: Arena, owner: Owner, state: JobState
) -> None:
    new = arena.recurring()
    await arena.insert(new)
    job = replace(new.job, state=state)
    await arena.store.change_job("default", new.job.job_id, lambda view, now_ms: Change(job=job))
    assert (await owner.claim(new, next_ms=arena.now_ms + PERIOD_MS)).verdict is ClaimVerdict.RESOLVED
    assert (await arena.view(new)).last_run is None


async def test_a_resolved_claim_leaves_no_timer_behind(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    job = replace(new.job, version=2)
    await arena.store.change_job("default", new.job.job_id, lambda view, now_ms: Change(job=job))
    assert (await owner.claim(new, next_ms=arena.now_ms + PERIOD_MS)).verdict is ClaimVerdict.RESOLVED
    assert await arena.timers() == [], "or every start would load it again"


async def test_an_edit_that_keeps_the_instant_still_fires_it(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    due_ms = arena.now_ms
    changed = await arena.store.change_job(new.job.tenant_id, new.job.job_id, edit(due_ms))
    assert changed is not None
    assert changed.timers == (FirstTimer(due_ms, due_ms, 2),)
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    held = await owner.win(new, changed.timers[0], next_ms=due_ms + PERIOD_MS)
    assert held.version == 2


async def test_pause_then_resume_at_the_same_instant_leaves_one_live_timer(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    due_ms, key = arena.now_ms, (new.job.tenant_id, new.job.job_id)
    await arena.store.change_job(*key, pause)
    assert await arena.timers(new) == []
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    await arena.store.change_job(*key, resume(due_ms))
    assert await live_timers(arena, new) == [FirstTimer(due_ms, due_ms, 3)]
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED, "the held timer of version 1 is dead"
    assert (await owner.claim(new, FirstTimer(due_ms, due_ms, 3), next_ms=due_ms + 1)).won


async def test_an_edit_leaves_the_occurrence_in_flight_alone(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    held = await owner.win(new, next_ms=arena.now_ms + PERIOD_MS)
    edited_ms = arena.now_ms + 42
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, edit(edited_ms))
    assert await live_timers(arena, new) == [FirstTimer(edited_ms, edited_ms, 2)]
    assert new.timer in await arena.timers(new), "its lease is still to be watched after a restart"
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert len(await arena.timers(new)) == 1


async def test_a_retry_goes_on_after_an_edit_and_after_a_pause(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    key = (new.job.tenant_id, new.job.job_id)
    follow_up = await owner.retry_later(await owner.win(new, next_ms=arena.now_ms + PERIOD_MS))
    await arena.store.change_job(*key, edit(arena.now_ms + 42))
    held = await owner.win(new, follow_up)
    assert (held.attempt, held.version) == (2, 2)
    follow_up = await owner.retry_later(held)
    await arena.store.change_job(*key, pause)
    assert (await owner.win(new, follow_up)).attempt == 3


async def test_an_edit_settles_the_overdue_occurrence(arena: Arena, owner: Owner) -> None:
    new = arena.recurring(arena.now_ms - 3_000)
    assert new.timer is not None
    await arena.insert(new)
    settled = LedgerWrite(new.timer.scheduled_ms, RunState.SCHEDULED, follow_up_ms=arena.now_ms)
    next_ms = arena.now_ms + PERIOD_MS
    changed = await arena.store.change_job(new.job.tenant_id, new.job.job_id, edit(next_ms, settled))
    assert changed is not None
    follow_up = next(timer for timer in changed.timers if timer.gen < 0)
    assert set(await arena.timers(new)) == set(changed.timers)
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    held = await owner.win(new, follow_up)
    assert (held.attempt, held.version) == (1, 2)
    assert (await arena.view(new)).live == FirstTimer(next_ms, next_ms, 2)


async def test_settling_by_skip_leaves_a_trace(arena: Arena, owner: Owner) -> None:
    new = arena.recurring(arena.now_ms - 3_000)
    assert new.timer is not None
    await arena.insert(new)
    settled = LedgerWrite(new.timer.scheduled_ms, RunState.SKIPPED, SkipReason.SUPERSEDED)
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, edit(arena.now_ms + PERIOD_MS, settled))
    run = await arena.run(new)
    assert (run.state, run.skip_reason) == (RunState.SKIPPED, SkipReason.SUPERSEDED)
    assert len(await arena.timers(new)) == 1


@pytest.mark.pitfall(94)
async def test_after_an_edit_only_the_new_pattern_fires(arena: Arena, owner: Owner) -> None:
    new = arena.recurring(arena.now_ms + 60_000)
    await arena.insert(new)
    morning_ms = arena.now_ms + 8 * 3_600_000
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, edit(morning_ms))
    assert await arena.timers(new) == [FirstTimer(morning_ms, morning_ms, 2)]
    arena.clock.step_ms(60_000)
    assert (await owner.claim(new, next_ms=arena.now_ms + 60_000)).verdict is ClaimVerdict.RESOLVED
    assert (await arena.view(new)).last_run is None


@pytest.mark.pitfall(98)
async def test_editing_one_job_leaves_every_other_jobs_timer_alone(arena: Arena) -> None:
    steady, busy = arena.recurring(arena.now_ms + PERIOD_MS), arena.recurring(arena.now_ms + 60_000)
    await arena.insert(steady, busy)
    for _ in range(12):
        arena.clock.step_ms(60_000)
        await arena.store.change_job(busy.job.tenant_id, busy.job.job_id, edit(arena.now_ms + 60_000))
    assert await arena.timers(steady) == [steady.timer]
    assert len(await arena.timers(busy)) == 1


@pytest.mark.pitfall(98)
async def test_looking_at_a_job_changes_nothing(arena: Arena) -> None:
    new = arena.recurring()
    await arena.insert(new)
    before = await arena.view(new)
    changed = await arena.store.change_job(new.job.tenant_id, new.job.job_id, nothing)
    assert changed is not None
    assert (changed.view, changed.timers) == (before, ())
    assert await arena.view(new) == before
    assert await arena.timers() == [new.timer]


async def test_cancelling_a_job_cancels_all_its_open_runs(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    second = FirstTimer(arena.now_ms + 10, arena.now_ms + 10, 1)
    third = FirstTimer(arena.now_ms + 20, arena.now_ms + 20, 1)
    running = await owner.win(new, next_ms=second.due_ms)
    arena.clock.step_ms(20)
    follow_up = await owner.retry_later(await owner.win(new, second, next_ms=third.due_ms), 5_000)
    changed = await arena.store.change_job(new.job.tenant_id, new.job.job_id, cancel)
    assert changed is not None
    assert (changed.view.open_runs, changed.view.live) == ((), None)
    assert await arena.timers(new) == []
    assert not (await owner.complete(running, RunState.SUCCEEDED)).applied
    arena.clock.step_ms(5_000)
    assert (await owner.claim(new, follow_up)).verdict is ClaimVerdict.RESOLVED
    assert (await owner.claim(new, third, next_ms=arena.now_ms + 1)).verdict is ClaimVerdict.RESOLVED
    page = await arena.store.list_runs(new.job.tenant_id, new.job.job_id, 10, None)
    assert [run.state for run in page.items] == [RunState.CANCELLED] * 2
