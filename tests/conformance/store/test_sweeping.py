from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.run import RunState
from tickwheel.ports.store import Change, FirstTimer, InsertStatus, JobView, NewJob, Run

from .arena import Arena
from .decisions import cancel, cancel_run, delete, redrive
from .owner import Owner

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def needs_sweeping_of_rows(arena: Arena) -> None:
    """Stores that drop whole days have tests of their own."""
    if not arena.sweeps_rows:
        pytest.skip("retention drops whole days in this store")


async def sweep_all(arena: Arena, retention_ms: int) -> int:
    total = 0
    for _ in range(100):
        deleted = await arena.store.sweep(arena.now_ms, retention_ms)
        if not deleted:
            return total
        total += deleted
    raise AssertionError("the sweep never ends")


async def finish(arena: Arena, owner: Owner, end: RunState = RunState.SUCCEEDED, **fields: Any) -> NewJob:
    new = arena.one_off(**fields)
    await arena.insert(new)
    await owner.complete(await owner.win(new), end)
    return new


async def is_there(arena: Arena, new: NewJob) -> bool:
    return await arena.store.get_job(new.job.tenant_id, new.job.job_id) is not None


async def test_only_history_older_than_the_retention_goes(arena: Arena, owner: Owner) -> None:
    old = [await finish(arena, owner) for _ in range(3)]
    arena.clock.step_ms(DAY_MS)
    young = await finish(arena, owner)
    arena.clock.step_ms(1)
    assert await sweep_all(arena, DAY_MS) >= 3
    for new in old:
        assert not await is_there(arena, new)
        assert await arena.store.get_run("default", new.job.job_id, new.job.scheduled_ms or 0) is None
        assert (await arena.store.list_runs("default", new.job.job_id, 10, None)).items == ()
    assert (await arena.run(young)).state is RunState.SUCCEEDED
    assert (await arena.store.counts()).jobs == 1


async def test_nothing_that_is_not_over_goes(arena: Arena, owner: Owner) -> None:
    waiting, flying, retrying, paused = (
        arena.one_off(arena.now_ms + 400 * DAY_MS),
        *(arena.one_off() for _ in range(3)),
    )
    chain = arena.recurring()
    await arena.insert(waiting, flying, retrying, paused, chain)
    await owner.win(flying)
    await owner.retry_later(await owner.win(retrying), 300 * DAY_MS)
    held = await owner.win(chain, next_ms=arena.now_ms + 200 * DAY_MS)
    await owner.complete(held, RunState.SUCCEEDED)
    timers = await arena.timers()
    arena.clock.step_ms(100 * DAY_MS)
    await sweep_all(arena, DAY_MS)
    for new in (waiting, flying, retrying, paused, chain):
        assert await is_there(arena, new)
    assert await arena.timers() == timers
    assert (await arena.run(flying)).state is RunState.DISPATCHED
    assert (await arena.run(retrying)).state is RunState.SCHEDULED
    assert await arena.store.get_run("default", chain.job.job_id, held.timer.scheduled_ms) is None


async def test_dead_letters_stay_until_they_are_dropped(arena: Arena, owner: Owner) -> None:
    new, other = [await finish(arena, owner, RunState.FAILED) for _ in range(2)]
    instant = arena.now_ms
    arena.clock.step_ms(365 * DAY_MS)
    await sweep_all(arena, DAY_MS)
    assert len((await arena.store.list_dead("default", 10, None)).items) == 2
    changed = await arena.store.change_run("default", new.job.job_id, instant, redrive)
    assert changed is not None
    assert (await owner.win(new, changed.timers[0])).attempt == 1
    await arena.store.drop_dead("default", other.job.job_id, instant)
    await sweep_all(arena, DAY_MS)
    assert not await is_there(arena, other)
    assert await is_there(arena, new)


@pytest.mark.parametrize("end", [cancel, delete])
async def test_jobs_without_an_occurrence_left_go_too(arena: Arena, owner: Owner, end: object) -> None:
    one, many = arena.one_off(arena.now_ms + 5), arena.recurring()
    await arena.insert(one, many)
    await owner.complete(await owner.win(many, next_ms=arena.now_ms + 60_000), RunState.SUCCEEDED)
    for new in (one, many):
        await arena.store.change_job("default", new.job.job_id, end)  # type: ignore[arg-type]  # a decision
    arena.clock.step_ms(2 * DAY_MS)
    await sweep_all(arena, DAY_MS)
    assert await arena.store.load_work([one.job.job_id, many.job.job_id]) == [None, None]
    assert (await arena.store.counts()).jobs == 0


async def test_a_key_is_kept_a_day_after_its_job_has_ended(arena: Arena, owner: Owner) -> None:
    first = await finish(arena, owner, idempotency_key="k")
    again = replace(arena.one_off(idempotency_key="k"))
    arena.clock.step_ms(DAY_MS - 1)
    await sweep_all(arena, 60_000)
    [answer] = await arena.insert(again)
    assert (answer.status, answer.job_id) == (InsertStatus.REPLAYED, first.job.job_id)
    assert await is_there(arena, first), "what a replay names can be fetched"
    arena.clock.step_ms(2)
    await sweep_all(arena, 60_000)
    [answer] = await arena.insert(again)
    assert (answer.status, answer.job_id) == (InsertStatus.CREATED, again.job.job_id)


async def test_an_instant_to_come_keeps_its_row(arena: Arena) -> None:
    new = arena.recurring(arena.now_ms + 3 * DAY_MS)
    assert new.timer is not None
    await arena.insert(new)

    def skip_ahead(view: JobView, run: Run, now_ms: int) -> Change:
        timer = FirstTimer(run.scheduled_ms + DAY_MS, run.scheduled_ms + DAY_MS, view.job.version)
        return replace(cancel_run(view, run, now_ms), timer=timer)

    await arena.store.change_run("default", new.job.job_id, new.timer.scheduled_ms, skip_ahead)
    arena.clock.step_ms(2 * DAY_MS)
    await sweep_all(arena, DAY_MS)
    assert (await arena.run(new)).state is RunState.CANCELLED, "or an edit would plan it anew"
    arena.clock.step_ms(2 * DAY_MS + 1)
    await sweep_all(arena, DAY_MS)
    assert (await arena.view(new)).last_run is None


async def test_a_swept_run_does_not_fire_again(arena: Arena, owner: Owner) -> None:
    new = await finish(arena, owner)
    timer = new.timer
    arena.clock.step_ms(2 * DAY_MS)
    await sweep_all(arena, DAY_MS)
    assert await arena.timers() == []
    assert (await owner.claim(new, timer)).verdict is ClaimVerdict.RESOLVED


async def test_a_follow_up_of_a_swept_run_starts_nothing(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    instant, next_ms = arena.now_ms, arena.now_ms + 9 * DAY_MS
    follow_up = await owner.retry_later(await owner.win(new, next_ms=next_ms))
    await owner.complete(await owner.win(new, follow_up), RunState.SUCCEEDED)
    arena.clock.step_ms(2 * DAY_MS)
    await sweep_all(arena, DAY_MS)
    assert (await owner.claim(new, follow_up)).verdict is ClaimVerdict.RESOLVED
    assert await arena.store.get_run("default", new.job.job_id, instant) is None


async def test_one_call_does_a_bounded_piece(arena: Arena, owner: Owner) -> None:
    jobs = [arena.one_off(shard=n % 256) for n in range(3_000)]
    await arena.insert(*jobs)
    held = await owner.claim_rows(*(owner.claim_row(new) for new in jobs))
    applied, _ = await owner.complete_rows(*(owner.completion_row(h, RunState.SUCCEEDED) for h in held))
    assert all(applied)
    arena.clock.step_ms(2 * DAY_MS)
    first = await arena.store.sweep(arena.now_ms, DAY_MS)
    assert 0 < first < 6_000
    assert (await arena.store.counts()).jobs > 0
    await sweep_all(arena, DAY_MS)
    assert (await arena.store.counts()).jobs == 0
