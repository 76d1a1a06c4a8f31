"""Notices: written with what they tell of, where a rule listens; and their groups, which one leader changes."""

import asyncio
from typing import cast

import pytest
from msgspec.structs import replace

from tickwheel.domain.job import JobState
from tickwheel.domain.notifications.kinds import DROPPED, Kind
from tickwheel.domain.run import RunState
from tickwheel.ports.notices import GroupKey, Groups, Notice, NoticeStore
from tickwheel.ports.registry import NO_TENANT, NOTIFICATION, Act, Record, Registry
from tickwheel.ports.store import AttemptNote, Change, JobView

from .arena import Arena
from .decisions import redrive
from .owner import REAPED, Owner

ACT = Act("test", "notification.put")
KEY = GroupKey("default", "ops", "run.dead_lettered/job_1")
OTHER = GroupKey("default", "ops", "ä\n'\u2028")


def store_of(arena: Arena) -> NoticeStore:
    return cast(NoticeStore, arena.store)


async def listen(arena: Arena, tenant_id: str = "default") -> None:
    record = Record(NOTIFICATION, tenant_id, "ops", "{}")
    await cast(Registry, arena.store).put_record(record, ACT, expected_version=None, shown="{}")


async def bury(arena: Arena, owner: Owner, tenant_id: str = "default") -> tuple[bytes, int]:
    new = arena.one_off(tenant_id=tenant_id)
    await arena.insert(new)
    held = await owner.win(new)
    await owner.complete(held, RunState.FAILED, AttemptNote("connection refused", None))
    assert new.timer is not None
    return new.job.job_id, new.timer.scheduled_ms


async def found(arena: Arena) -> list[Notice]:
    return list(await store_of(arena).notices(100))


async def test_without_a_rule_nothing_is_noted(arena: Arena, owner: Owner) -> None:
    await bury(arena, owner)
    await store_of(arena).add_notices([Notice(Kind.BURNING, NO_TENANT, subject="HIGH")])
    assert await found(arena) == []


async def test_a_buried_run_is_noted_for_the_rules_of_its_tenant(arena: Arena, owner: Owner) -> None:
    await listen(arena, "acme")
    await bury(arena, owner, "other")
    job_id, scheduled_ms = await bury(arena, owner, "acme")
    [notice] = await found(arena)
    assert (notice.kind, notice.tenant_id) == (Kind.DEAD_LETTERED, "acme")
    assert (notice.job_id, notice.scheduled_ms, notice.at_ms) == (job_id, scheduled_ms, arena.now_ms)
    assert "connection refused" in notice.detail


async def test_the_installation_hears_of_all_tenants(arena: Arena, owner: Owner) -> None:
    await listen(arena, NO_TENANT)
    await bury(arena, owner, "acme")
    await bury(arena, owner, "other")
    assert [notice.tenant_id for notice in await found(arena)] == ["acme", "other"]


async def test_a_run_that_is_buried_again_is_noted_again(arena: Arena, owner: Owner) -> None:
    await listen(arena)
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.win(new)
    await owner.complete(held, RunState.FAILED)
    await owner.complete(held, RunState.FAILED)  # a repeat of what is committed
    assert new.timer is not None
    changed = await arena.store.change_run("default", new.job.job_id, new.timer.scheduled_ms, redrive)
    assert changed is not None
    await owner.complete(await owner.win(new, changed.timers[0]), RunState.FAILED)
    assert len(await found(arena)) == 2


@pytest.mark.parametrize("lost", [False, True])
async def test_a_dropped_run_of_a_recurring_job_is_noted_where_a_rule_listens(
    arena: Arena, owner: Owner, lost: bool
) -> None:
    await listen(arena, "acme")
    note = AttemptNote("a NUL \0", None, buries=False)
    recurring = [arena.recurring(tenant_id=tenant_id) for tenant_id in ("acme", "other")]
    for new in (*recurring, arena.one_off(tenant_id="acme")):
        await arena.insert(new)
        held = await owner.win(new)
        arena.clock.step_ms(60_000)
        for _ in range(2):  # the second is a repeat of what is committed
            await owner.complete(held, RunState.FAILED, note, **(REAPED if lost else {}))
        assert (await arena.run(new)).state is RunState.FAILED
    job, timer = recurring[0].job, recurring[0].timer
    assert timer is not None
    [notice] = [notice for notice in await found(arena) if notice.kind != Kind.EXHAUSTED]
    assert (notice.kind, notice.tenant_id) == (DROPPED, "acme")
    assert (notice.job_id, notice.scheduled_ms) == (job.job_id, timer.scheduled_ms)
    assert notice.at_ms == arena.now_ms - 120_000
    assert notice.detail.startswith("a NUL ")


async def test_an_exhausted_schedule_is_noted_once(arena: Arena, owner: Owner) -> None:
    await listen(arena)
    new = arena.recurring()
    await arena.insert(new)
    held = await owner.win(new, next_ms=-1)
    await owner.complete(held, RunState.SUCCEEDED)
    view = await arena.store.get_job("default", new.job.job_id)
    assert view is not None
    assert view.job.state is JobState.COMPLETED
    [notice] = await found(arena)
    assert (notice.kind, notice.job_id, notice.tenant_id) == (Kind.EXHAUSTED, new.job.job_id, "default")


async def test_a_change_that_ends_a_schedule_is_noted(arena: Arena) -> None:
    await listen(arena)
    new = arena.recurring()
    await arena.insert(new)

    def end(view: JobView, now_ms: int) -> Change:
        return Change(job=replace(view.job, state=JobState.COMPLETED), drop_live=True)

    for _ in range(2):
        assert await arena.store.change_job("default", new.job.job_id, end) is not None
    assert [(notice.kind, notice.job_id) for notice in await found(arena)] == [(Kind.EXHAUSTED, new.job.job_id)]


async def test_added_notices_come_back_as_they_were(arena: Arena) -> None:
    await listen(arena, NO_TENANT)
    added = [
        Notice(Kind.BURNING, NO_TENANT, at_ms=5, subject="HIGH/tenant:ä'", detail="fast\n"),
        Notice(Kind.EXHAUSTED, "acme", bytes(range(16)), 7, 8, "s", "d"),
    ]
    await store_of(arena).add_notices(added)
    first, second = await found(arena)
    assert 0 < first.number < second.number
    assert [replace(first, number=0), replace(second, number=0)] == added
    assert list(await store_of(arena).notices(1)) == [first]


async def test_settling_takes_notices_away_and_writes_groups_in_one(arena: Arena) -> None:
    store = store_of(arena)
    await listen(arena, NO_TENANT)
    await store.add_notices([Notice(Kind.BURNING, NO_TENANT, subject=name) for name in ("a", "b")])
    first, second = await found(arena)
    assert await store.notice_groups() == Groups(0, {})
    assert await store.settle_notices(0, done=[first.number], put={KEY: '{"a":1}', OTHER: "{}"}, drop=[])
    assert await found(arena) == [second]
    assert await store.notice_groups() == Groups(1, {KEY: '{"a":1}', OTHER: "{}"})
    assert await store.settle_notices(1, done=[], put={KEY: '{"a":2}'}, drop=[OTHER])
    assert await store.notice_groups() == Groups(2, {KEY: '{"a":2}'})


async def test_a_leader_of_yesterday_settles_nothing(arena: Arena) -> None:
    store = store_of(arena)
    await listen(arena, NO_TENANT)
    await store.add_notices([Notice(Kind.BURNING, NO_TENANT, subject="a")])
    [notice] = await found(arena)
    assert await store.settle_notices(0, done=[], put={KEY: "{}"}, drop=[])
    for version in (0, 2):
        assert not await store.settle_notices(version, done=[notice.number], put={OTHER: "{}"}, drop=[KEY])
    assert await found(arena) == [notice]
    assert await store.notice_groups() == Groups(1, {KEY: "{}"})


async def test_of_two_leaders_at_once_one_settles(arena: Arena) -> None:
    store = store_of(arena)
    calls = [store.settle_notices(0, done=[], put={KEY: str(number)}, drop=[]) for number in range(2)]
    assert sorted(await asyncio.gather(*calls)) == [False, True]
    assert (await store.notice_groups()).version == 1


@pytest.mark.parametrize("numbers", [[], [10**15]])
async def test_settling_what_is_gone_changes_nothing_else(arena: Arena, numbers: list[int]) -> None:
    store = store_of(arena)
    assert await store.settle_notices(0, done=numbers, put={}, drop=[KEY])
    assert await store.notice_groups() == Groups(1, {})
