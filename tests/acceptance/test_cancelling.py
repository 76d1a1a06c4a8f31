"""Cancels at any moment of a run's life: it ends CANCELLED or had ended before, and stays what it is."""

import random
from typing import Any

import pytest

from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.ports.executor import Work

from .conftest import MakeNode
from .node import ENDPOINT, SECOND_MS, Node

ENDS = {"SUCCEEDED", "FAILED", "CANCELLED"}
JOBS = 250
LIFE_MS = 6 * SECOND_MS


def lot(rng: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "job_name": rng.choice(("quick", "slow", "flaky")),
            "schedule_type": "DELAYED",
            "delay_seconds": rng.randint(0, 4_000) / 1000,
            "target": {"endpoint": ENDPOINT},
            "retry_policy": {"max_retries": 2, "initial_interval_sec": 1},
        }
        for _ in range(JOBS)
    ]


def ending(work: Work) -> Outcome:
    failed = work.job_name == "flaky" and work.attempt == 1
    return Outcome(outcome_class=OutcomeClass.RETRYABLE if failed else OutcomeClass.SUCCESS, http_status=200)


async def cancel(world: Node, job_id: str, how: str) -> bool:
    """Whether the cancel was answered with 200."""
    path = f"/v1/jobs/{job_id}/cancel"
    if how == "run":
        last = (await world.get(job_id)).json["last_run"]
        path = f"/v1/runs/{last['run_id']}/cancel" if last else path
    reply = await world.client.post(path)
    assert reply.status in (200, 409), reply.body
    return reply.status == 200


@pytest.mark.pitfall(91)
@pytest.mark.parametrize("how", ["job", "run"])
@pytest.mark.parametrize("crash", [False, True])
async def test_what_was_cancelled_at_a_random_moment_stays_cancelled(
    node: MakeNode, how: str, crash: bool
) -> None:
    rng = random.Random(f"{how} {crash}")
    async with node(slots=40, lease_ms=5 * SECOND_MS) as world:
        world.work_ms = lambda work: 1_500 if work.job_name == "slow" else rng.randint(0, 40)
        world.outcome = ending
        answers = (await world.client.post("/v1/jobs/batch", lot(rng))).json["results"]
        ids = [answer["job_id"] for answer in answers]
        moments = sorted((rng.randint(0, LIFE_MS), job_id) for job_id in ids)
        began_ms, cancelled_ms = world.now(), {}
        for at_ms, job_id in moments:
            if crash and at_ms > LIFE_MS // 2:
                crash = False
                await world.down_until(world.now() + 200, killed=True)
            await world.clock.advance(max(0, began_ms + at_ms - world.now()))
            if await cancel(world, job_id, how):
                cancelled_ms[job_id] = world.now()
        soon = {job_id: (await world.get(job_id)).json["status"] for job_id in ids}
        await world.clock.advance(30 * SECOND_MS)
        await world.down_until(world.now() + SECOND_MS, killed=True)
        await world.clock.advance(10 * SECOND_MS)
        ends = {job_id: (await world.get(job_id)).json["status"] for job_id in ids}
        assert set(ends.values()) <= ENDS
        assert {job_id for job_id, end in ends.items() if end == "CANCELLED"} == cancelled_ms.keys()
        assert all(ends[job_id] == early for job_id, early in soon.items() if early in ENDS), "what ended changed"
        late = [c for c in world.calls if c.started_ms > cancelled_ms.get(c.work.job_id_text, c.started_ms)]
        assert late == [], "an attempt began after the cancel was answered"
        assert 50 < len(cancelled_ms) < JOBS - 50, "the moments missed a part of the runs' lives"


@pytest.mark.pitfall(91)
async def test_a_cancelled_schedule_has_no_later_run_of_any_kind(node: MakeNode) -> None:
    async with node(at="2026-10-01T14:00:00.500Z") as world:
        world.work_ms = lambda work: 2_500
        world.outcome = ending
        job_id = (await world.cron("* * * * * *", job_name="flaky", overlap="buffer_one"))["job_id"]
        await world.until("2026-10-01T14:00:05Z")
        assert await cancel(world, job_id, "job")
        known = await world.states(job_id)
        begun = len(world.calls)
        await world.clock.advance(10 * SECOND_MS)
        await world.down_until(world.now() + SECOND_MS, killed=True)
        await world.clock.advance(10 * SECOND_MS)
        assert await world.states(job_id) == known
        assert {word for _, word in known} <= {"CANCELLED", "SUCCEEDED", "overlap"}
        assert len(world.calls) == begun
