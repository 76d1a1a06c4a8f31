"""Rows that have to stay never hide what may go."""

from pathlib import Path

import pytest

from tickwheel.adapters.sqlite import SqliteStore, sweep
from tickwheel.domain.columns import CLAIM, COMPLETION, empty
from tickwheel.domain.ids import shard_of
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState, fencing_token
from tickwheel.ports.store import AttemptNote, NewJob
from tickwheel.testing.virtual_clock import VirtualClock

from .jobs import DUE_MS, one_off, query

HOUR_MS = 3_600_000


async def end_all(
    store: SqliteStore,
    jobs: list[NewJob],
    states: list[RunState],
    notes: dict[int, AttemptNote] | None = None,
) -> None:
    """Claim and complete the runs of these jobs."""
    epochs = (await store.acquire("w")).tolist()
    claims, ends = empty(CLAIM, len(jobs)), empty(COMPLETION, len(jobs))
    for number, (new, state) in enumerate(zip(jobs, states, strict=True)):
        due_ms, job_id = new.job.scheduled_ms or 0, new.job.job_id
        fence = fencing_token(epochs[shard_of(job_id)], number + 1)
        outcome = OutcomeClass.PERMANENT if state is RunState.FAILED else OutcomeClass.SUCCESS
        claims[number] = (due_ms, job_id, due_ms, 1, new.job.timer_flags, 0, 0, 0, 4, fence, -1, 0, 0, 0, 0)
        key = (due_ms, job_id, due_ms, 1, new.job.timer_flags)
        ends[number] = (*key, fence, state, 0, outcome, 0, 1, 0, due_ms, due_ms + 1, -1)
    await store.claim(claims, DUE_MS + 10_000, DUE_MS + 20_000)
    assert (await store.complete(ends, notes or {})).applied.all()


@pytest.mark.pitfall(41)
async def test_dead_letters_do_not_hide_the_history_behind_them(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SWEEP_ROWS", 5)
    monkeypatch.setattr(sweep, "WALKS", 2)
    jobs = [one_off(number, tags=("t",), idempotency_key=None) for number in range(60)]
    await store.insert_jobs(jobs)
    await end_all(store, jobs, [RunState.FAILED] * 40 + [RunState.SUCCEEDED] * 20)
    clock.step_ms(HOUR_MS)
    deleted = [await store.sweep(clock.now_ms(), HOUR_MS // 2) for _ in range(12)]
    assert sum(deleted) == 40  # twenty runs and their jobs
    assert max(deleted) <= 10
    counts = await store.counts()
    assert (counts.jobs, counts.dead_letters) == (40, 40)


async def test_results_go_with_their_runs(store: SqliteStore, clock: VirtualClock, folder: Path) -> None:
    jobs = [one_off(number) for number in range(3)]
    await store.insert_jobs(jobs)
    notes = {number: AttemptNote(None, None, result=str(number)) for number in (0, 2)}
    await end_all(store, jobs, [RunState.SUCCEEDED] * 3, notes)
    assert query(folder, "SELECT result FROM results ORDER BY result") == [("0",), ("2",)]
    clock.step_ms(100 * HOUR_MS)
    assert await store.sweep(clock.now_ms(), HOUR_MS)
    assert query(folder, "SELECT result FROM results") == []
