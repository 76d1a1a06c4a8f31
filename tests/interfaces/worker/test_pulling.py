"""Workers over HTTP against the real API: what is lost on the way, who dies, what is cancelled."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tickwheel.domain.outcome import OK, Outcome, OutcomeClass, ProgressNote
from tickwheel.domain.run import RunState

from ..http.pull_world import PullWorld
from .pulling import Puller

QUICK: dict[str, Any] = {"retry_policy": {"max_retries": 3, "initial_interval_sec": 1, "max_interval_sec": 1}}


@asynccontextmanager
async def pullers(count: int = 1, slots: int = 8) -> AsyncIterator[tuple[PullWorld, list[Puller]]]:
    world = await PullWorld().open()
    workers = [await Puller(world, slots=slots).start() for _ in range(count)]
    try:
        yield world, workers
    finally:
        for worker in workers:
            await worker.kill()
        await world.close()


async def test_a_run_is_executed_and_its_result_kept() -> None:
    async with pullers() as (world, [worker]):
        worker.behave = lambda work: Outcome(outcome_class=OutcomeClass.SUCCESS, result=b'{"n":1}')
        run_id = await world.create(payload={"to": "ada"})
        await world.clock.advance(1_000)
        run = await world.stored(run_id)
        assert (run.state, json.loads(run.result or ""), run.attempt) == (RunState.SUCCEEDED, {"n": 1}, 1)
        [call] = worker.executor.calls
        assert (json.loads(call.work.payload), call.work.run_id) == ({"to": "ada"}, run_id)


async def test_a_run_whose_result_the_worker_did_not_keep_says_why() -> None:
    async with pullers() as (world, [worker]):
        worker.behave = lambda work: Outcome(outcome_class=OutcomeClass.SUCCESS, result_dropped="it is no JSON")
        run_id = await world.create()
        await world.clock.advance(1_000)
        run = await world.stored(run_id)
        assert (run.state, run.result, run.result_dropped) == (RunState.SUCCEEDED, None, "it is no JSON")


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome(outcome_class=OutcomeClass.PERMANENT, error="never"), RunState.FAILED),
        (Outcome(outcome_class=OutcomeClass.RETRYABLE, error="later"), RunState.SCHEDULED),
        (Outcome(outcome_class=OutcomeClass.RETRYABLE, error="x", retry_after_ms=9_000), RunState.SCHEDULED),
        (Outcome(outcome_class=OutcomeClass.TIMEOUT, error="slow"), RunState.SCHEDULED),
        (Outcome(outcome_class=OutcomeClass.SNOOZE, retry_after_ms=9_000), RunState.SCHEDULED),
        (Outcome(outcome_class=OutcomeClass.LOST, error="killed by SIGKILL"), RunState.SCHEDULED),
        (Outcome(outcome_class=OutcomeClass.CANCELLED, error="no use"), RunState.CANCELLED),
    ],
)
async def test_every_end_arrives(outcome: Outcome, state: RunState) -> None:
    async with pullers() as (world, [worker]):
        worker.behave = lambda work: outcome
        run_id = await world.create(retry_policy={"max_retries": 3, "initial_interval_sec": 60})
        await world.clock.advance(300)
        assert (await world.stored(run_id)).state is state


async def test_a_run_that_kills_who_makes_it_is_quarantined_with_the_cause() -> None:
    async with pullers() as (world, [worker]):
        worker.behave = lambda work: Outcome(outcome_class=OutcomeClass.LOST, error="killed by SIGKILL")
        run_id = await world.create(retry_policy={"max_retries": 9})
        await world.clock.advance(10_000)
        run = await world.stored(run_id)
        assert (run.state, run.attempt, run.lost_count) == (RunState.FAILED, 3, 3)
        assert run.error is not None
        assert run.error.startswith("killed by SIGKILL")


async def test_a_failed_run_comes_again() -> None:
    async with pullers() as (world, [worker]):
        worker.behave = lambda work: (
            OK if work.attempt > 1 else Outcome(outcome_class=OutcomeClass.RETRYABLE, error="no luck")
        )
        run_id = await world.create(**QUICK)
        await world.clock.advance(5_000)
        run = await world.stored(run_id)
        assert (run.state, run.attempt) == (RunState.SUCCEEDED, 2)


async def test_an_answer_with_runs_that_is_lost_costs_no_attempt() -> None:
    async with pullers() as (world, [worker]):
        worker.calls.lose_answers_of = "/poll"
        run_id = await world.create()
        await world.clock.advance(5_000)
        run = await world.stored(run_id)
        assert (run.state, run.attempt) == (RunState.SUCCEEDED, 1)
        assert len(worker.executor.calls) == 1


@pytest.mark.parametrize("verb", ["/complete", "/fail"])
async def test_a_report_whose_answer_is_lost_is_sent_again_and_counts_once(verb: str) -> None:
    async with pullers() as (world, [worker]):
        worker.calls.lose_answers_of, worker.calls.lose_count = verb, 3
        if verb == "/fail":
            worker.behave = lambda work: Outcome(outcome_class=OutcomeClass.PERMANENT, error="never")
        run_id = await world.create()
        await world.clock.advance(5_000)
        assert worker.calls.lose_count == 0
        assert worker.source.pending == 0
        assert len(worker.executor.calls) == 1
        assert (await world.stored(run_id)).state in (RunState.SUCCEEDED, RunState.FAILED)


async def test_a_long_run_is_kept_and_its_progress_shown() -> None:
    async with pullers() as (world, [worker]):
        worker.behave = lambda work: None
        run_id = await world.create()
        await world.clock.advance(95_000)
        [slot] = worker.executor.open
        assert worker.progress is not None
        worker.progress(slot, ProgressNote(progress=0.4, note="four of ten"))
        await world.clock.advance(2_000)
        run = await world.stored(run_id)
        assert (run.state, run.attempt) == (RunState.RUNNING, 1)
        assert (run.progress, run.note) == (0.4, "four of ten")
        worker.executor.finish(slot)
        await world.clock.advance(200)
        assert (await world.run(run_id))["status"] == "SUCCEEDED"


async def test_a_cancelled_run_is_stopped_within_two_seconds() -> None:
    async with pullers() as (world, [worker]):
        worker.behave = lambda work: None
        run_id = await world.create()
        await world.clock.advance(3_000)
        assert (await world.client.post(f"/v1/runs/{run_id}/cancel", {})).status == 200
        await world.clock.advance(2_000)
        assert worker.executor.cancelled
        await world.clock.advance(30_000)
        assert (await world.run(run_id))["status"] == "CANCELLED"


async def test_runs_of_a_killed_worker_are_taken_over_within_two_seconds() -> None:
    async with pullers(2) as (world, [one, two]):
        one.behave = two.behave = lambda work: None
        runs = [await world.create(**QUICK) for _ in range(8)]
        await world.clock.advance(5_000)
        held = len(one.executor.open)
        assert held
        two.behave = lambda work: OK
        for slot in list(two.executor.open):
            two.executor.finish(slot)
        await one.kill()
        # 600 ms until the worker is held to be dead, then a random moment within a second.
        await world.clock.advance(2_500)
        states = [(await world.run(run_id))["status"] for run_id in runs]
        assert states == ["SUCCEEDED"] * 8
        attempts = sorted([(await world.stored(run_id)).attempt for run_id in runs])
        assert attempts == [1] * (8 - held) + [2] * held


async def test_a_worker_that_was_declared_dead_lets_go_and_comes_again() -> None:
    async with pullers() as (world, [worker]):
        worker.behave = lambda work: None
        run_id = await world.create(**QUICK)
        await world.clock.advance(1_000)
        before = worker.source.worker_id
        await world.store.end_worker(before)
        worker.behave = lambda work: OK
        await world.clock.advance(10_000)
        assert worker.executor.cancelled
        assert worker.source.worker_id != before
        run = await world.stored(run_id)
        assert (run.state, run.attempt) == (RunState.SUCCEEDED, 2)


async def test_another_server_is_asked_when_one_stops() -> None:
    async with pullers() as (world, [worker]):
        world.desks[0].stop_polls()
        await world.clock.advance(1_000)
        run_id = await world.create()
        await world.clock.advance(1_000)
        assert (await world.run(run_id))["status"] == "SUCCEEDED"
        polls = sum(path.endswith("poll") for path, _ in worker.calls.asked)
        assert polls < 60, "a server that is stopping is not asked over and over"


async def test_a_worker_that_leaves_hands_back_what_does_not_end_and_uses_no_attempt_up() -> None:
    async with pullers() as (world, [worker]):
        worker.behave = lambda work: None
        runs = [await world.create() for _ in range(3)]
        await world.clock.advance(500)
        worker.executor.finish(next(iter(worker.executor.open)))
        await worker.drain(2_000)
        assert await world.workers() == []
        stored = [await world.stored(run_id) for run_id in runs]
        assert sorted(run.state.name for run in stored) == ["CLAIMED", "CLAIMED", "SUCCEEDED"]
        handed_back = [run for run in stored if run.state.name == "CLAIMED"]
        assert [(run.attempt, run.lost_count) for run in handed_back] == [(1, 0), (1, 0)], "the first one again"


async def test_room_that_was_not_there_when_the_poll_began_is_used_at_once() -> None:
    async with pullers(slots=1) as (world, [worker]):
        worker.behave = lambda work: None
        await world.create()
        second = await world.create()
        await world.clock.advance(500)
        [slot] = worker.executor.open
        worker.behave = lambda work: OK
        worker.executor.finish(slot)
        await world.clock.advance(200)
        assert (await world.run(second))["status"] == "SUCCEEDED"


@pytest.mark.pitfall(26)
async def test_workers_that_join_disturb_no_run() -> None:
    async with pullers(1, slots=64) as (world, workers):
        for worker in workers:
            worker.behave = lambda work: None
        runs = [await world.create(**QUICK) for _ in range(12)]
        for _ in range(8):
            more = Puller(world, slots=64)
            more.behave = lambda work: None
            workers.append(await more.start())
            await world.clock.advance(2_000)
        for worker in workers:
            for slot in list(worker.executor.open):
                worker.executor.finish(slot)
        await world.clock.advance(500)
        ended = [await world.stored(run_id) for run_id in runs]
        assert {(run.state, run.attempt) for run in ended} == {(RunState.SUCCEEDED, 1)}
