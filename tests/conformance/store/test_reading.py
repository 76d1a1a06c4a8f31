import pytest

from tickwheel.domain.columns import CompletionCause
from tickwheel.domain.errors import BadCursor
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote, NewJob, Run

from .arena import Arena
from .decisions import cancel
from .owner import LEASE_MS, Owner


async def test_the_live_occurrence_is_shown_as_a_run_that_waits(arena: Arena) -> None:
    new = arena.recurring(arena.now_ms + 60_000)
    await arena.insert(new)
    run = await arena.run(new)
    assert (run.state, run.attempt, run.fence, run.attempts) == (RunState.SCHEDULED, 0, 0, ())
    assert (run.job_id, run.tenant_id, run.lane) == (new.job.job_id, new.job.tenant_id, new.job.lane)
    assert await arena.store.get_run("default", new.job.job_id, run.scheduled_ms + 1) is None
    assert (await arena.store.list_runs("default", new.job.job_id, 10, None)).items == ()


async def test_a_plain_success_has_one_attempt_and_its_times(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.win(new)
    claimed_ms = arena.now_ms
    arena.clock.step_ms(123)
    await owner.complete(held, RunState.SUCCEEDED, started_ms=claimed_ms + 1, http_status=204)
    run = await arena.run(new)
    assert (run.claimed_ms, run.started_ms, run.finished_ms) == (claimed_ms, claimed_ms + 1, arena.now_ms)
    assert (run.http_status, run.error, run.attempt, run.lost_count) == (204, None, 1, 0)
    [attempt] = run.attempts
    assert (attempt.attempt, attempt.fence, attempt.worker) == (1, held.fence, owner.worker)
    assert (attempt.started_ms, attempt.finished_ms) == (claimed_ms + 1, arena.now_ms)
    assert (attempt.outcome, attempt.http_status) == ("success", 204)


async def test_every_attempt_is_told_in_order(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    first = await owner.win(new)
    ended = await owner.complete(first, RunState.SCHEDULED, AttemptNote("bad gateway", "<html>"), http_status=502)
    second = await owner.win(new, ended.follow_up)
    arena.clock.step_ms(LEASE_MS)
    lost = AttemptNote("the worker was lost", None)
    ended = await owner.complete(
        second,
        RunState.SCHEDULED,
        lost,
        cause=CompletionCause.REAPER,
        outcome=OutcomeClass.LOST,
        http_status=0,
        lost_count=1,
    )
    third = await owner.win(new, ended.follow_up)
    open_words = [(a.attempt, a.outcome) for a in (await arena.run(new)).attempts]
    assert open_words == [(1, "retryable"), (2, "lost"), (3, "running")]
    await owner.complete(third, RunState.SUCCEEDED)
    attempts = (await arena.run(new)).attempts
    assert [(a.attempt, a.outcome, a.fence) for a in attempts] == [
        (1, "retryable", first.fence),
        (2, "lost", second.fence),
        (3, "success", third.fence),
    ]
    assert (attempts[0].error, attempts[0].excerpt, attempts[0].http_status) == ("bad gateway", "<html>", 502)
    assert (attempts[1].error, attempts[1].excerpt) == ("the worker was lost", None)


@pytest.mark.parametrize("max_attempts", [1, 4])
async def test_the_attempt_in_flight_is_shown_as_running(arena: Arena, owner: Owner, max_attempts: int) -> None:
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.win(new, max_attempts=max_attempts)
    for _ in range(2):
        [attempt] = (await arena.run(new)).attempts
        assert (attempt.attempt, attempt.fence, attempt.outcome) == (1, held.fence, "running")
        await owner.renew(held, mark_running=1)


async def test_a_long_success_is_told_once(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.win(new)
    started_ms = arena.now_ms
    arena.clock.step_ms(25_000)
    await owner.complete(held, RunState.SUCCEEDED, started_ms=started_ms)
    [attempt] = (await arena.run(new)).attempts
    assert (attempt.outcome, attempt.started_ms, attempt.finished_ms) == ("success", started_ms, arena.now_ms)


async def test_a_cancelled_attempt_is_shown_as_cancelled(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    await owner.win(new)
    await arena.store.change_job(new.job.tenant_id, new.job.job_id, cancel)
    run = await arena.run(new)
    assert [(a.attempt, a.outcome) for a in run.attempts] == [(1, "cancelled")]
    assert run.finished_ms == arena.now_ms


async def test_texts_of_an_attempt_survive_whatever_they_hold(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    error, excerpt = "ä\u2028 'quoted' \U0001f600 \x00 end", "line\r\nline\t\x01"
    await owner.complete(await owner.win(new), RunState.FAILED, AttemptNote(error, excerpt))
    run = await arena.run(new)
    shown = (run.error, run.attempts[0].error, run.attempts[0].excerpt)
    # PostgreSQL's texts can't hold a NUL; its sign stands for it.
    signed = error.replace("\0", "\u2400")
    assert shown in ((error, error, excerpt), (signed, signed, excerpt))


async def test_a_view_tells_what_is_open_what_came_last_and_what_runs(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    base, runs = arena.now_ms, []
    for number in range(4):
        live = (await arena.view(new)).live
        runs.append(await owner.win(new, live, next_ms=base + (number + 1) * 1000))
        arena.clock.step_ms(1000)
    await owner.complete(runs[0], RunState.SUCCEEDED)
    await owner.retry_later(runs[1], 9_000)
    await owner.complete(runs[3], RunState.FAILED)
    view = await arena.view(new)
    assert [(run.scheduled_ms - base, run.state) for run in view.open_runs] == [
        (1000, RunState.SCHEDULED),
        (2000, RunState.DISPATCHED),
    ]
    assert view.last_run is not None
    assert (view.last_run.scheduled_ms - base, view.last_run.state) == (3000, RunState.FAILED)
    assert view.current is not None
    assert (view.current.scheduled_ms - base, view.current.fence) == (2000, runs[2].fence)
    assert view.live is not None
    assert view.live.due_ms == base + 4000


async def test_listed_runs_look_as_they_do_alone(arena: Arena, owner: Owner) -> None:
    new, runs = await many_runs(arena, owner, 5)
    for run in runs:
        alone = await arena.store.get_run("default", new.job.job_id, run.scheduled_ms)
        assert alone is not None
        assert (alone.state, alone.fence, alone.gen) == (run.state, run.fence, run.gen)


async def many_runs(arena: Arena, owner: Owner, count: int) -> tuple[NewJob, list[Run]]:
    new = arena.recurring()
    await arena.insert(new)
    for _ in range(count):
        await one_more_run(arena, owner, new)
    page = await arena.store.list_runs("default", new.job.job_id, 100, None)
    return new, list(page.items)


async def one_more_run(arena: Arena, owner: Owner, new: NewJob) -> None:
    live = (await arena.view(new)).live
    assert live is not None
    arena.clock.step_ms(max(0, live.due_ms - arena.now_ms))
    held = await owner.win(new, live, next_ms=live.due_ms + 1000)
    await owner.complete(held, RunState.SUCCEEDED)


@pytest.mark.pitfall(77)
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_paging_runs_latest_first_gives_no_repeats_or_gaps(arena: Arena, owner: Owner, limit: int) -> None:
    new, runs = await many_runs(arena, owner, 8)
    seen, cursor = [], None
    while True:
        page = await arena.store.list_runs("default", new.job.job_id, limit, cursor)
        seen += [run.scheduled_ms for run in page.items]
        if (cursor := page.next_cursor) is None:
            break
        await one_more_run(arena, owner, new)
    assert seen == sorted((run.scheduled_ms for run in runs), reverse=True)


@pytest.mark.parametrize("cursor", ["", "x", "runs", "runs.x", "é", "%00"])
async def test_a_strange_cursor_is_refused(arena: Arena, owner: Owner, cursor: str) -> None:
    new, _ = await many_runs(arena, owner, 2)
    with pytest.raises(BadCursor):
        await arena.store.list_runs("default", new.job.job_id, 10, cursor)


async def test_a_cursor_belongs_to_one_tenant_and_job(arena: Arena, owner: Owner) -> None:
    new, _ = await many_runs(arena, owner, 2)
    other, _ = await many_runs(arena, owner, 2)
    cursor = (await arena.store.list_runs("default", new.job.job_id, 1, None)).next_cursor
    assert cursor is not None
    assert len((await arena.store.list_runs("default", new.job.job_id, 1, cursor)).items) == 1
    for tenant_id, job_id in (("acme", new.job.job_id), ("default", other.job.job_id)):
        with pytest.raises(BadCursor):
            await arena.store.list_runs(tenant_id, job_id, 1, cursor)


async def test_an_unknown_job_has_no_runs(arena: Arena) -> None:
    page = await arena.store.list_runs("default", arena.one_off().job.job_id, 10, None)
    assert (page.items, page.next_cursor) == ((), None)
