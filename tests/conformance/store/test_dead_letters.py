from typing import Any

import pytest

from tickwheel.domain.columns import ClaimVerdict, CompletionCause
from tickwheel.domain.errors import BadCursor
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote, DeadLetter, NewJob

from .arena import Arena
from .decisions import redrive
from .owner import LEASE_MS, Owner


async def bury(arena: Arena, owner: Owner, error: str | None = "connection refused", **fields: Any) -> NewJob:
    new = arena.one_off(**fields)
    await arena.insert(new)
    held = await owner.win(new)
    ended = await owner.complete(held, RunState.FAILED, AttemptNote(error, "answer"), http_status=503)
    assert ended.applied
    return new


async def dead(arena: Arena, tenant_id: str = "default") -> list[DeadLetter]:
    return list((await arena.store.list_dead(tenant_id, 100, None)).items)


async def test_a_failed_run_is_a_dead_letter_with_its_cause(arena: Arena, owner: Owner) -> None:
    new = await bury(arena, owner)
    [letter] = await dead(arena)
    assert (letter.run.job_id, letter.run.scheduled_ms) == (new.job.job_id, new.job.scheduled_ms)
    assert (letter.run.state, letter.run.http_status) == (RunState.FAILED, 503)
    assert (letter.job_name, letter.failed_ms) == (new.job.name, arena.now_ms)
    assert "connection refused" in letter.cause
    assert (await arena.store.counts()).dead_letters == 1


async def test_a_failure_without_a_note_still_names_a_cause(arena: Arena, owner: Owner) -> None:
    await bury(arena, owner, error=None)
    [letter] = await dead(arena)
    assert letter.cause


async def test_a_quarantined_run_names_the_lost_workers(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.win(new)
    arena.clock.step_ms(LEASE_MS)
    note = AttemptNote("worker lost 3 times in a row", None)
    fields = {"cause": CompletionCause.REAPER, "outcome": OutcomeClass.LOST, "lost_count": 3}
    assert (await owner.complete(held, RunState.FAILED, note, **fields)).applied
    [letter] = await dead(arena)
    assert "worker lost 3 times in a row" in letter.cause
    assert letter.run.lost_count == 3
    assert [record.outcome for record in (await arena.run(new)).attempts] == ["lost"]


async def test_dead_letters_belong_to_their_tenant(arena: Arena, owner: Owner) -> None:
    new = await bury(arena, owner, tenant_id="a")
    key = (new.job.job_id, arena.now_ms)
    assert await dead(arena, "b") == []
    assert not await arena.store.drop_dead("b", *key)
    assert len(await dead(arena, "a")) == 1


@pytest.mark.pitfall(68)
async def test_a_redriven_run_starts_afresh_and_keeps_its_history(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    timer, note = new.timer, AttemptNote("lost", None)
    for count in (1, 2):
        held = await owner.win(new, timer)
        arena.clock.step_ms(LEASE_MS)
        timer = await owner.retry_later(
            held, cause=CompletionCause.REAPER, outcome=OutcomeClass.LOST, lost_count=count
        )
    last = await owner.win(new, timer)
    await owner.complete(last, RunState.FAILED, note, lost_count=3)
    assert new.timer is not None
    key = (new.job.tenant_id, new.job.job_id, new.timer.scheduled_ms)
    changed = await arena.store.change_run(*key, redrive)
    assert changed is not None
    assert await dead(arena) == []
    run = await arena.run(new)
    assert (run.state, run.attempt, run.lost_count) == (RunState.SCHEDULED, 0, 0)
    assert (run.fence, run.gen) == (last.fence, 3), "only claims draw tokens"
    assert len(run.attempts) == 3
    [timer] = changed.timers
    assert await arena.timers() == [timer]
    held = await owner.win(new, timer)
    assert (held.attempt, held.lost_count) == (1, 0)
    assert held.fence > last.fence
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert (await arena.run(new)).state is RunState.SUCCEEDED


async def test_a_run_is_buried_again_after_a_redrive(arena: Arena, owner: Owner) -> None:
    new = await bury(arena, owner)
    changed = await arena.store.change_run("default", new.job.job_id, arena.now_ms, redrive)
    assert changed is not None
    arena.clock.step_ms(5)
    held = await owner.win(new, changed.timers[0])
    await owner.complete(held, RunState.FAILED, AttemptNote("again", None))
    [letter] = await dead(arena)
    assert "again" in letter.cause
    assert letter.failed_ms == arena.now_ms


async def test_a_late_failure_repeats_nothing_after_a_redrive(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    row = owner.completion_row(await owner.win(new), RunState.FAILED)
    await owner.complete_rows(row)
    await arena.store.change_run("default", new.job.job_id, arena.now_ms, redrive)
    assert await owner.complete_rows(row) == ([False], [])
    assert await dead(arena) == []
    assert (await arena.run(new)).state is RunState.SCHEDULED


async def test_a_dropped_letter_leaves_a_failed_run(arena: Arena, owner: Owner) -> None:
    new = await bury(arena, owner)
    key = ("default", new.job.job_id, arena.now_ms)
    assert await arena.store.drop_dead(*key)
    assert not await arena.store.drop_dead(*key)
    assert await dead(arena) == []
    assert (await arena.store.counts()).dead_letters == 0
    assert (await arena.run(new)).state is RunState.FAILED
    assert (await owner.claim(new)).verdict is ClaimVerdict.RESOLVED


async def test_what_is_not_dead_cannot_be_dropped(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    key = ("default", new.job.job_id, arena.now_ms)
    assert not await arena.store.drop_dead(*key)
    await owner.complete(await owner.win(new), RunState.SUCCEEDED)
    assert not await arena.store.drop_dead(*key)


@pytest.mark.pitfall(77)
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_paging_newest_first_gives_no_repeats_or_gaps(arena: Arena, owner: Owner, limit: int) -> None:
    jobs = []
    for number in range(10):
        jobs.append((await bury(arena, owner)).job.job_id)
        arena.clock.step_ms(number % 2)
    seen: list[DeadLetter] = []
    cursor = None
    while True:
        page = await arena.store.list_dead("default", limit, cursor)
        seen += page.items
        if (cursor := page.next_cursor) is None:
            break
        assert len(page.items) == limit
        arena.clock.step_ms(1)
        await bury(arena, owner)
    assert len({letter.run.job_id for letter in seen}) == len(seen)
    assert {letter.run.job_id for letter in seen} == set(jobs)
    assert [letter.failed_ms for letter in seen] == sorted((letter.failed_ms for letter in seen), reverse=True)


@pytest.mark.parametrize("cursor", ["", "x", "dead", "%00", "é", "1.2.3"])
async def test_a_strange_cursor_is_refused(arena: Arena, owner: Owner, cursor: str) -> None:
    await bury(arena, owner)
    with pytest.raises(BadCursor):
        await arena.store.list_dead("default", 10, cursor)


async def test_a_cursor_belongs_to_one_tenant(arena: Arena, owner: Owner) -> None:
    for tenant_id in ("default", "acme") * 2:
        await bury(arena, owner, tenant_id=tenant_id)
    cursor = (await arena.store.list_dead("acme", 1, None)).next_cursor
    assert cursor is not None
    assert len((await arena.store.list_dead("acme", 1, cursor)).items) == 1
    for other in ("default", "nobody"):
        with pytest.raises(BadCursor):
            await arena.store.list_dead(other, 1, cursor)
