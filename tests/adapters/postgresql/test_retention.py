"""What retention deletes when whole days go, and what it keeps: the same promises as every store's."""

import pytest

from tickwheel.domain.columns import ClaimVerdict
from tickwheel.domain.ids import DAY_MS
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote, InsertStatus, NewJob

from ...conformance.store.decisions import cancel, delete, pause, redrive, resume
from ...conformance.store.owner import Held
from .calendar import Calendar


async def test_history_goes_by_days(calendar: Calendar) -> None:
    old = [await calendar.finish() for _ in range(3)]
    failed = await calendar.finish()
    follow_up = await calendar.owner.retry_later(await _start(calendar))
    calendar.go_to(2.5)
    young = await calendar.finish()
    assert await calendar.pass_to(3.5) >= 8
    for new in (*old, failed):
        assert not await calendar.is_there(new)
        assert await calendar.store.get_run("default", new.job.job_id, new.job.scheduled_ms or 0) is None
        assert (await calendar.store.list_runs("default", new.job.job_id, 10, None)).items == ()
        assert (await calendar.owner.claim(new)).verdict in (ClaimVerdict.UNRESOLVED, ClaimVerdict.RESOLVED)
    assert (await calendar.arena.run(young)).state is RunState.SUCCEEDED
    assert calendar.rows("SELECT count(*) FROM tickwheel.attempts") == [(1,)], "of the run that waits"
    assert follow_up.gen == -1


async def _start(calendar: Calendar) -> Held:
    new = calendar.arena.one_off()
    await calendar.arena.insert(new)
    return await calendar.owner.win(new)


async def test_what_is_not_over_keeps_its_row_and_lets_the_rest_go(calendar: Calendar) -> None:
    """A leaf is exchanged for one that holds only what is still needed."""
    arena, owner = calendar.arena, calendar.owner
    gone = [await calendar.finish() for _ in range(5)]
    flying, retrying, paused = (arena.one_off() for _ in range(3))
    chain = arena.recurring()
    await arena.insert(flying, retrying, paused, chain)
    await owner.win(flying)
    follow_up = await owner.retry_later(await owner.win(retrying), 30 * DAY_MS)
    await calendar.store.change_job("default", paused.job.job_id, pause)
    held = await owner.win(chain, next_ms=arena.now_ms + 20 * DAY_MS)
    await owner.complete(held, RunState.SUCCEEDED)
    await calendar.pass_to(5)
    for new in (flying, retrying, paused, chain):
        assert await calendar.is_there(new)
    for new in gone:
        assert not await calendar.is_there(new)
    assert (await arena.run(flying)).state is RunState.DISPATCHED
    assert len((await arena.run(retrying)).attempts) == 1
    assert await arena.timers(retrying) == [follow_up]
    assert await calendar.store.get_run("default", chain.job.job_id, held.timer.scheduled_ms) is None
    changed = await calendar.store.change_job("default", paused.job.job_id, resume(arena.now_ms))
    assert changed is not None
    assert (await owner.win(paused, changed.timers[0])).attempt == 1


async def test_dead_letters_stay_until_they_are_dropped(calendar: Calendar) -> None:
    redriven, dropped = [await calendar.finish(RunState.FAILED) for _ in range(2)]
    await calendar.finish()
    instant = calendar.clock.now_ms()
    await calendar.pass_to(5)
    letters = (await calendar.store.list_dead("default", 10, None)).items
    assert {letter.run.job_id for letter in letters} == {redriven.job.job_id, dropped.job.job_id}
    assert (await calendar.store.counts()).jobs == 2
    assert await calendar.store.drop_dead("default", dropped.job.job_id, instant)
    await calendar.pass_to(6)
    assert not await calendar.is_there(dropped)
    changed = await calendar.store.change_run("default", redriven.job.job_id, instant, redrive)
    assert changed is not None
    assert (await calendar.owner.win(redriven, changed.timers[0])).attempt == 1


async def test_a_row_that_is_needed_while_its_leaf_leaves_comes_back(calendar: Calendar) -> None:
    """A redrive between the look at the leaf and its leaving: as if a sweep had stopped after detaching."""
    new = await calendar.finish(RunState.FAILED)
    await calendar.finish()
    instant = calendar.clock.now_ms()
    await calendar.pass_to(5, retention_days=100)
    leaf = next(leaf for leaf in calendar.leaves("runs") if leaf.start <= instant < leaf.end)
    piece = f"gone_{leaf.name}_1"
    calendar.rows(f"ALTER TABLE tickwheel.runs DETACH PARTITION tickwheel.{leaf.name}")
    calendar.rows(f"ALTER TABLE tickwheel.{leaf.name} RENAME TO {piece}")
    calendar.rows(
        "INSERT INTO tickwheel.history_files (piece, leaf, range_start, range_end) VALUES (%s, %s, %s, %s)",
        *(piece, leaf.name, leaf.start, leaf.end),
    )
    await calendar.sweep(100)
    assert (await calendar.arena.run(new)).state is RunState.FAILED
    assert calendar.rows("SELECT count(*) FROM pg_class WHERE relname = %s", piece) == [(0,)]


@pytest.mark.parametrize("end", [cancel, delete])
async def test_jobs_without_an_occurrence_left_go_too(calendar: Calendar, end: object) -> None:
    one, many = calendar.arena.one_off(calendar.clock.now_ms() + 5), calendar.arena.recurring(tags=("a", "b"))
    far = calendar.arena.one_off(calendar.clock.now_ms() + 90 * DAY_MS, named=True)
    await calendar.arena.insert(one, many, far)
    held = await calendar.owner.win(many, next_ms=calendar.clock.now_ms() + 60_000)
    await calendar.owner.complete(held, RunState.SUCCEEDED)
    for new in (one, many, far):
        await calendar.store.change_job("default", new.job.job_id, end)  # type: ignore[arg-type]  # a decision
    await calendar.pass_to(5)
    assert await calendar.store.load_work([one.job.job_id, many.job.job_id]) == [None, None]
    assert calendar.rows("SELECT count(*) FROM tickwheel.job_tags") == [(0,)]
    await calendar.pass_to(140)  # far leaves are months
    assert (await calendar.store.counts()).jobs == 0
    assert calendar.rows("SELECT count(*) FROM tickwheel.job_names") == [(0,)]


async def test_a_one_off_from_far_ahead_goes_row_by_row(calendar: Calendar) -> None:
    """Its definition lies beside those of recurring jobs, in a leaf without an end."""
    new = calendar.arena.one_off(calendar.clock.now_ms() + 90 * DAY_MS)
    await calendar.arena.insert(new)
    await calendar.pass_to(85)
    assert await calendar.is_there(new)
    calendar.clock.step_ms((new.job.scheduled_ms or 0) - calendar.clock.now_ms())
    await calendar.owner.complete(await calendar.owner.win(new), RunState.SUCCEEDED)
    await calendar.pass_to(140)  # far leaves are months
    assert not await calendar.is_there(new)


async def test_a_key_is_kept_a_day_after_its_job_has_ended(calendar: Calendar) -> None:
    first = await calendar.finish(idempotency_key="k")
    again: NewJob = calendar.arena.one_off(idempotency_key="k")
    calendar.clock.step_ms(DAY_MS - 1)
    await calendar.acknowledge(1.5)
    await calendar.sweep(0.01)
    [answer] = await calendar.arena.insert(again)
    assert (answer.status, answer.job_id) == (InsertStatus.REPLAYED, first.job.job_id)
    assert await calendar.is_there(first), "what a replay names can be fetched"
    await calendar.pass_to(5, retention_days=0.01)
    assert not await calendar.is_there(first)
    late = calendar.arena.one_off(idempotency_key="k")
    [answer] = await calendar.arena.insert(late)
    assert (answer.status, answer.job_id) == (InsertStatus.CREATED, late.job.job_id)


async def test_results_go_with_the_day_of_their_runs(historian: Calendar) -> None:
    new = historian.arena.one_off()
    await historian.arena.insert(new)
    note = AttemptNote(None, None, result="[1]")
    assert (await historian.owner.complete(await historian.owner.win(new), RunState.SUCCEEDED, note)).applied
    assert historian.rows("SELECT result FROM tickwheel.results") == [("[1]",)]
    assert historian.has_leaf("results", 0)
    await historian.pass_to(3.5)
    assert not await historian.is_there(new)
    assert not historian.has_leaf("results", 0)
    assert historian.rows("SELECT count(*) FROM tickwheel.results") == [(0,)]
