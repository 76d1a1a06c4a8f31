"""Where clocks change, a job fires exactly when the preview says, in the order of real time, and once each."""

import os
import time
from collections.abc import Iterator

import pytest

from .conftest import MakeNode
from .node import ENDPOINT

CASES = [
    pytest.param(
        *("30 * * * *", "Europe/Helsinki", "2017-10-29T03:45:00+02:00"),
        ["2017-10-29T02:30", "2017-10-29T03:30", "2017-10-29T04:30"],
        marks=pytest.mark.pitfall(1),
        id="from the second pass of the repeated hour",
    ),
    pytest.param(
        *("30 * * * *", "Europe/Helsinki", "2017-10-29T02:45:00+03:00"),
        ["2017-10-29T00:30", "2017-10-29T01:30", "2017-10-29T02:30"],
        marks=pytest.mark.pitfall(1),
        id="through both passes of the repeated hour",
    ),
    pytest.param(
        *("*/30 * * * *", "Australia/Lord_Howe", "2026-04-05T01:45:00+11:00"),
        ["2026-04-04T15:00", "2026-04-04T15:30", "2026-04-04T16:00"],
        marks=pytest.mark.pitfall(1),
        id="where the clock goes back by half an hour",
    ),
    pytest.param(
        *("0 12 * * 1", "Europe/Amsterdam", "2013-10-26T00:00:00+02:00"),
        ["2013-10-28T11:00", "2013-11-04T11:00"],
        marks=pytest.mark.pitfall(4),
        id="weekly, after the clock went back",
    ),
    pytest.param(
        *("0 12 * * 1", "Europe/Amsterdam", "2014-03-28T00:00:00+01:00"),
        ["2014-03-31T10:00", "2014-04-07T10:00"],
        marks=pytest.mark.pitfall(4),
        id="weekly, after the clock went forward",
    ),
    pytest.param(
        *("0 2 * * *", "Europe/Berlin", "2023-10-28T12:00:00+02:00"),
        ["2023-10-29T00:00", "2023-10-30T01:00"],
        marks=pytest.mark.pitfall(4),
        id="daily, in the hour that comes twice",
    ),
    pytest.param(
        *("4 16 * * *", "America/New_York", "2025-03-09T00:00:00-05:00"),
        ["2025-03-09T20:04", "2025-03-10T20:04"],
        marks=pytest.mark.pitfall(7),
        id="on the day that is an hour short",
    ),
    pytest.param(
        *("4 16 * * *", "America/New_York", "2025-11-02T00:00:00-04:00"),
        ["2025-11-02T21:04", "2025-11-03T21:04"],
        marks=pytest.mark.pitfall(7),
        id="on the day that is an hour longer",
    ),
    pytest.param(
        *("30 2 * * *", "America/New_York", "2025-03-08T12:00:00-05:00"),
        ["2025-03-09T07:00", "2025-03-10T06:30"],
        marks=pytest.mark.pitfall(7),
        id="at a time that does not come",
    ),
]


@pytest.mark.parametrize(("expression", "zone", "start", "wanted"), CASES)
async def test_what_fires_is_what_the_preview_shows(
    node: MakeNode, expression: str, zone: str, start: str, wanted: list[str]
) -> None:
    async with node(at=start) as world:
        instants = [f"{minute}:00.000Z" for minute in wanted]
        assert await world.preview(expression, zone, start, len(instants)) == instants
        job_id = (await world.cron(expression, timezone=zone))["job_id"]
        for number, instant in enumerate(instants):
            assert await world.due(job_id) == instant
            await world.leap(instant)
            assert await world.states(job_id) == [(at, "SUCCEEDED") for at in instants[: number + 1]]
        assert [call.work.scheduled_ms for call in world.calls] == sorted(
            {c.work.scheduled_ms for c in world.calls}
        )


@pytest.mark.pitfall(5)
async def test_every_five_minutes_goes_on_through_the_end_of_summer_time(node: MakeNode) -> None:
    async with node(at="2020-10-24T23:59:00Z") as world:
        job_id = (await world.cron("*/5 * * * *", timezone="Europe/Paris"))["job_id"]
        instants = [f"2020-10-25T0{m // 60}:{m % 60:02d}:00.000Z" for m in range(0, 180, 5)]
        for instant in instants:
            await world.leap(instant)
        assert await world.states(job_id) == [(at, "SUCCEEDED") for at in instants]
        assert await world.due(job_id) == "2020-10-25T03:00:00.000Z"


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own zone is eight hours ahead."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
    assert os.environ.get("TZ") != "Asia/Shanghai"


@pytest.mark.pitfall(11)
@pytest.mark.usefixtures("far_east")
@pytest.mark.parametrize(("zone", "hour"), [("UTC", 0), ("Asia/Shanghai", 16), ("America/Los_Angeles", 7)])
async def test_daily_job_runs_once_a_day_whatever_the_zone_of_the_machine(
    node: MakeNode, zone: str, hour: int
) -> None:
    async with node(at="2026-09-10T15:30:00Z") as world:
        job_id = (await world.cron("0 0 * * *", timezone=zone))["job_id"]
        first_day = 10 if hour > 15 else 11
        for day in range(first_day, first_day + 5):
            assert await world.due(job_id) == f"2026-09-{day:02d}T{hour:02d}:00:00.000Z"
            await world.leap(f"2026-09-{day:02d}T{hour:02d}:00:00Z")
            assert len(await world.states(job_id)) == day - first_day + 1
        assert len(world.calls) == 5


@pytest.mark.pitfall(10)
@pytest.mark.parametrize("expression", ["0 0 * * 8", "0 0 30 2 *"])
async def test_an_edit_to_what_never_fires_is_refused_at_once_and_leaves_the_schedule(
    node: MakeNode, expression: str
) -> None:
    async with node(at="2026-10-01T14:02:00Z") as world:
        job_id = (await world.cron("0 15 * * *"))["job_id"]
        before_s = time.thread_time()
        patched = await world.client.request("PATCH", f"/v1/jobs/{job_id}", {"cron_expression": expression})
        good, bad = ({"cron_expression": text, "schedule_type": "CRON"} for text in ("0 1 * * *", expression))
        batch = [item | {"target": {"endpoint": ENDPOINT}} for item in (good, bad)]
        answers = (await world.client.post("/v1/jobs/batch", batch)).json["results"]
        assert time.thread_time() - before_s < 0.2
        assert (patched.status, patched.fields) == (422, ["cron_expression"])
        assert ["job_id" in answer for answer in answers] == [True, False]
        assert await world.due(job_id) == "2026-10-01T15:00:00.000Z"
