import random
from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.domain.errors import BadCursor, UnsupportedFilter
from tickwheel.domain.job import Lane, ScheduleType
from tickwheel.domain.run import RunState
from tickwheel.ports.store import FirstTimer, JobOrder, JobQuery, JobView, NewJob

from .arena import Arena
from .decisions import cancel, delete, edit, pause
from .owner import Owner

DEFAULT = JobQuery("default")


async def walk(arena: Arena, query: JobQuery) -> list[JobView]:
    """All pages of a list; a page may be short and still have a successor."""
    items: list[JobView] = []
    for _ in range(500):
        page = await arena.store.list_jobs(query)
        assert len(page.items) <= query.limit
        items += page.items
        if page.next_cursor is None:
            return items
        query = replace(query, after=page.next_cursor)
    raise AssertionError("the list never ends")


async def ids(arena: Arena, query: JobQuery) -> set[bytes]:
    found = [view.job.job_id for view in await walk(arena, query)]
    assert len(found) == len(set(found)), "an item came twice"
    return set(found)


async def insert_some(arena: Arena, count: int, **fields: object) -> list[NewJob]:
    """Jobs of which some share their creation instant, due in random order."""
    instants = random.Random(7).sample(range(count * 3), count)
    jobs = []
    for number in range(count):
        make = arena.recurring if number % 3 == 0 else arena.one_off
        jobs.append(make(arena.now_ms + 1000 + instants[number] // 2, shard=(number * 91) % 256, **fields))
        arena.clock.step_ms(number % 2)
    await arena.insert(*jobs)
    return jobs


@pytest.mark.pitfall(77)
@pytest.mark.parametrize("order", list(JobOrder))
@pytest.mark.parametrize("limit", [1, 4, 100])
async def test_walking_under_inserts_gives_no_repeats_or_gaps(arena: Arena, order: JobOrder, limit: int) -> None:
    base = arena.now_ms
    before = {new.job.job_id for new in await insert_some(arena, 25)}
    seen: list[bytes] = []
    query = replace(DEFAULT, limit=limit, order=order)
    while True:
        page = await arena.store.list_jobs(query)
        assert len(page.items) <= limit
        seen += [view.job.job_id for view in page.items]
        if page.next_cursor is None:
            break
        query = replace(query, after=page.next_cursor)
        if len(seen) < 60:
            await arena.insert(arena.one_off(base + 1001), arena.one_off(base + 1020, shard=200))
        arena.clock.step_ms(1)
    assert len(seen) == len(set(seen)), "no repeats"
    assert before <= set(seen), "no gaps"


@pytest.mark.parametrize("limit", [1, 3, 10, 100])
async def test_newest_come_first(arena: Arena, limit: int) -> None:
    jobs = await insert_some(arena, 20)
    created = [view.job.created_ms for view in await walk(arena, replace(DEFAULT, limit=limit))]
    assert created == sorted((new.job.created_ms for new in jobs), reverse=True)


@pytest.mark.parametrize("limit", [1, 3, 10, 100])
async def test_soonest_due_come_first_and_only_what_waits(arena: Arena, owner: Owner, limit: int) -> None:
    jobs = await insert_some(arena, 20)
    started = arena.one_off()
    await arena.insert(started)
    await owner.win(started)
    views = await walk(arena, replace(DEFAULT, order=JobOrder.DUE, limit=limit))
    due = [view.live.due_ms for view in views if view.live is not None]
    assert due == sorted(new.timer.due_ms for new in jobs if new.timer is not None)


async def test_the_last_page_has_no_cursor(arena: Arena) -> None:
    jobs = await insert_some(arena, 4)
    page = await arena.store.list_jobs(replace(DEFAULT, limit=100))
    assert (len(page.items), page.next_cursor) == (len(jobs), None)
    assert (await arena.store.list_jobs(JobQuery("nobody"))).items == ()


async def test_listed_jobs_look_as_they_do_alone(arena: Arena, owner: Owner) -> None:
    running, waiting = arena.one_off(), arena.recurring()
    await arena.insert(running, waiting)
    await owner.renew(await owner.win(running), mark_running=1)
    await owner.retry_later(await owner.win(waiting, next_ms=arena.now_ms + 60_000), 500)
    for view in await walk(arena, DEFAULT):
        assert view == await arena.store.get_job("default", view.job.job_id)


async def test_tenants_see_their_own_jobs(arena: Arena) -> None:
    mine = await insert_some(arena, 3, tenant_id="a")
    await insert_some(arena, 3, tenant_id="b")
    assert await ids(arena, JobQuery("a")) == {new.job.job_id for new in mine}


async def test_deleted_jobs_are_not_listed(arena: Arena) -> None:
    kept, gone = await insert_some(arena, 2)
    await arena.store.change_job("default", gone.job.job_id, delete)
    for order in JobOrder:
        assert await ids(arena, replace(DEFAULT, order=order)) == {kept.job.job_id}


async def test_a_status_is_a_one_offs_run_state(arena: Arena, owner: Owner) -> None:
    states = (RunState.RUNNING, RunState.DISPATCHED, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)
    jobs = {state.name: arena.one_off() for state in states}
    jobs["PAUSED"], jobs["SCHEDULED"] = arena.one_off(), arena.one_off(arena.now_ms + 5)
    await arena.insert(*jobs.values())
    held = {state: await owner.win(jobs[state.name]) for state in states}
    await owner.renew(held[RunState.RUNNING], mark_running=1)
    await owner.complete(held[RunState.SUCCEEDED], RunState.SUCCEEDED)
    await owner.complete(held[RunState.FAILED], RunState.FAILED)
    await arena.store.change_job("default", jobs["CANCELLED"].job.job_id, cancel)
    await arena.store.change_job("default", jobs["PAUSED"].job.job_id, pause)
    for status, new in jobs.items():
        assert await ids(arena, replace(DEFAULT, status=status, limit=2)) == {new.job.job_id}, status


async def test_a_status_is_a_recurring_jobs_own_state(arena: Arena, owner: Owner) -> None:
    active, paused, cancelled, completed = (arena.recurring() for _ in range(4))
    await arena.insert(active, paused, cancelled, completed)
    await owner.win(active, next_ms=arena.now_ms + 5)
    await owner.win(completed, next_ms=-1)
    await arena.store.change_job("default", paused.job.job_id, pause)
    await arena.store.change_job("default", cancelled.job.job_id, cancel)
    wanted = {"SCHEDULED": active, "PAUSED": paused, "CANCELLED": cancelled, "COMPLETED": completed}
    for status, new in wanted.items():
        assert await ids(arena, replace(DEFAULT, status=status)) == {new.job.job_id}, status


async def test_a_waiting_retry_is_scheduled(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    await owner.retry_later(await owner.win(new), 500)
    assert await ids(arena, replace(DEFAULT, status="SCHEDULED")) == {new.job.job_id}
    assert await ids(arena, replace(DEFAULT, status="DISPATCHED")) == set()


@pytest.mark.parametrize("prefix", ["nightly", "nightly-a", "näh%", "a_", "A"])
async def test_a_name_prefix_is_taken_literally(arena: Arena, prefix: str) -> None:
    names = ["nightly", "nightly-a", "nightly-b", "Nightly-a", "näh%en", "nähen", "a_b", "axb", "xa_b"]
    jobs = [arena.one_off(arena.now_ms + 5, name=name) for name in names]
    await arena.insert(*jobs)
    wanted = {new.job.job_id for new in jobs if new.job.name.startswith(prefix)}
    assert await ids(arena, replace(DEFAULT, name_prefix=prefix, limit=2)) == wanted


async def test_filters_by_kind_lane_and_tag(arena: Arena) -> None:
    cron = arena.recurring(arena.now_ms + 5, lane=Lane.LOW, tags=("x", "y"))
    plain = arena.one_off(arena.now_ms + 5, lane=Lane.HIGH, tags=("xy",))
    delayed = arena.one_off(arena.now_ms + 5, schedule_type=ScheduleType.DELAYED, tags=("y",))
    await arena.insert(cron, plain, delayed)
    cases: list[tuple[dict[str, Any], set[NewJob]]] = [
        ({"schedule_type": ScheduleType.CRON}, {cron}),
        ({"schedule_type": ScheduleType.DELAYED}, {delayed}),
        ({"lane": Lane.HIGH}, {plain}),
        ({"lane": Lane.CRITICAL}, set()),
        ({"tag": "x"}, {cron}),
        ({"tag": "y"}, {cron, delayed}),
        ({"tag": "z"}, set()),
    ]
    for fields, wanted in cases:
        found = await ids(arena, replace(DEFAULT, limit=1, **fields))
        assert found == {new.job.job_id for new in wanted}, fields


async def test_a_due_range_is_half_open(arena: Arena) -> None:
    base = arena.now_ms + 100
    jobs = [arena.one_off(base + offset) for offset in range(5)]
    await arena.insert(*jobs)
    query = replace(DEFAULT, order=JobOrder.DUE, limit=2)
    for from_ms, to_ms, wanted in [(1, 3, jobs[1:3]), (None, 2, jobs[:2]), (3, None, jobs[3:])]:
        bounds = {
            "due_from_ms": None if from_ms is None else base + from_ms,
            "due_to_ms": None if to_ms is None else base + to_ms,
        }
        assert await ids(arena, replace(query, **bounds)) == {new.job.job_id for new in wanted}


@pytest.mark.parametrize("order", list(JobOrder))
async def test_combined_filters_all_match_or_are_refused(arena: Arena, order: JobOrder) -> None:
    jobs = []
    for number in range(24):
        make = arena.recurring if number % 2 else arena.one_off
        lane = Lane.LOW if number % 3 else Lane.HIGH
        jobs.append(make(arena.now_ms + 5, name=f"n{number % 4}", lane=lane, tags=("t",) * (number % 2)))
    await arena.insert(*jobs)
    combinations: list[dict[str, Any]] = [
        {"name_prefix": "n1", "lane": Lane.LOW},
        {"tag": "t", "lane": Lane.HIGH},
        {"schedule_type": ScheduleType.CRON, "name_prefix": "n"},
        {"status": "SCHEDULED", "lane": Lane.LOW, "tag": "t"},
        {"due_from_ms": arena.now_ms + 5, "due_to_ms": arena.now_ms + 6, "name_prefix": "n2"},
    ]
    for fields in combinations:
        try:
            found = await ids(arena, replace(DEFAULT, order=order, limit=3, **fields))
        except UnsupportedFilter:
            continue
        wanted = {
            new.job.job_id
            for new in jobs
            if new.job.name.startswith(fields.get("name_prefix", ""))
            and fields.get("lane") in (None, new.job.lane)
            and (fields.get("tag") is None or fields["tag"] in new.job.tags)
            and fields.get("schedule_type") in (None, new.job.schedule_type)
        }
        assert found == wanted, fields


@pytest.mark.parametrize("order", list(JobOrder))
@pytest.mark.parametrize("cursor", ["", "x", "created", "due.", "é", "created.x.y", "%00", "0.0.0.0.0"])
async def test_a_strange_cursor_is_refused(arena: Arena, order: JobOrder, cursor: str) -> None:
    await insert_some(arena, 3)
    with pytest.raises(BadCursor):
        await arena.store.list_jobs(replace(DEFAULT, order=order, after=cursor))


async def test_a_cursor_belongs_to_one_order(arena: Arena) -> None:
    await insert_some(arena, 3)
    for order, other in (tuple(JobOrder), tuple(JobOrder)[::-1]):
        cursor = (await arena.store.list_jobs(replace(DEFAULT, order=order, limit=1))).next_cursor
        assert cursor is not None
        with pytest.raises(BadCursor):
            await arena.store.list_jobs(replace(DEFAULT, order=other, after=cursor))


@pytest.mark.parametrize("order", list(JobOrder))
async def test_a_cursor_belongs_to_one_tenant_and_its_filters(arena: Arena, order: JobOrder) -> None:
    await insert_some(arena, 3)
    await insert_some(arena, 3, tenant_id="acme")
    query = replace(DEFAULT, order=order, limit=1)
    cursor = (await arena.store.list_jobs(query)).next_cursor
    assert cursor is not None
    assert len(cursor) < 120
    assert (await arena.store.list_jobs(replace(query, limit=2, after=cursor))).items, "another limit is fine"
    for other in (
        replace(query, tenant_id="acme"),
        replace(query, tenant_id="nobody"),
        replace(query, lane=Lane.DEFAULT),
        replace(query, name_prefix="job"),
    ):
        with pytest.raises(BadCursor):
            await arena.store.list_jobs(replace(other, after=cursor))


async def test_a_job_whose_due_time_moved_is_listed_where_it_is_now(arena: Arena) -> None:
    jobs = [arena.recurring(arena.now_ms + offset) for offset in (10, 20, 30)]
    await arena.insert(*jobs)
    await arena.store.change_job("default", jobs[0].job.job_id, edit(arena.now_ms + 25))
    views = await walk(arena, replace(DEFAULT, order=JobOrder.DUE, limit=1))
    assert [view.job.job_id for view in views] == [jobs[n].job.job_id for n in (1, 0, 2)]
    assert views[1].live == FirstTimer(arena.now_ms + 25, arena.now_ms + 25, 2)
