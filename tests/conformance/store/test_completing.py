import pytest

from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.run import TERMINAL, RunState
from tickwheel.ports.store import AttemptNote, NewJob

from .arena import Arena
from .decisions import cancel, cancel_run
from .owner import LEASE_MS, REAPED, Held, Owner

ENDS = (RunState.SUCCEEDED, RunState.FAILED, RunState.SCHEDULED, RunState.CANCELLED)
every_end = pytest.mark.parametrize("end", ENDS, ids=lambda state: state.name)


async def flying(arena: Arena, owner: Owner) -> tuple[NewJob, Held]:
    new = arena.one_off()
    await arena.insert(new)
    return new, await owner.win(new)


async def superseded(arena: Arena, owner: Owner) -> tuple[NewJob, Held, Held]:
    """A run whose first attempt stalled past its lease, and the attempt that took over."""
    new, late = await flying(arena, owner)
    arena.clock.step_ms(LEASE_MS)
    follow_up = await owner.retry_later(late, **REAPED)
    return new, late, await owner.win(new, follow_up)


@every_end
async def test_the_holder_ends_its_attempt(arena: Arena, owner: Owner, end: RunState) -> None:
    new, held = await flying(arena, owner)
    arena.clock.step_ms(40)
    ended = await owner.complete(held, end, started_ms=arena.now_ms - 30)
    assert ended.applied
    run = await arena.run(new)
    assert (run.state, run.fence, run.attempt, run.lease_ms) == (end, held.fence, 1, None)
    if end in TERMINAL:
        assert (run.started_ms, run.finished_ms) == (arena.now_ms - 30, arena.now_ms)
        assert await arena.timers() == []
        assert ended.follow_up is None
    else:
        assert await arena.timers() == [ended.follow_up]


@every_end
async def test_late_worker_cannot_end_the_next_attempt(arena: Arena, owner: Owner, end: RunState) -> None:
    new, late, current = await superseded(arena, owner)
    before, timers = await arena.run(new), await arena.timers()
    assert not (await owner.complete(late, end)).applied
    assert await arena.run(new) == before
    assert await arena.timers() == timers
    assert (await owner.complete(current, RunState.SUCCEEDED)).applied


@every_end
async def test_late_worker_cannot_end_a_run_that_waits_for_its_retry(
    arena: Arena, owner: Owner, end: RunState
) -> None:
    new, late = await flying(arena, owner)
    arena.clock.step_ms(LEASE_MS)
    follow_up = await owner.retry_later(late, 5_000, **REAPED)
    before = await arena.run(new)
    assert not (await owner.complete(late, end, retry_ms=arena.now_ms + 1)).applied
    assert await arena.run(new) == before
    assert await arena.timers() == [follow_up]


async def test_late_worker_cannot_heartbeat(arena: Arena, owner: Owner) -> None:
    new, late, current = await superseded(arena, owner)
    before = await arena.run(new)
    assert not await owner.renew(late, lease_ms=arena.now_ms + 10 * LEASE_MS, mark_running=1)
    assert await arena.run(new) == before
    assert await owner.renew(current)


@every_end
async def test_a_token_that_was_never_given_ends_nothing(arena: Arena, owner: Owner, end: RunState) -> None:
    new, held = await flying(arena, owner)
    before = await arena.run(new)
    for fence in (held.fence + 1, held.fence - 1, 0):
        assert not (await owner.complete(held, end, fence=fence)).applied
    assert await arena.run(new) == before


async def test_completing_a_run_without_a_row_is_stale(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    assert not (await owner.complete(held, RunState.SUCCEEDED, scheduled_ms=arena.now_ms + 1)).applied
    ghost = arena.one_off().job.job_id
    assert not (await owner.complete(held, RunState.SUCCEEDED, job_id=ghost)).applied
    assert (await arena.run(new)).state is RunState.DISPATCHED


@every_end
async def test_repeating_a_completion_whose_answer_was_lost_is_harmless(
    arena: Arena, owner: Owner, end: RunState
) -> None:
    new, held = await flying(arena, owner)
    row = owner.completion_row(held, end)
    note = {0: AttemptNote("boom", "503")}
    first, second = [await owner.complete_rows(row, notes=note) for _ in range(2)]
    assert first == second, "the repeat gives the same follow-up, so that it is armed after all"
    assert first[0] == [True]
    run = await arena.run(new)
    assert (run.state, run.gen) == (end, 1 if end is RunState.SCHEDULED else 0)
    assert len(run.attempts) == 1
    assert len(await arena.timers()) == (1 if end is RunState.SCHEDULED else 0)


async def test_a_repeated_retry_is_stale_once_the_next_attempt_holds_the_run(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    row = owner.completion_row(held, RunState.SCHEDULED)
    [_], [(_, follow_up)] = await owner.complete_rows(row)
    current = await owner.win(new, follow_up)
    assert await owner.complete_rows(row) == ([False], [])
    assert (await arena.run(new)).fence == current.fence


@pytest.mark.parametrize("first", [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED])
async def test_the_outcome_of_a_token_is_fixed_once(arena: Arena, owner: Owner, first: RunState) -> None:
    new, held = await flying(arena, owner)
    assert (await owner.complete(held, first)).applied
    before = await arena.run(new)
    for second in ENDS:
        if second is not first:
            assert not (await owner.complete(held, second)).applied
    assert not await owner.renew(held, mark_running=1)
    assert await arena.run(new) == before
    assert await arena.timers() == []


async def test_one_stale_row_does_not_spoil_its_batch(arena: Arena, owner: Owner) -> None:
    jobs = [arena.one_off() for _ in range(5)]
    await arena.insert(*jobs)
    held = [await owner.win(new) for new in jobs]
    rows = [owner.completion_row(h, RunState.SUCCEEDED) for h in held]
    rows[2]["fence"] += 1
    rows[3] = owner.completion_row(held[3], RunState.SCHEDULED)
    applied, follow_ups = await owner.complete_rows(*reversed(rows))
    assert applied[::-1] == [True, True, False, True, True]
    assert [job_id for job_id, _ in follow_ups] == [jobs[3].job.job_id]
    assert [(await arena.run(new)).state for new in jobs] == [
        RunState.SUCCEEDED,
        RunState.SUCCEEDED,
        RunState.DISPATCHED,
        RunState.SCHEDULED,
        RunState.SUCCEEDED,
    ]


async def test_one_run_twice_in_a_batch_is_applied_once(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    row = owner.completion_row(held, RunState.FAILED)
    applied, _ = await owner.complete_rows(row, dict(row))
    assert applied == [True, True]
    assert len((await arena.run(new)).attempts) == 1
    assert len((await arena.store.list_dead(new.job.tenant_id, 10, None)).items) == 1


async def test_notes_go_to_the_rows_that_they_name(arena: Arena, owner: Owner) -> None:
    jobs = [arena.one_off() for _ in range(3)]
    await arena.insert(*jobs)
    rows = [owner.completion_row(await owner.win(new), RunState.FAILED) for new in jobs]
    await owner.complete_rows(*rows, notes={0: AttemptNote("first", "a"), 2: AttemptNote("third", None)})
    notes = [(run.error, run.attempts[0].excerpt) for run in [await arena.run(new) for new in jobs]]
    assert notes == [("first", "a"), (None, None), ("third", None)]


@pytest.mark.pitfall(91)
@every_end
async def test_nothing_commits_after_a_cancel_has_answered(arena: Arena, owner: Owner, end: RunState) -> None:
    new, held = await flying(arena, owner)
    await owner.renew(held, mark_running=1)
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, cancel)
    ended = await owner.complete(held, end)
    assert ended.applied is (end is RunState.CANCELLED)
    assert not await owner.renew(held, mark_running=1)
    run = await arena.run(new)
    assert (run.state, run.fence) == (RunState.CANCELLED, held.fence), "only claims draw tokens"
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED
    assert await arena.timers() == []


@pytest.mark.pitfall(91)
async def test_a_run_that_succeeded_is_not_cancelled_by_cancelling_its_job(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    await owner.complete(held, RunState.SUCCEEDED)
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, cancel)
    assert (await arena.run(new)).state is RunState.SUCCEEDED


async def test_one_run_is_cancelled_alone(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    next_ms = arena.now_ms + 60_000
    held = await owner.win(new, next_ms=next_ms)
    key = (new.job.tenant_id, new.job.job_id, arena.now_ms)
    changed = await arena.store.change_run(*key, cancel_run)
    assert changed is not None
    assert not (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert [timer.due_ms for timer in await arena.timers()] == [next_ms], "the chain goes on"
