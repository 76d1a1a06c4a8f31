"""The standing check: every job has one standing, and what nothing will ever fire is found."""

from collections import Counter
from collections.abc import Mapping
from typing import cast

import pytest
from msgspec.structs import replace

from tickwheel.domain.job import JobState
from tickwheel.domain.run import RunState
from tickwheel.ports.audit import OVERDUE_MS, Audited, AuditPiece, Standing
from tickwheel.ports.store import Change, JobView, NewJob

from .arena import Arena
from .decisions import cancel, pause, resume
from .owner import LEASE_MS, Owner

PERIOD_MS = 600_000


def audited(arena: Arena) -> Audited:
    return cast(Audited, arena.store)


async def jobs(arena: Arena) -> Mapping[Standing, int]:
    return (await audited(arena).audit_jobs("", 100, arena.now_ms)).standings


async def runs(arena: Arena, *, open_only: bool = False) -> Mapping[Standing, int]:
    return (await audited(arena).audit_runs("", 100, arena.now_ms, open_only=open_only)).standings


async def change(arena: Arena, new: NewJob, **fields: object) -> None:
    def decide(view: JobView, now_ms: int) -> Change:
        return Change(**fields)  # type: ignore[arg-type]  # passed through

    assert await arena.store.change_job("default", new.job.job_id, decide) is not None


async def test_an_empty_store_has_nothing_to_account_for(arena: Arena) -> None:
    assert await audited(arena).audit_jobs("", 10, arena.now_ms) == AuditPiece({}, (), None)
    assert await audited(arena).audit_runs("", 10, arena.now_ms, open_only=False) == AuditPiece({}, (), None)


async def test_a_one_off_goes_from_waiting_over_flight_to_its_end(arena: Arena, owner: Owner) -> None:
    new = arena.one_off(arena.now_ms + 1_000)
    await arena.insert(new)
    assert await jobs(arena) == {Standing.WAITING: 1}
    arena.clock.step_ms(1_000 + OVERDUE_MS)
    assert await jobs(arena) == {Standing.OVERDUE: 1}
    held = await owner.win(new)
    assert await jobs(arena) == {Standing.IN_FLIGHT: 1}
    arena.clock.step_ms(LEASE_MS + 1)
    assert await jobs(arena) == {Standing.PAST_LEASE: 1}
    await owner.complete(held, RunState.SUCCEEDED)
    assert await jobs(arena) == {Standing.SUCCEEDED: 1}
    assert await runs(arena) == {}, "the run of a one-off counts with its job"


async def test_a_retry_waits_for_its_follow_up(arena: Arena, owner: Owner) -> None:
    new, again = arena.one_off(), arena.recurring()
    await arena.insert(new, again)
    await owner.retry_later(await owner.win(new), 1_000)
    await owner.retry_later(await owner.win(again, next_ms=arena.now_ms + PERIOD_MS), 1_000)
    assert await jobs(arena) == {Standing.WAITING: 2}
    assert await runs(arena) == await runs(arena, open_only=True) == {Standing.WAITING: 1}
    arena.clock.step_ms(1_000 + OVERDUE_MS)
    assert await jobs(arena) == {Standing.OVERDUE: 1, Standing.WAITING: 1}
    assert await runs(arena) == {Standing.OVERDUE: 1}


async def test_a_recurring_job_stands_by_its_next_timer_and_its_runs_by_themselves(
    arena: Arena, owner: Owner
) -> None:
    new = arena.recurring()
    await arena.insert(new)
    held = await owner.win(new, next_ms=arena.now_ms + PERIOD_MS)
    assert await jobs(arena) == {Standing.WAITING: 1}
    assert await runs(arena) == await runs(arena, open_only=True) == {Standing.IN_FLIGHT: 1}
    await owner.complete(held, RunState.FAILED)
    assert await runs(arena) == {Standing.FAILED: 1}
    assert await runs(arena, open_only=True) == {}


@pytest.mark.parametrize("recurring", [False, True])
async def test_pausing_resuming_and_cancelling_are_accounted_for(arena: Arena, recurring: bool) -> None:
    due_ms = arena.now_ms + 1_000
    new = arena.recurring(due_ms) if recurring else arena.one_off(due_ms)
    await arena.insert(new)
    await arena.store.change_job("default", new.job.job_id, pause)
    assert await jobs(arena) == {Standing.PAUSED: 1}
    await arena.store.change_job("default", new.job.job_id, resume(arena.now_ms + 5_000))
    assert await jobs(arena) == {Standing.WAITING: 1}
    await arena.store.change_job("default", new.job.job_id, cancel)
    assert set(await jobs(arena)) <= {Standing.ENDED, Standing.CANCELLED}


async def test_a_recurring_job_without_a_timer_is_unaccounted_and_named(arena: Arena) -> None:
    new, whole = arena.recurring(), arena.recurring()
    await arena.insert(new, whole)
    await change(arena, new, drop_live=True)
    piece = await audited(arena).audit_jobs("", 100, arena.now_ms)
    assert piece.standings == {Standing.UNACCOUNTED: 1, Standing.WAITING: 1}
    assert piece.unaccounted == ((new.job.job_id, 0),)


async def test_a_one_off_whose_timer_was_lost_is_unaccounted(arena: Arena) -> None:
    new = arena.one_off(arena.now_ms + 1_000)
    await arena.insert(new, arena.one_off())
    await change(arena, new, drop_live=True)
    piece = await audited(arena).audit_jobs("", 100, arena.now_ms)
    assert piece.standings[Standing.UNACCOUNTED] == 1
    assert piece.unaccounted == ((new.job.job_id, 0),)


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.COMPLETED, JobState.DELETED])
async def test_what_is_over_needs_no_timer(arena: Arena, state: JobState) -> None:
    new = arena.recurring()
    await arena.insert(new)
    await change(arena, new, job=replace(new.job, state=state), drop_live=True)
    assert await jobs(arena) == {Standing.ENDED: 1}


async def test_pieces_go_over_every_job_and_run_once(arena: Arena, owner: Owner) -> None:
    made = [arena.recurring() for _ in range(4)] + [
        arena.one_off(arena.now_ms + n * 86_400_000) for n in range(1, 5)
    ]
    await arena.insert(*made)
    for new in made[:4]:
        await owner.win(new, next_ms=arena.now_ms + PERIOD_MS)
    total: Counter[Standing] = Counter()
    after: str | None = ""
    while after is not None:
        piece = await audited(arena).audit_jobs(after, 3, arena.now_ms)
        total.update(piece.standings)
        after = piece.after
    assert total == {Standing.WAITING: 8}
    for open_only in (False, True):
        flights, after = 0, ""
        while after is not None:
            piece = await audited(arena).audit_runs(after, 3, arena.now_ms, open_only=open_only)
            flights += piece.standings.get(Standing.IN_FLIGHT, 0)
            after = piece.after
        assert flights == 4
