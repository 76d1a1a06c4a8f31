"""Runs that are claimed for workers elsewhere: who begins them, once, and what becomes of their attempts."""

from typing import Any

import pytest

from tickwheel.domain.columns import ClaimVerdict, CompletionCause, Rows
from tickwheel.domain.ledger_moves import UNSTARTED_LIMIT
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.queue import HINT
from tickwheel.ports.store import AttemptNote, NewJob
from tickwheel.ports.workers import WorkerNote

from .arena import Arena, rows_of
from .owner import LEASE_MS, REAPED, Held, Owner

NOTE = WorkerNote(name="w", handlers=("a", "ä"), slots=4)
DEAD: dict[str, Any] = {"cause": CompletionCause.DEAD_OWNER, "outcome": OutcomeClass.LOST, "due_ms": -1, "gen": 0}
UNKNOWN_TIMER: dict[str, Any] = {"due_ms": -1, "gen": 0}


def hint(held: Held, **fields: Any) -> dict[str, Any]:
    return {
        "job_id": held.job_id,
        "scheduled_ms": held.timer.scheduled_ms,
        "fence": held.fence,
        "flags": 0,
    } | fields


def hints(*held: Held) -> Rows:
    return rows_of(HINT, *map(hint, held))


async def begin(arena: Arena, rows: Rows, worker: str = "remote-1") -> list[tuple[int, ...]]:
    begun: list[tuple[int, ...]] = (await arena.store.begin(rows, worker, arena.now_ms + LEASE_MS)).tolist()
    return begun


async def queued(arena: Arena, owner: Owner, **fields: Any) -> tuple[NewJob, Held]:
    new = arena.one_off()
    await arena.insert(new)
    await arena.store.enlist_worker("remote-1", NOTE)
    return new, await owner.queue(new, **fields)


async def test_a_queued_run_waits_without_worker_and_lease(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    run = await arena.run(new)
    assert (run.state, run.worker, run.lease_ms) == (RunState.CLAIMED, None, None)
    assert held.attempt == 1
    arena.clock.step_ms(10 * LEASE_MS)
    assert await arena.store.expired(arena.now_ms, 10) == [], "nobody holds it, so nobody can lose it"


async def test_the_begin_starts_it_under_the_workers_name(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    arena.clock.step_ms(3_000)
    assert await begin(arena, hints(held)) == [(1, 1, 0)]
    run = await arena.run(new)
    assert (run.state, run.worker, run.attempt) == (RunState.RUNNING, "remote-1", 1)
    assert (run.started_ms, run.beat_ms, run.lease_ms) == (arena.now_ms, arena.now_ms, arena.now_ms + LEASE_MS)


async def test_of_two_hints_one_begins(arena: Arena, owner: Owner) -> None:
    """F1: RUNNING is no source, not even for the worker that runs it."""
    _, held = await queued(arena, owner)
    await arena.store.enlist_worker("remote-2", NOTE)
    assert await begin(arena, hints(held, held)) in ([(1, 1, 0), (0, 0, 0)], [(0, 0, 0), (1, 1, 0)])
    assert await begin(arena, hints(held)) == [(0, 0, 0)]
    assert await begin(arena, hints(held), "remote-2") == [(0, 0, 0)]


async def test_only_the_token_of_the_claim_begins(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    for fence in (held.fence - 1, held.fence + 1):
        assert await begin(arena, rows_of(HINT, hint(held, fence=fence))) == [(0, 0, 0)]
    assert (await arena.run(new)).state is RunState.CLAIMED


async def test_what_an_owner_runs_itself_can_not_be_begun(arena: Arena, owner: Owner) -> None:
    new, _ = await queued(arena, owner)
    local = arena.one_off()
    await arena.insert(local)
    held = await owner.win(local)
    assert await begin(arena, hints(held)) == [(0, 0, 0)]
    assert (await arena.run(local)).state is RunState.DISPATCHED
    assert (await arena.run(new)).state is RunState.CLAIMED


async def test_a_worker_without_a_session_begins_nothing(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    assert await arena.store.end_worker("remote-1")
    assert await begin(arena, hints(held)) == [(0, 0, 0)]
    assert await begin(arena, hints(held), "never-enlisted") == [(0, 0, 0)]
    assert (await arena.run(new)).state is RunState.CLAIMED


async def test_a_begun_run_ends_like_every_other(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    await begin(arena, hints(held))
    assert (await owner.complete(held, RunState.SUCCEEDED, **UNKNOWN_TIMER)).applied
    run = await arena.run(new)
    assert (run.state, run.attempt, run.lease_ms) == (RunState.SUCCEEDED, 1, None)
    assert await arena.timers() == []
    arena.clock.step_ms(10 * LEASE_MS)
    assert await arena.store.expired(arena.now_ms, 10) == []


async def test_a_failed_attempt_is_followed_by_one_under_a_higher_token(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    await begin(arena, hints(held))
    follow_up = await owner.retry_later(held, **UNKNOWN_TIMER)
    again = await owner.queue(new, follow_up)
    assert again.fence > held.fence
    assert (await arena.run(new)).state is RunState.CLAIMED
    assert await begin(arena, hints(held)) == [(0, 0, 0)], "a hint of the attempt before"
    assert await begin(arena, hints(again)) == [(1, 2, 0)]


async def test_a_begun_attempt_is_found_when_its_lease_is_over(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    await begin(arena, hints(held))
    arena.clock.step_ms(LEASE_MS)
    [lost] = await arena.store.expired(arena.now_ms, 10)
    assert (lost.job_id, lost.fence, lost.attempt) == (new.job.job_id, held.fence, 1)
    follow_up = await owner.retry_later(held, lost_count=1, attempt=1, **REAPED | UNKNOWN_TIMER)
    again = await owner.queue(new, follow_up)
    assert await begin(arena, hints(again)) == [(1, 2, 1)]


async def test_the_runs_of_a_worker_that_ended_need_no_waiting(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    await begin(arena, hints(held))
    assert await arena.store.expired(arena.now_ms, 10) == []
    assert await arena.store.end_worker("remote-1")
    [lost] = await arena.store.expired(arena.now_ms, 10)
    assert (lost.job_id, lost.worker) == (new.job.job_id, "remote-1")
    assert (await owner.complete(held, RunState.SCHEDULED, lost_count=1, **DEAD)).applied


async def test_a_living_workers_run_survives_a_restart_of_the_owner(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    await begin(arena, hints(held))
    await arena.restart()
    heir = await Owner(arena, "worker-2").acquire()
    assert await arena.store.expired(arena.now_ms, 10) == []
    answer = await heir.claim(new)
    assert (answer.verdict, answer.fence, answer.lease_ms) == (
        ClaimVerdict.IN_FLIGHT,
        held.fence,
        arena.now_ms + LEASE_MS,
    )
    assert not (await owner.complete(held, RunState.SCHEDULED, **DEAD)).applied
    assert (await owner.complete(held, RunState.SUCCEEDED, **UNKNOWN_TIMER)).applied


async def test_an_heir_learns_of_what_is_queued(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    await arena.restart()
    heir = await Owner(arena, "worker-2").acquire()
    answer = await heir.claim(new)
    assert (answer.verdict, answer.fence) == (ClaimVerdict.IN_FLIGHT, held.fence)
    assert answer.lease_ms == arena.now_ms, "to be looked at, but nobody is dead"
    [run] = await arena.store.find_runs([(new.job.job_id, held.timer.scheduled_ms)])
    assert run is not None
    assert (run.state, run.fence) == (RunState.CLAIMED, held.fence)
    assert await begin(arena, hints(held)) == [(1, 1, 0)], "the token is still good"


async def test_what_nobody_began_goes_back_without_using_an_attempt_up(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    unstarted = {"cause": CompletionCause.UNSTARTED, "outcome": OutcomeClass.UNSTARTED, "attempt": held.attempt}
    follow_up = await owner.retry_later(held, **unstarted | UNKNOWN_TIMER)
    assert (await arena.run(new)).attempt == 0
    again = await owner.win(new, follow_up)
    assert again.attempt == 1


async def test_many_returns_without_a_start_use_up_one_attempt_each_in_the_end(arena: Arena, owner: Owner) -> None:
    """F4: twenty are free; the next one counts, and the run goes on with what its policy leaves."""
    new, held = await queued(arena, owner)
    unstarted = {"cause": CompletionCause.UNSTARTED, "outcome": OutcomeClass.UNSTARTED}
    for _ in range(UNSTARTED_LIMIT + 1):
        follow_up = await owner.retry_later(held, **unstarted | UNKNOWN_TIMER)
        held = await owner.queue(new, follow_up)
    assert held.attempt == 2
    assert await begin(arena, hints(held)) == [(1, 2, 0)]


async def test_a_worker_hands_back_what_it_began(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    await begin(arena, hints(held))
    unstarted = {"cause": CompletionCause.UNSTARTED, "outcome": OutcomeClass.UNSTARTED, "attempt": held.attempt}
    follow_up = await owner.retry_later(held, **unstarted | UNKNOWN_TIMER)
    assert (await arena.run(new)).attempt == 0
    assert (await owner.queue(new, follow_up)).attempt == 1


async def test_a_cancelled_run_is_not_begun(arena: Arena, owner: Owner) -> None:
    new, held = await queued(arena, owner)
    note = AttemptNote(error=None, excerpt=None)
    assert (await owner.complete(held, RunState.CANCELLED, note, outcome=OutcomeClass.CANCELLED)).applied
    assert await begin(arena, hints(held)) == [(0, 0, 0)]
    assert (await arena.run(new)).state is RunState.CANCELLED


async def test_a_queued_occurrence_plants_the_next_timer(arena: Arena, owner: Owner) -> None:
    new = arena.recurring()
    await arena.insert(new)
    await arena.store.enlist_worker("remote-1", NOTE)
    held = await owner.queue(new, next_ms=arena.now_ms + 60_000)
    assert await begin(arena, hints(held)) == [(1, 1, 0)]
    assert (await owner.complete(held, RunState.SUCCEEDED, **UNKNOWN_TIMER)).applied
    [timer] = await arena.timers()
    assert timer.due_ms == arena.now_ms + 60_000


@pytest.mark.parametrize("max_attempts", [1, 4])
async def test_an_attempt_is_used_up_once_begun(arena: Arena, owner: Owner, max_attempts: int) -> None:
    new, held = await queued(arena, owner, max_attempts=max_attempts)
    await begin(arena, hints(held))
    assert (await arena.run(new)).attempt == 1


async def test_sessions_come_and_go(arena: Arena, owner: Owner) -> None:
    store = arena.store
    await store.enlist_worker("b", NOTE)
    arena.clock.step_ms(10)
    await store.enlist_worker("a", NOTE)
    states = await store.workers()
    assert [(s.incarnation, s.note, s.seen_ms - s.enlisted_ms) for s in states] == [("a", NOTE, 0), ("b", NOTE, 0)]
    arena.clock.step_ms(1_000)
    busy = WorkerNote(name="w", busy=3)
    assert await store.renew_worker("b", busy)
    assert [(s.note.busy, arena.now_ms - s.seen_ms) for s in await store.workers()] == [(0, 1_000), (3, 0)]
    assert not await store.renew_worker("nobody", busy)
    assert await store.end_worker("a")
    assert await store.end_worker("a"), "it is over: asking again changes nothing"
    assert not await store.renew_worker("a", busy), "who was declared dead begins anew under another name"
    assert [s.incarnation for s in await store.workers()] == ["b"]


async def test_a_session_that_was_renewed_meanwhile_is_not_ended(arena: Arena, owner: Owner) -> None:
    await arena.store.enlist_worker("remote-1", NOTE)
    seen_ms = arena.now_ms
    arena.clock.step_ms(1_000)
    assert await arena.store.renew_worker("remote-1", NOTE)
    assert not await arena.store.end_worker("remote-1", unseen_since_ms=seen_ms)
    assert await arena.store.renew_worker("remote-1", NOTE)
    assert await arena.store.end_worker("remote-1", unseen_since_ms=arena.now_ms)
