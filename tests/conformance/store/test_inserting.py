import asyncio
import random

import pytest
from msgspec.structs import replace

from tickwheel.domain.job import Lane
from tickwheel.domain.run import RunState
from tickwheel.ports.store import FirstTimer, InsertStatus, NewJob

from .arena import Arena
from .decisions import delete
from .owner import Owner


async def test_what_is_inserted_is_read_back_exactly(arena: Arena) -> None:
    new = arena.one_off(
        arena.now_ms + 1,
        lane=Lane.CRITICAL,
        payload='{"z": 1.10, "a": "ä\\u0000\U0001f600", "big": 123456789012345678901234567890}',
        tags=("ops", "ä", "a b"),
        name="näme/1",
        idempotency_key="key-1",
        tenant_id="tenänt",
        effective_ms=7,
    )
    [answer] = await arena.insert(new)
    assert (answer.status, answer.job_id) == (InsertStatus.CREATED, new.job.job_id)
    view = await arena.view(new)
    assert view.job == new.job
    assert view.live == new.timer
    assert (view.open_runs, view.last_run, view.current) == ((), None, None)


async def test_a_recurring_definition_is_read_back_exactly(arena: Arena) -> None:
    new = arena.recurring(arena.now_ms + 60_000, named=True)
    await arena.insert(new)
    assert (await arena.view(new)).job == new.job


@pytest.mark.parametrize("due_ms", [1, 999, 86_400_000 - 1, 1_790_000_000_123, (1 << 45) + 7])
async def test_stored_instants_keep_their_milliseconds(arena: Arena, due_ms: int) -> None:
    new = arena.one_off(due_ms, created_ms=1_789_999_999_999, effective_ms=due_ms - 1)
    await arena.insert(new)
    view = await arena.view(new)
    assert (view.job.scheduled_ms, view.job.created_ms, view.job.effective_ms) == (
        due_ms,
        1_789_999_999_999,
        due_ms - 1,
    )
    # A store of a cluster moves a timer that is past up to its clock, so that none lands in what is closed (A2).
    clamped = FirstTimer(max(due_ms, arena.now_ms), due_ms, 1)
    assert await arena.timers() in ([new.timer], [clamped])


async def test_answers_come_in_the_order_given(arena: Arena) -> None:
    jobs = [arena.one_off(arena.now_ms + offset) for offset in (5, 1, 9, 3)]
    random.Random(4).shuffle(jobs)
    answers = await arena.insert(*jobs)
    assert [answer.job_id for answer in answers] == [new.job.job_id for new in jobs]


async def test_an_empty_insert_is_answered(arena: Arena) -> None:
    assert await arena.insert() == []


async def test_the_same_request_twice_gives_the_first_job(arena: Arena) -> None:
    first = arena.one_off(arena.now_ms + 500, idempotency_key="k")
    await arena.insert(first)
    arena.clock.step_ms(50)
    [again] = await arena.insert(arena.one_off(arena.now_ms + 500, idempotency_key="k"))
    assert again.status is InsertStatus.REPLAYED
    assert again.job_id == first.job.job_id
    assert again.next_ms == first.job.scheduled_ms
    assert again.created_ms == first.job.created_ms
    assert (await arena.store.counts()).jobs == 1
    assert await arena.timers() == [first.timer]


async def test_another_request_under_a_used_key_writes_nothing(arena: Arena) -> None:
    first = arena.one_off(idempotency_key="k")
    other = replace(arena.one_off(idempotency_key="k"), request_hash=b"other")
    await arena.insert(first)
    [answer] = await arena.insert(other)
    assert answer.status is InsertStatus.KEY_CONFLICT
    assert await arena.store.get_job(other.job.tenant_id, other.job.job_id) is None
    assert (await arena.store.counts()).jobs == 1
    assert await arena.timers() == [first.timer]


async def test_keys_are_compared_within_one_batch_too(arena: Arena) -> None:
    first, same, free = (arena.one_off(idempotency_key=key) for key in ("k", "k", None))
    other = replace(arena.one_off(idempotency_key="k"), request_hash=b"other")
    answers = await arena.insert(first, same, other, free)
    assert [answer.status for answer in answers] == [
        InsertStatus.CREATED,
        InsertStatus.REPLAYED,
        InsertStatus.KEY_CONFLICT,
        InsertStatus.CREATED,
    ]
    assert answers[1].job_id == first.job.job_id
    assert (await arena.store.counts()).jobs == 2


async def test_a_key_belongs_to_its_tenant(arena: Arena) -> None:
    mine = arena.one_off(idempotency_key="k", tenant_id="a")
    yours = replace(arena.one_off(idempotency_key="k", tenant_id="b"), request_hash=b"other")
    answers = await arena.insert(mine, yours)
    assert [answer.status for answer in answers] == [InsertStatus.CREATED] * 2


async def test_a_forgotten_key_is_free_again(arena: Arena) -> None:
    first, second = arena.one_off(idempotency_key="k"), arena.one_off(idempotency_key="k")
    await arena.insert(first)
    await arena.store.change_job(first.job.tenant_id, first.job.job_id, delete)
    [answer] = await arena.insert(replace(second, request_hash=b"other"))
    assert (answer.status, answer.job_id) == (InsertStatus.CREATED, second.job.job_id)


async def test_repeating_a_batch_whose_answer_was_lost_changes_nothing(arena: Arena) -> None:
    jobs = [arena.one_off(arena.now_ms + 5), arena.recurring(), arena.one_off(idempotency_key="k")]
    await arena.insert(*jobs)
    timers = await arena.timers()
    answers = await arena.insert(*jobs)
    assert [answer.job_id for answer in answers] == [new.job.job_id for new in jobs]
    assert all(answer.status is not InsertStatus.KEY_CONFLICT for answer in answers)
    assert await arena.timers() == timers
    assert (await arena.store.counts()).jobs == 3


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_late_repeat_of_an_insert_does_not_run_the_job_again(
    arena: Arena, owner: Owner, key: str | None
) -> None:
    new = arena.one_off(idempotency_key=key)
    await arena.insert(new)
    await owner.complete(await owner.win(new), RunState.SUCCEEDED)
    [answer] = await arena.insert(new)
    assert answer.job_id == new.job.job_id
    assert await arena.timers() == []
    assert (await arena.run(new)).state is RunState.SUCCEEDED


@pytest.mark.pitfall(86)
async def test_of_concurrent_inserts_with_one_key_exactly_one_job_exists(arena: Arena) -> None:
    jobs = [arena.one_off(arena.now_ms + 100, idempotency_key="k") for _ in range(20)]
    answers = [answer for [answer] in await asyncio.gather(*(arena.insert(new) for new in jobs))]
    assert [answer.status for answer in answers].count(InsertStatus.CREATED) == 1
    assert [answer.status for answer in answers].count(InsertStatus.REPLAYED) == 19
    [job_id] = {answer.job_id for answer in answers}
    assert await arena.store.get_job(jobs[0].job.tenant_id, job_id) is not None
    assert (await arena.store.counts()).jobs == 1


@pytest.mark.pitfall(86)
async def test_a_caller_that_gives_up_midway_takes_no_other_callers_job_with_it(arena: Arena) -> None:
    for number in range(10):
        first, second = arena.one_off(idempotency_key=f"k{number}"), arena.one_off(idempotency_key=f"k{number}")
        quitter = asyncio.ensure_future(arena.insert(first))
        stayer = asyncio.ensure_future(arena.insert(second))
        await asyncio.sleep(0)
        quitter.cancel()
        await asyncio.gather(quitter, return_exceptions=True)
        [answer] = await stayer
        assert await arena.store.get_job(first.job.tenant_id, answer.job_id) is not None


async def test_concurrent_inserts_are_all_kept(arena: Arena) -> None:
    batches = [[arena.one_off(arena.now_ms + n) for n in range(7)] for _ in range(30)]
    await asyncio.gather(*(arena.insert(*batch) for batch in batches))
    due = sorted(new.job.job_id for batch in batches for new in batch)
    rows = await arena.store.load_timers(0, arena.now_ms + 100, 10_000)
    assert sorted(rows["job_id"].tolist()) == due


async def test_a_job_belongs_to_its_tenant(arena: Arena) -> None:
    new = arena.one_off(tenant_id="a")
    await arena.insert(new)
    assert await arena.store.get_job("b", new.job.job_id) is None
    assert await arena.store.get_run("b", new.job.job_id, arena.now_ms) is None
    assert (await arena.store.list_runs("b", new.job.job_id, 10, None)).items == ()


async def test_a_job_without_any_occurrence_has_no_timer(arena: Arena) -> None:
    new = NewJob(arena.recurring().job, None)
    await arena.insert(new)
    assert (await arena.view(new)).live is None
    assert await arena.timers() == []


async def test_an_id_that_ends_in_nul_bytes_stays_whole(arena: Arena) -> None:
    new = arena.one_off()
    job_id = new.job.job_id[:10] + b"\x00\x01\x00\x00\x00\x00"
    new = replace(new, job=replace(new.job, job_id=job_id))
    await arena.insert(new)
    rows = await arena.store.load_timers(0, arena.now_ms + 1, 10)
    assert rows["job_id"].tolist() == [job_id]
    assert (await arena.view(new)).job.job_id == job_id


BATCH = 40
"""Enough for a store to write them in a way of its own."""


async def test_a_large_batch_is_read_back_exactly(arena: Arena) -> None:
    jobs = [
        arena.one_off(
            arena.now_ms + number % 7 - 3,
            shard=number % 5,
            lane=Lane(number % 4),
            payload=f'{{"ä\\u0000": "{"x" * number}"}}',
            name=f"näme/{number % 3}",
            tenant_id=f"tenänt-{number % 2}",
            effective_ms=number,
        )
        for number in range(BATCH)
    ]
    answers = await arena.insert(*jobs)
    assert [(answer.status, answer.job_id) for answer in answers] == [
        (InsertStatus.CREATED, new.job.job_id) for new in jobs
    ]
    for new in jobs:
        view = await arena.view(new)
        assert view.job == new.job
        assert view.live is not None
        assert view.live.due_ms in (new.job.scheduled_ms, max(arena.now_ms, new.job.scheduled_ms or 0))
    assert len(await arena.timers()) == BATCH


@pytest.mark.parametrize("years", [0, 3])
async def test_a_large_batch_for_a_time_that_nobody_has_made_room_for_is_stored(arena: Arena, years: int) -> None:
    due_ms = arena.now_ms + years * 365 * 86_400_000 + 40 * 86_400_000
    jobs = [arena.one_off(due_ms + number, shard=number % 5) for number in range(BATCH)]
    assert {answer.status for answer in await arena.insert(*jobs)} == {InsertStatus.CREATED}
    assert (await arena.view(jobs[-1])).job == jobs[-1].job


async def test_a_large_batch_that_was_sent_again_writes_what_is_not_there_yet(arena: Arena) -> None:
    jobs = [arena.one_off(arena.now_ms + number, shard=number % 5) for number in range(BATCH)]
    await arena.insert(*jobs[10:20])
    answers = await arena.insert(*jobs)
    expected = [InsertStatus.REPLAYED if 10 <= number < 20 else InsertStatus.CREATED for number in range(BATCH)]
    assert [answer.status for answer in answers] == expected
    assert len(await arena.timers()) == BATCH


def kinds_of_jobs(arena: Arena, counts: tuple[int, ...]) -> list[NewJob]:
    """Stretches of jobs that differ in id, instants and payload only."""
    return [
        arena.one_off(
            arena.now_ms + 7 * number,
            shard=number,
            name=f"kind {kind} ä",
            tenant_id=f"tenant {kind % 2}",
            lane=Lane(kind % 4),
            payload=f'{{"n":{number},"text":"ä\u2028"}}' if number % 3 else "",
            created_ms=arena.now_ms - number,
            effective_ms=arena.now_ms - number,
            updated_ms=0,
        )
        for kind, count in enumerate(counts)
        for number in range(count)
    ]


@pytest.mark.parametrize("counts", [(1,), (40,), (90,), (30, 50, 40), (3, 1, 2)])
async def test_batches_of_few_kinds_are_read_back_exactly(arena: Arena, counts: tuple[int, ...]) -> None:
    jobs = kinds_of_jobs(arena, counts)
    answers = await arena.insert(*jobs)
    assert [answer.status for answer in answers] == [InsertStatus.CREATED] * len(jobs)
    for new in jobs:
        view = await arena.view(new)
        assert (view.job, view.live) == (new.job, new.timer)
    rows = await arena.store.load_timers(0, arena.now_ms + 10_000, 1_000)
    flags = {new.job.job_id: new.job.timer_flags for new in jobs}
    assert {row["job_id"].tobytes(): int(row["flags"]) for row in rows} == flags


@pytest.mark.parametrize("counts", [(90,), (30, 50, 40)])
async def test_of_a_batch_of_few_kinds_what_is_stored_already_is_a_replay(
    arena: Arena, counts: tuple[int, ...]
) -> None:
    jobs = kinds_of_jobs(arena, counts)
    await arena.insert(jobs[-1])
    answers = await arena.insert(*jobs, jobs[0])
    first, last = InsertStatus.CREATED, InsertStatus.REPLAYED
    assert [answer.status for answer in answers] == [first] * (len(jobs) - 1) + [last] * 2
    assert [answer.job_id for answer in answers] == [new.job.job_id for new in (*jobs, jobs[0])]
    assert (await arena.store.counts()).jobs == len(jobs)
    assert len(await arena.timers()) == len(jobs)
