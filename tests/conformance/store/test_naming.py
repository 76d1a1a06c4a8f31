import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.errors import Conflict
from tickwheel.domain.job import JobState
from tickwheel.ports.store import Change, FirstTimer, JobView, NamedDecision, NewJob

from .arena import Arena
from .decisions import delete
from .owner import Owner

PERIOD_MS = 60_000


def put(new: NewJob) -> NamedDecision:
    """What a deploy script's PUT means: create, leave alone if it is the same, else a new version."""

    def decide(view: JobView | None, now_ms: int) -> NewJob | Change:
        if view is None:
            return new
        if view.job.spec == new.job.spec and view.job.payload == new.job.payload:
            return Change()
        job = replace(
            view.job,
            spec=new.job.spec,
            payload=new.job.payload,
            version=view.job.version + 1,
            effective_ms=now_ms,
        )
        assert new.timer is not None
        timer = replace(new.timer, gen=job.version)
        return Change(job=job, drop_live=True, timer=timer)

    return decide


def named(arena: Arena, name: str = "nightly", **fields: Any) -> NewJob:
    return arena.recurring(arena.now_ms + PERIOD_MS, name=name, named=True, **fields)


@pytest.mark.pitfall(28)
async def test_putting_the_same_job_ten_times_leaves_one_next_occurrence(arena: Arena) -> None:
    for _ in range(10):
        await arena.store.put_named("default", "nightly", put(named(arena)))
        arena.clock.step_ms(100)
        await arena.restart()
    assert len(await arena.timers()) == 1
    assert (await arena.store.counts()).jobs == 1


@pytest.mark.pitfall(28)
async def test_concurrent_puts_create_one_job(arena: Arena) -> None:
    news = [named(arena) for _ in range(15)]
    answers = await asyncio.gather(*(arena.store.put_named("default", "nightly", put(new)) for new in news))
    [job_id] = {answer.view.job.job_id for answer in answers}
    assert [timer for answer in answers for timer in answer.timers] == await arena.timers()
    assert len(await arena.timers()) == 1
    assert (await arena.store.get_job("default", job_id)) == answers[-1].view


async def test_the_answer_to_a_put_is_what_is_stored(arena: Arena) -> None:
    new = named(arena)
    created = await arena.store.put_named("default", "nightly", put(new))
    assert (created.view.job, created.view.live, created.timers) == (new.job, new.timer, (new.timer,))
    edited = replace(named(arena), job=replace(new.job, payload="2"))
    changed = await arena.store.put_named("default", "nightly", put(edited))
    assert (changed.view.job.job_id, changed.view.job.version) == (new.job.job_id, 2)
    assert await arena.view(new) == changed.view
    assert await arena.timers() == list(changed.timers)


@pytest.mark.pitfall(94)
async def test_a_put_with_another_pattern_replaces_the_pending_occurrence(arena: Arena, owner: Owner) -> None:
    new = named(arena)
    await arena.store.put_named("default", "nightly", put(new))
    later_ms = arena.now_ms + 8 * 3_600_000
    other = NewJob(replace(new.job, payload="2"), FirstTimer(later_ms, later_ms, 1))
    await arena.store.put_named("default", "nightly", put(other))
    assert await arena.timers() == [FirstTimer(later_ms, later_ms, 2)]
    arena.clock.step_ms(PERIOD_MS)
    assert (await owner.claim(new, next_ms=arena.now_ms + 1)).verdict is ClaimVerdict.RESOLVED


@pytest.mark.pitfall(95)
async def test_a_name_that_was_deleted_and_put_again_fires(arena: Arena, owner: Owner) -> None:
    old = named(arena)
    await arena.store.put_named("default", "nightly", put(old))
    await arena.store.change_job("default", old.job.job_id, delete)
    arena.clock.step_ms(100)
    new = named(arena)
    changed = await arena.store.put_named("default", "nightly", put(new))
    assert changed.view.job.job_id == new.job.job_id
    assert await arena.timers() == [new.timer]
    arena.clock.step_ms(PERIOD_MS)
    assert (await owner.win(new, next_ms=arena.now_ms + PERIOD_MS)).attempt == 1
    assert await arena.store.get_job("default", old.job.job_id) is None


async def test_names_belong_to_tenants(arena: Arena) -> None:
    for tenant_id in ("a", "b"):
        await arena.store.put_named(tenant_id, "nightly", put(named(arena, tenant_id=tenant_id)))
    assert (await arena.store.counts()).jobs == 2


async def test_jobs_that_only_share_the_name_are_not_put_over(arena: Arena) -> None:
    plain = arena.recurring(arena.now_ms + 5, name="nightly")
    await arena.insert(plain)
    await arena.store.put_named("default", "nightly", put(named(arena)))
    assert (await arena.view(plain)).job == plain.job
    assert (await arena.store.counts()).jobs == 2


async def test_a_refused_put_writes_nothing(arena: Arena) -> None:
    new = named(arena)
    await arena.store.put_named("default", "nightly", put(new))

    def refuse(view: JobView | None, now_ms: int) -> NewJob | Change:
        assert view is not None
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        await arena.store.put_named("default", "nightly", refuse)
    assert (await arena.view(new)).job == new.job


async def test_a_deleted_job_is_gone_for_readers_and_changers(arena: Arena) -> None:
    new = named(arena)
    await arena.store.put_named("default", "nightly", put(new))
    changed = await arena.store.change_job("default", new.job.job_id, delete)
    assert changed is not None
    assert changed.view.job.state is JobState.DELETED
    assert await arena.store.get_job("default", new.job.job_id) is None
    assert await arena.store.change_job("default", new.job.job_id, delete) is None
    assert (await arena.store.counts()).jobs == 0
    assert await arena.timers() == []
