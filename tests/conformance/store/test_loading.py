import asyncio

import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import FLAG_HANDLER, FLAG_LANE_MASK, FLAG_RECURRING, TIMER
from tickwheel.domain.job import JobState, Lane, Target, TargetType, decode_spec
from tickwheel.domain.run import RunState
from tickwheel.ports.store import LedgerWrite

from .arena import SPEC, Arena, timer_values
from .decisions import cancel, edit, pause
from .owner import Owner


async def test_a_range_is_half_open(arena: Arena) -> None:
    base = arena.now_ms
    await arena.insert(*(arena.one_off(base + offset) for offset in range(5)))
    rows = await arena.store.load_timers(base + 1, base + 4, 100)
    assert rows.dtype == TIMER
    assert rows["due_ms"].tolist() == [base + 1, base + 2, base + 3]


async def test_nothing_waiting_gives_no_rows(arena: Arena) -> None:
    assert len(await arena.store.load_timers(0, arena.now_ms + 1, 10)) == 0


async def test_rows_carry_lane_and_kind(arena: Arena) -> None:
    handler = replace(SPEC, target=Target(TargetType.HANDLER, name="f"))
    plain = arena.one_off(arena.now_ms, lane=Lane.LOW)
    cron = arena.recurring(arena.now_ms + 1, lane=Lane.CRITICAL)
    local = arena.one_off(arena.now_ms + 2, lane=Lane.HIGH, spec=handler)
    await arena.insert(plain, cron, local)
    rows = await arena.store.load_timers(0, arena.now_ms + 10, 10)
    kinds = rows["flags"] & (FLAG_LANE_MASK | FLAG_RECURRING | FLAG_HANDLER)
    assert kinds.tolist() == [Lane.LOW, Lane.CRITICAL | FLAG_RECURRING, Lane.HIGH | FLAG_HANDLER]
    assert timer_values(rows) == [(new.job.job_id, new.timer) for new in (plain, cron, local)]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 50])
async def test_a_page_that_ends_within_a_tie_hides_nothing(arena: Arena, limit: int) -> None:
    base = arena.now_ms
    offsets = [0, 0, 0, 1, 2, 2, 2, 2, 2, 3, 5, 5, 9]
    await arena.insert(*(arena.one_off(base + offset, shard=n % 7) for n, offset in enumerate(offsets)))
    seen, from_ms = [], 0
    while len(page := await arena.store.load_timers(from_ms, base + 100, limit)):
        assert len(page) < limit + 5, "no more than one tie beyond the limit"
        seen += page.tolist()
        from_ms = int(page["due_ms"][-1]) + 1
    assert [row[0] - base for row in seen] == offsets
    assert len({row[1] for row in seen}) == len(offsets)


async def test_equal_due_times_keep_one_total_order(arena: Arena) -> None:
    base = arena.now_ms
    await arena.insert(*(arena.one_off(base + n % 2, shard=97 * n % 256) for n in range(40)))
    whole = (await arena.store.load_timers(0, base + 10, 100)).tolist()
    paged = [row for ms in (0, 1) for row in (await arena.store.load_timers(base + ms, base + ms + 1, 3)).tolist()]
    assert whole == paged
    await arena.restart()
    assert (await arena.store.load_timers(0, base + 10, 100)).tolist() == whole


async def test_runs_in_flight_and_retries_are_still_unresolved(arena: Arena, owner: Owner) -> None:
    flying, waiting, done = (arena.one_off() for _ in range(3))
    await arena.insert(flying, waiting, done)
    await owner.win(flying)
    follow_up = await owner.retry_later(await owner.win(waiting), 700)
    await owner.complete(await owner.win(done), RunState.SUCCEEDED)
    assert await arena.timers(flying) == [flying.timer]
    assert await arena.timers(waiting) == [follow_up]
    assert await arena.timers(done) == []
    assert (await arena.store.counts()).waiting == 2


async def test_resolved_runs_leave_no_timer(arena: Arena, owner: Owner) -> None:
    failed, cancelled, paused, edited = (
        arena.one_off(),
        arena.one_off(),
        arena.one_off(arena.now_ms + 5),
        arena.recurring(),
    )
    await arena.insert(failed, cancelled, paused, edited)
    await owner.complete(await owner.win(failed), RunState.FAILED)
    await owner.win(cancelled)
    await arena.store.change_job(cancelled.job.tenant_id, cancelled.job.job_id, cancel)
    await arena.store.change_job(paused.job.tenant_id, paused.job.job_id, pause)
    await arena.store.change_job(edited.job.tenant_id, edited.job.job_id, edit(arena.now_ms + 60_000))
    assert [timer.due_ms for timer in await arena.timers()] == [arena.now_ms + 60_000]


async def test_work_comes_in_the_order_asked_for(arena: Arena) -> None:
    one, two = arena.one_off(idempotency_key="k", payload=""), arena.recurring(effective_ms=99, version=4)
    await arena.insert(one, two)
    ghost = arena.one_off()
    work = await arena.store.load_work([two.job.job_id, ghost.job.job_id, one.job.job_id, two.job.job_id])
    assert work[1] is None
    assert work[0] == work[3]
    assert work[0] is not None
    assert work[2] is not None
    assert (work[0].version, work[0].effective_ms, work[0].payload) == (4, 99, two.job.payload)
    assert decode_spec(work[0].spec) == two.job.spec
    assert (work[2].tenant_id, work[2].name, work[2].idempotency_key) == (
        one.job.tenant_id,
        one.job.name,
        "k",
    )
    assert (work[2].state, work[2].payload) == (JobState.ACTIVE, "")


async def test_work_shows_an_edit_at_once(arena: Arena) -> None:
    new = arena.recurring()
    await arena.insert(new)
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, edit(arena.now_ms + 5))
    [work] = await arena.store.load_work([new.job.job_id])
    assert work is not None
    assert (work.version, work.effective_ms) == (2, arena.now_ms)


async def test_a_commit_is_seen_by_the_load_that_follows_it(arena: Arena) -> None:
    async def insert_and_load(offset: int) -> None:
        new = arena.one_off(arena.now_ms + offset)
        await arena.insert(new)
        rows = await arena.store.load_timers(arena.now_ms + offset, arena.now_ms + offset + 1, 10)
        assert rows["job_id"].tolist() == [new.job.job_id]

    await asyncio.gather(*(insert_and_load(n) for n in range(25)))


async def test_work_tells_which_instants_ahead_are_taken(arena: Arena, owner: Owner) -> None:
    at = [arena.now_ms + n * 60_000 for n in range(4)]
    new, other = arena.recurring(at[0]), arena.one_off()
    await arena.insert(new, other)
    ahead = [LedgerWrite(at[n], RunState.CANCELLED) for n in (0, 2, 3)]
    assert await arena.store.change_job("default", new.job.job_id, edit(at[1], *ahead)) is not None
    works = await arena.store.load_work([new.job.job_id, other.job.job_id])
    assert [work.taken_ms for work in works if work is not None] == [(at[2], at[3]), ()]
