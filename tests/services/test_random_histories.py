"""Seeded random histories of one process: jobs of all kinds, edits, cancels, pauses, redrives, crashes, stalls,
restarts, a store that fails before or after it writes. Whatever happens, the invariants hold at every step, and
when the dust has settled.

A failing seed is printed by its test id and replays exactly.
"""

import os
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.small_claims import small_claims

from tickwheel.domain.job import JobState
from tickwheel.domain.run import TERMINAL, RunState
from tickwheel.ports.store import JobView, Run

from .histories import SECOND_MS, History
from .inline_sqlite import open_inline
from .world import Call, World

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "12"))
SQLITE_EVERY = 6
"""One seed in so many is told on SQLite, which takes longer."""


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_invariants_hold_after_a_random_history(seed: int, tmp_path: Path) -> None:
    if seed % SQLITE_EVERY:
        with small_claims() if seed % 2 else nullcontext():
            await _tell(History(seed))
        return
    world = World()
    store = await open_inline(tmp_path, world.clock)
    await _tell(History(seed, store, world))
    await store.aclose()


async def _tell(history: History) -> None:
    await history.tell()
    _check_calls(history)
    known = {view.job.job_id for view in history.ledgers.views}
    assert history.inserted - known <= history.maybe_deleted, "a job was lost"
    for view in history.ledgers.views:
        _check(history, view, await history.ledgers.runs(view))


def _check_calls(history: History) -> None:
    tokens: dict[tuple[bytes, int], list[int]] = defaultdict(list)
    for call in history.world.calls:
        assert call.started_ms >= call.work.scheduled_ms, "early"
        tokens[call.work.job_id, call.work.scheduled_ms].append(call.work.fence)
    for key, fences in tokens.items():
        assert fences == sorted(set(fences)), f"tokens of {key} do not rise: {fences}"


def _check(history: History, view: JobView, runs: list[Run]) -> None:
    held = view.job.state is JobState.PAUSED or any(run.state is RunState.PAUSED for run in runs)
    started = {(call.work.scheduled_ms, call.work.fence) for call in history.world.calls if _of(call, view)}
    for run in runs:
        assert run.state in TERMINAL or view.job.recurring or held, f"{run} is not over"
        assert run.attempt <= 4
        if run.state is RunState.SUCCEEDED:
            assert (run.scheduled_ms, run.fence) in started, f"{run} was never started"
    if view.job.state is JobState.CANCELLED:
        assert view.live is None
    elif not view.job.recurring:
        assert held or any(run.scheduled_ms == view.job.scheduled_ms for run in runs), f"{view.job} never ran"
    elif view.job.state is JobState.ACTIVE:
        assert view.live is not None, f"the chain of {view.job} is dead"
        assert view.live.due_ms > history.now_ms - 10 * SECOND_MS


def _of(call: Call, view: JobView) -> bool:
    return call.work.job_id == view.job.job_id
