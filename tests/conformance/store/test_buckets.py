"""The bucket of the tenant in the flags of timers, and timers of the time before there were buckets."""

import pytest

from tickwheel.domain import job as job_module
from tickwheel.domain.columns import FLAG_BUCKET_MASK, FLAG_BUCKET_SHIFT
from tickwheel.domain.run import RunState
from tickwheel.domain.tenants import NO_BUCKET, tenant_bucket
from tickwheel.ports.store import FirstTimer, NewJob

from .arena import FAR_MS, Arena
from .owner import Owner

PERIOD_MS = 600_000
TENANT = "tenant with bit 14 set 5"


async def buckets(arena: Arena) -> list[int]:
    rows = await arena.store.load_timers(0, FAR_MS, 100)
    found: list[int] = ((rows["flags"] & FLAG_BUCKET_MASK) >> FLAG_BUCKET_SHIFT).tolist()
    return found


async def go_round(arena: Arena, owner: Owner, once: NewJob, often: NewJob) -> None:
    """Run both, with a retry each, which leaves the next occurrence."""
    assert often.timer is not None
    next_ms = often.timer.due_ms + PERIOD_MS
    for new, following in ((once, -1), (often, next_ms)):
        held = await owner.win(new, next_ms=following)
        again = await owner.retry_later(held, 5)
        arena.clock.step_ms(5)
        assert (await owner.complete(await owner.win(new, again), RunState.SUCCEEDED)).applied
    assert (await arena.view(often)).live == FirstTimer(next_ms, next_ms, 1)


async def test_every_timer_carries_the_bucket_of_its_tenant(arena: Arena, owner: Owner) -> None:
    assert tenant_bucket(TENANT) >= 1024, "the highest bit has to come back too"
    once, often = arena.one_off(tenant_id=TENANT), arena.recurring(tenant_id=TENANT)
    many = [arena.one_off(arena.now_ms + 1, tenant_id=TENANT) for _ in range(70)]
    await arena.insert(once, often)
    await arena.insert(*many)
    assert await buckets(arena) == [tenant_bucket(TENANT)] * 72
    await go_round(arena, owner, once, often)
    assert set(await buckets(arena)) == {tenant_bucket(TENANT)}


async def test_timers_that_earlier_versions_stored_fire_and_share_one_bucket(
    arena: Arena, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    once, often = arena.one_off(tenant_id=TENANT), arena.recurring(tenant_id=TENANT)
    with monkeypatch.context() as before:
        before.setattr(job_module, "bucket_flags", lambda tenant_id: NO_BUCKET)
        await arena.insert(once, often)
    assert await buckets(arena) == [NO_BUCKET] * 2
    await go_round(arena, owner, once, often)
    [left] = [timer for timer in await arena.timers(often) if timer.gen > 0 and timer.due_ms > arena.now_ms]
    assert await arena.timers() == [left]
