"""How many jobs a tenant has, up to a bound, and how many of its runs are in flight."""

from tickwheel.domain.concurrency import whole_tenant
from tickwheel.domain.run import RunState

from .arena import Arena
from .decisions import cancel, delete
from .owner import Owner
from .test_listing import insert_some


async def test_jobs_of_a_tenant_are_counted_up_to_the_bound(arena: Arena) -> None:
    assert await arena.store.count_jobs("default", 5) == 0
    await insert_some(arena, 9)
    await insert_some(arena, 4, tenant_id="other")
    assert await arena.store.count_jobs("default", 5) == 5
    assert await arena.store.count_jobs("default", 9) == 9
    assert await arena.store.count_jobs("default", 1_000) == 9
    assert await arena.store.count_jobs("other", 1_000) == 4
    assert await arena.store.count_jobs("nobody", 1_000) == 0
    assert await arena.store.count_jobs("default", 0) == 0


async def test_ended_jobs_count_until_they_are_deleted(arena: Arena) -> None:
    first, second, *_ = await insert_some(arena, 5)
    await arena.store.change_job("default", first.job.job_id, cancel)
    assert await arena.store.count_jobs("default", 100) == 5
    await arena.store.change_job("default", second.job.job_id, delete)
    assert await arena.store.count_jobs("default", 100) == 4


async def test_runs_in_flight_are_counted_where_they_are_limited(arena: Arena, owner: Owner) -> None:
    jobs = [arena.one_off(shard=shard) for shard in (3, 4, 5)]
    free = arena.one_off(shard=6)
    await arena.insert(*jobs, free)
    whole = whole_tenant("default")
    assert await arena.store.count_running(whole) == 0
    first, second, third = await owner.claim_rows(*(owner.claim_row(new, tenant_limit=2) for new in jobs))
    assert (await owner.claim(free)).won
    assert [first.won, second.won, third.won].count(True) == 2
    assert await arena.store.count_running(whole) == 2
    ended = next(one for one in (first, second, third) if one.won)
    assert (await owner.complete(ended, RunState.SUCCEEDED)).applied
    assert await arena.store.count_running(whole) == 1
    assert await arena.store.count_running(whole_tenant("other")) == 0
