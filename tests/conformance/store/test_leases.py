from typing import Any

import numpy as np
import pytest

from tickwheel.domain.columns import ClaimVerdict, CompletionCause
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.store import NewJob

from .arena import Arena
from .owner import LEASE_MS, REAPED, Held, Owner

DEAD: dict[str, Any] = {"cause": CompletionCause.DEAD_OWNER, "outcome": OutcomeClass.LOST}


async def flying(arena: Arena, owner: Owner) -> tuple[NewJob, Held]:
    new = arena.one_off()
    await arena.insert(new)
    return new, await owner.win(new)


async def long_flying(arena: Arena, owner: Owner) -> tuple[NewJob, Held]:
    """An attempt that every store's `expired` knows of."""
    new, held = await flying(arena, owner)
    if not arena.lists_unrenewed:
        assert await owner.renew(held)
    return new, held


async def test_a_heartbeat_moves_the_lease_and_is_shown(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    arena.clock.step_ms(10_000)
    assert await owner.renew(held, started_ms=arena.now_ms - 9_990)
    run = await arena.run(new)
    assert (run.state, run.lease_ms) == (RunState.DISPATCHED, arena.now_ms + LEASE_MS)
    assert (run.beat_ms, run.started_ms) == (arena.now_ms, arena.now_ms - 9_990)
    answer = await owner.claim(new)
    assert (answer.verdict, answer.lease_ms) == (ClaimVerdict.IN_FLIGHT, arena.now_ms + LEASE_MS)


async def test_a_heartbeat_writes_running_once(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    assert await owner.renew(held, mark_running=1)
    assert (await arena.run(new)).state is RunState.RUNNING
    assert await owner.renew(held)
    run = await arena.run(new)
    assert (run.state, run.attempt) == (RunState.RUNNING, 1)
    assert (await arena.view(new)).current is not None


async def test_a_lease_that_ran_out_may_be_renewed_while_nobody_took_the_run(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    arena.clock.step_ms(2 * LEASE_MS)
    assert await owner.renew(held)
    assert await arena.store.expired(arena.now_ms, 10) == []
    assert not (await owner.complete(held, RunState.FAILED, **REAPED)).applied
    assert (await arena.run(new)).state is RunState.DISPATCHED


async def test_renewals_are_answered_row_by_row(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    _, done = await flying(arena, owner)
    await owner.complete(done, RunState.SUCCEEDED)
    assert await owner.renew(held)
    assert not await owner.renew(done)
    assert not await owner.renew(held, job_id=arena.one_off().job.job_id)
    assert not await owner.renew(held, scheduled_ms=arena.now_ms + 1)
    assert (await arena.run(new)).state is RunState.DISPATCHED


@pytest.mark.parametrize("end", [RunState.SCHEDULED, RunState.FAILED])
async def test_a_reaper_waits_for_the_lease_to_be_past(arena: Arena, owner: Owner, end: RunState) -> None:
    new, held = await flying(arena, owner)
    arena.clock.step_ms(LEASE_MS - 1)
    assert not (await owner.complete(held, end, **REAPED)).applied
    assert (await arena.run(new)).state is RunState.DISPATCHED
    arena.clock.step_ms(1)
    assert (await owner.complete(held, end, **REAPED)).applied
    assert (await arena.run(new)).state is end


async def test_a_reaper_that_read_before_running_was_written_is_refused(arena: Arena, owner: Owner) -> None:
    """F3: it means to hand a last attempt back that had not begun, and by now it has."""
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.win(new, max_attempts=1)
    seen = (await arena.run(new)).attempt
    assert seen == 0
    assert await owner.renew(held, mark_running=1)
    arena.clock.step_ms(2 * LEASE_MS)
    outdated = {"attempt": seen, "retry_ms": arena.now_ms, **REAPED}
    assert not (await owner.complete(held, RunState.SCHEDULED, **outdated)).applied
    assert (await owner.complete(held, RunState.FAILED, **REAPED)).applied


async def test_a_living_workers_run_is_not_taken_as_dead(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    arena.clock.step_ms(2 * LEASE_MS)
    assert not (await owner.complete(held, RunState.SCHEDULED, **DEAD)).applied
    assert (await arena.run(new)).state is RunState.DISPATCHED


async def test_the_runs_of_a_dead_incarnation_need_no_waiting(arena: Arena, owner: Owner) -> None:
    new, held = await long_flying(arena, owner)
    await arena.restart()
    heir = await Owner(arena, "worker-2").acquire()
    [seen] = await arena.store.expired(arena.now_ms, 10)
    assert (seen.job_id, seen.fence, seen.worker) == (new.job.job_id, held.fence, "worker-1")
    follow_up = await heir.retry_later(held, **DEAD)
    assert (await heir.win(new, follow_up)).fence > held.fence


async def test_a_claim_by_the_heir_learns_of_the_dead_ones_run(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    await arena.restart()
    heir = await Owner(arena, "worker-2").acquire()
    assert await arena.timers() == [new.timer], "it is loaded like any other unresolved timer"
    answer = await heir.claim(new)
    assert (answer.verdict, answer.fence) == (ClaimVerdict.IN_FLIGHT, held.fence)


async def test_the_deposed_workers_result_counts_until_its_run_is_taken(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    taken, lost = await flying(arena, owner)
    heir = await Owner(arena, "worker-2").acquire()
    await heir.retry_later(lost, **DEAD)
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert not (await owner.complete(lost, RunState.SUCCEEDED)).applied
    assert (await arena.run(new)).state is RunState.SUCCEEDED
    assert (await arena.run(taken)).state is RunState.SCHEDULED


@pytest.mark.pitfall(40)
async def test_a_reaper_with_an_old_view_reopens_nothing(arena: Arena, owner: Owner) -> None:
    finished, renewed, retried = [await long_flying(arena, owner) for _ in range(3)]
    arena.clock.step_ms(LEASE_MS)
    seen = await arena.store.expired(arena.now_ms, 10)
    assert len(seen) == 3
    await owner.complete(finished[1], RunState.SUCCEEDED)
    await owner.renew(renewed[1])
    follow_up = await owner.retry_later(retried[1])
    await owner.win(retried[0], follow_up)
    before = [await arena.run(new) for new, _ in (finished, renewed, retried)]
    for _, held in (finished, renewed, retried):
        for end in (RunState.SCHEDULED, RunState.FAILED):
            assert not (await owner.complete(held, end, retry_ms=arena.now_ms + 1, **REAPED)).applied
    assert [await arena.run(new) for new, _ in (finished, renewed, retried)] == before


@pytest.mark.pitfall(41)
async def test_healthy_runs_do_not_hide_the_one_that_expired(arena: Arena, owner: Owner) -> None:
    jobs = [arena.one_off() for _ in range(200)]
    await arena.insert(*jobs)
    held = await owner.claim_rows(*(owner.claim_row(new) for new in jobs))
    await owner.renew(held[77])
    arena.clock.step_ms(LEASE_MS)
    for healthy in held[:77] + held[78:]:
        assert await owner.renew(healthy)
    [seen] = await arena.store.expired(arena.now_ms, 10)
    assert seen.job_id == jobs[77].job.job_id


async def test_expired_runs_come_oldest_first_and_bounded(arena: Arena, owner: Owner) -> None:
    jobs = []
    for _ in range(6):
        new, _ = await long_flying(arena, owner)
        jobs.append(new.job.job_id)
        arena.clock.step_ms(10)
    arena.clock.step_ms(LEASE_MS - 25)
    seen = await arena.store.expired(arena.now_ms, 3)
    assert [run.job_id for run in seen] == jobs[:3]
    assert len(await arena.store.expired(arena.now_ms, 100)) == 4


@pytest.mark.pitfall(34)
async def test_after_a_crash_no_run_stays_in_flight(arena: Arena, owner: Owner) -> None:
    jobs = [arena.one_off() for _ in range(300)]
    await arena.insert(*jobs)
    held = await owner.claim_rows(*(owner.claim_row(new) for new in jobs))
    beats = [
        owner.renewal_batch(attempt, mark_running=int(number % 3 == 0))
        for number, attempt in enumerate(held)
        if number % 3 == 0 or not arena.lists_unrenewed
    ]
    assert (await arena.store.renew(np.concatenate(beats))).all()
    await arena.restart()
    heir = await Owner(arena, "worker-2").acquire()
    while seen := await arena.store.expired(arena.now_ms, 128):
        rows = []
        for run in seen:
            lost = next(h for h in held if h.job_id == run.job_id)
            assert run.fence == lost.fence
            rows.append(heir.completion_row(lost, RunState.SCHEDULED, lost_count=1, **DEAD))
        applied, follow_ups = await heir.complete_rows(*rows)
        assert all(applied)
        assert len(follow_ups) == len(rows)
    keys = [(new.job.job_id, attempt.timer.scheduled_ms) for new, attempt in zip(jobs, held, strict=True)]
    runs = await arena.store.find_runs(keys)
    assert not {run.state for run in runs if run is not None} & IN_FLIGHT
    assert len(await arena.timers()) == len(jobs)


async def test_runs_are_found_by_key_in_the_order_asked_for(arena: Arena, owner: Owner) -> None:
    flown, held = await flying(arena, owner)
    done, end = await flying(arena, owner)
    waiting = arena.one_off()
    await arena.store.insert_jobs([waiting])
    await owner.renew(held, mark_running=1)
    await owner.complete(end, RunState.SUCCEEDED)
    keys = [(new.job.job_id, new.job.scheduled_ms or 0) for new in (done, waiting, flown)]
    first, none, last = await arena.store.find_runs(keys)
    assert none is None
    assert first is not None
    assert (first.job_id, first.state) == (done.job.job_id, RunState.SUCCEEDED)
    assert last is not None
    assert (last.state, last.fence, last.beat_ms) == (
        RunState.RUNNING,
        held.fence,
        arena.now_ms,
    )
    assert await arena.store.find_runs([]) == []
