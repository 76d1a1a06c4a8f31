"""How many jobs a tenant has, up to a bound."""

from .arena import Arena
from .decisions import cancel, delete
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
