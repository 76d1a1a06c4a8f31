"""Schedules that fail inside: shown, counted, no harm to others, and made up for once they can."""

import sqlite3
from typing import Any

import pytest

from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.services import plans

from .conftest import MakeNode
from .node import SECOND_MS, Node

FAILURE_COUNTERS = (
    "tickwheel_schedule_failures_total",
    "tickwheel_loop_failures_total",
    "tickwheel_runs_unserved",
)


def failures(world: Node) -> float:
    """What an alert would look at: all counters of inner failures together."""
    metrics = Metrics()
    for event in world.events.seen:
        metrics.emit(event)
    lines = metrics.render().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(FAILURE_COUNTERS))


def fail(*args: Any, **kwargs: Any) -> Any:
    raise ValueError("an inner check that never holds")


def break_it(world: Node, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "planning":
        monkeypatch.setattr(plans, "plan_occurrence", fail)
    elif where == "handler":
        world.serves = lambda target: target.name != "it"
    elif where == "starting":
        for executor in world.executors:
            monkeypatch.setattr(executor, "start", fail)
    else:
        monkeypatch.setattr(world.sqlite, where, fail)


@pytest.mark.pitfall(32)
@pytest.mark.parametrize("where", ["planning", "handler", "claim", "load_work", "starting"])
async def test_a_schedule_whose_every_fire_fails_inside_is_red_within_two_periods(
    node: MakeNode, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(at="2026-10-01T14:00:05Z", lease_ms=6 * SECOND_MS) as world:
        target = {"type": "HANDLER", "name": "it"}
        job_id = (await world.cron("*/10 * * * * *", target=target))["job_id"]
        await world.until("2026-10-01T14:00:15Z")
        assert (await world.get(job_id)).json["overdue_seconds"] is None
        before = failures(world)
        break_it(world, where, monkeypatch)
        await world.until("2026-10-01T14:00:41Z")
        job = (await world.get(job_id)).json
        if where != "starting":  # there each run is claimed before it fails, so the schedule itself goes on
            assert 20 <= job["overdue_seconds"] <= 21
            (listed,) = (await world.client.get("/v1/jobs")).json["jobs"]
            assert listed == job
        assert failures(world) > before
        monkeypatch.undo()
        world.serves = lambda target: True
        await world.clock.advance(30 * SECOND_MS)
        assert (await world.get(job_id)).json["overdue_seconds"] is None
        words = [word for _, word in await world.states(job_id)]
        assert set(words) <= ({"SUCCEEDED", "FAILED"} if where == "starting" else {"SUCCEEDED"})
        assert len(words) >= 3


@pytest.mark.pitfall(32)
@pytest.mark.parametrize("spec", ['{"target":', "{}", '{"target":{"type":"CARRIER_PIGEON"}}'])
async def test_a_definition_that_cannot_be_read_stops_no_other_job(node: MakeNode, spec: str) -> None:
    async with node(at="2026-10-01T14:00:05Z") as world:
        await world.cron("* * * * * *", job_name="bad")
        await world.create(delay_seconds=5, job_name="bad")
        await world.stop()
        with sqlite3.connect(world.database) as database:
            database.execute("UPDATE jobs SET spec = ? WHERE name = 'bad'", (spec,))
        database.close()
        await world.open()
        good = (await world.cron("*/10 * * * * *", job_name="good"))["job_id"]
        began = failures(world)
        await world.clock.advance(30 * SECOND_MS)
        assert [call.work.job_name for call in world.calls[-3:]] == ["good"] * 3
        assert failures(world) > began
        assert (await world.get(good)).json["overdue_seconds"] is None


@pytest.mark.pitfall(32)
async def test_a_job_is_overdue_from_its_period_on_and_never_later_than_after_a_minute(node: MakeNode) -> None:
    async with node(at="2026-10-01T13:59:30Z") as world:
        target = {"type": "HANDLER", "name": "absent"}
        world.serves = lambda target: False
        daily = (await world.cron("0 14 * * *", target=target))["job_id"]
        each_second = (await world.cron("* * * * * *", target=target))["job_id"]
        once = (await world.create(execute_at="2026-10-01T14:00:00Z", schedule_type="ONE_OFF", target=target))[
            "job_id"
        ]
        paused = (await world.cron("* * * * * *", target=target))["job_id"]
        await world.client.post(f"/v1/jobs/{paused}/pause")
        seen = []
        for instant in ("13:59:31", "13:59:32.500", "14:00:30", "14:01:00", "14:01:01"):
            await world.until(f"2026-10-01T{instant}Z")
            jobs = [(await world.get(job_id)).json for job_id in (daily, each_second, once, paused)]
            seen.append([job["overdue_seconds"] for job in jobs])
        assert seen == [
            [None, None, None, None],
            [None, 1, None, None],
            [None, 59, None, None],
            [None, 89, None, None],
            [61, 90, 61, None],
        ]
