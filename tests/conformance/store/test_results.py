"""What handlers return, and what attempts in flight say of themselves."""

import pytest

from tickwheel.domain.outcome import RESULT_LIMIT_BYTES, OutcomeClass, ProgressNote
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote, NewJob, Run

from .arena import Arena
from .owner import LEASE_MS, REAPED, Held, Owner

RESULT = AttemptNote(None, None, result='{"sum":3}')


async def flying(arena: Arena, owner: Owner) -> tuple[NewJob, Held]:
    new = arena.one_off()
    await arena.insert(new)
    return new, await owner.win(new)


async def full(arena: Arena, new: NewJob) -> Run:
    assert new.job.scheduled_ms is not None
    run = await arena.store.get_run(new.job.tenant_id, new.job.job_id, new.job.scheduled_ms)
    assert run is not None
    return run


async def test_result_is_stored_with_the_success(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    assert (await owner.complete(held, RunState.SUCCEEDED, RESULT)).applied
    run = await full(arena, new)
    assert (run.state, run.result, run.result_dropped) == (RunState.SUCCEEDED, '{"sum":3}', None)
    assert run.error is None


async def test_success_without_a_result_has_none(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert ((await full(arena, new)).result, (await full(arena, new)).result_dropped) == (None, None)


async def test_reason_why_a_result_was_dropped_is_stored(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    assert (await owner.complete(held, RunState.SUCCEEDED, AttemptNote(None, None, dropped="too long"))).applied
    run = await full(arena, new)
    assert (run.state, run.result, run.result_dropped) == (RunState.SUCCEEDED, None, "too long")


@pytest.mark.pitfall(71)
@pytest.mark.parametrize(
    "text", ['"\\u0000"', '"\u2028 é \U0001f600"', '"' + "x" * (RESULT_LIMIT_BYTES - 2) + '"']
)
async def test_result_is_given_back_as_it_was(arena: Arena, owner: Owner, text: str) -> None:
    new, held = await flying(arena, owner)
    assert (await owner.complete(held, RunState.SUCCEEDED, AttemptNote(None, None, result=text))).applied
    assert (await full(arena, new)).result == text


async def test_repeated_completion_keeps_the_result(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    for _ in range(2):
        assert (await owner.complete(held, RunState.SUCCEEDED, RESULT)).applied
    assert (await full(arena, new)).result == '{"sum":3}'


async def test_late_worker_leaves_no_result(arena: Arena, owner: Owner) -> None:
    new, late = await flying(arena, owner)
    arena.clock.step_ms(LEASE_MS)
    follow_up = await owner.retry_later(late, **REAPED)
    current = await owner.win(new, follow_up)
    assert not (await owner.complete(late, RunState.SUCCEEDED, RESULT)).applied
    assert (await owner.complete(current, RunState.SUCCEEDED)).applied
    assert (await full(arena, new)).result is None


async def test_results_are_told_apart_within_a_batch(arena: Arena, owner: Owner) -> None:
    both = [await flying(arena, owner) for _ in range(3)]
    rows = [owner.completion_row(held, RunState.SUCCEEDED) for _, held in both]
    rows[1] |= {"state": RunState.FAILED, "outcome": OutcomeClass.PERMANENT}
    notes = {
        0: AttemptNote(None, None, result="1"),
        1: AttemptNote("no", None),
        2: AttemptNote(None, None, result="3"),
    }
    applied, _ = await owner.complete_rows(*rows, notes=notes)
    assert applied == [True, True, True]
    assert [(await full(arena, new)).result for new, _ in both] == ["1", None, "3"]


async def test_what_an_attempt_says_is_shown_while_it_runs(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    batch = owner.renewal_batch(held, mark_running=1)
    assert (await arena.store.renew(batch, {0: ProgressNote(0.3, "a \0 quarter")})).all()
    run = await full(arena, new)
    assert run.progress == 0.3
    assert (run.note or "").startswith("a ")
    assert (await arena.store.renew(batch)).all()
    assert (await full(arena, new)).progress == 0.3
    assert (await arena.store.renew(batch, {0: ProgressNote(0.5)})).all()
    assert ((await full(arena, new)).progress, (await full(arena, new)).note) == (0.5, None)
    view = await arena.store.get_job(new.job.tenant_id, new.job.job_id)
    assert view is not None
    assert view.current is not None
    assert view.current.progress == 0.5
    assert (await owner.complete(held, RunState.SUCCEEDED)).applied
    assert (await full(arena, new)).progress is None


async def test_next_attempt_begins_with_nothing_said(arena: Arena, owner: Owner) -> None:
    new, held = await flying(arena, owner)
    batch = owner.renewal_batch(held, mark_running=1)
    assert (await arena.store.renew(batch, {0: ProgressNote(0.9, "nearly")})).all()
    follow_up = await owner.retry_later(held)
    assert (await full(arena, new)).progress is None
    current = await owner.win(new, follow_up)
    assert ((await full(arena, new)).progress, (await full(arena, new)).note) == (None, None)
    assert (await arena.store.renew(owner.renewal_batch(current, mark_running=1))).all()
    assert (await full(arena, new)).progress is None


async def test_late_worker_says_nothing(arena: Arena, owner: Owner) -> None:
    new, late = await flying(arena, owner)
    batch = owner.renewal_batch(late)
    arena.clock.step_ms(LEASE_MS)
    current = await owner.win(new, await owner.retry_later(late, **REAPED))
    assert not (await arena.store.renew(batch, {0: ProgressNote(0.9)})).any()
    assert (await arena.store.renew(owner.renewal_batch(current))).all()
    assert (await full(arena, new)).progress is None
