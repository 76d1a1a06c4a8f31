"""POST /v1/schedules/preview, and cron faults in jobs."""

from time import thread_time
from typing import Any

import pytest

from .world import ENDPOINT, HttpWorld


async def test_a_preview_shows_times_and_notes_about_the_clock_change(world: HttpWorld) -> None:
    body = {
        "cron_expression": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "start": "2026-03-28T12:00:00Z",
        "count": 2,
    }
    reply = await world.client.post("/v1/schedules/preview", body)
    assert reply.status == 200
    assert reply.json["next"] == ["2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]
    assert reply.json["local"] == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    assert "02:30:00 never comes" in reply.json["notes"][0]


async def test_a_preview_without_start_and_count_shows_five_from_now(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/schedules/preview", {"cron_expression": "@daily"})
    assert len(reply.json["next"]) == 5


@pytest.mark.pitfall(10)
@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("0 0 * * 8", "day-of-week"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 2,4,6,9,11 *", "never fires"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("0 0 0 * *", "day-of-month"),
        ("0 0 * 13 *", "month"),
        ("*/0 * * * *", "minute"),
        ("", "empty"),
        ("* * * *", "5"),
        ("0 0 * * MON#9", "day-of-week"),
    ],
)
async def test_an_impossible_expression_is_422_at_once_everywhere(
    world: HttpWorld, expression: str, says: str
) -> None:
    job = {"schedule_type": "CRON", "cron_expression": expression, "target": {"endpoint": ENDPOINT}}
    compact = {"trigger_type": "CRON", "cron_expression": expression, "target_endpoint": ENDPOINT}
    for method, path, body in (
        ("POST", "/v1/schedules/preview", {"cron_expression": expression}),
        ("POST", "/v1/jobs", job),
        ("PUT", "/v1/jobs/by-name/x", job),
        ("POST", "/v1/jobs/schedule", compact),
    ):
        before_s = thread_time()
        reply = await world.client.request(method, path, body)
        assert thread_time() - before_s < 0.1
        assert (reply.status, reply.fields) == (422, ["cron_expression"])
        assert says in reply.json["detail"] or expression == ""


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["cron_expression"]),
        ({"cron_expression": 5}, ["cron_expression"]),
        ({"cron_expression": "* * * * *", "timezone": "Mars/Olympus"}, ["timezone"]),
        ({"cron_expression": "* * * * *", "count": 0}, ["count"]),
        ({"cron_expression": "* * * * *", "count": 1001}, ["count"]),
        ({"cron_expression": "* * * * *", "count": 1e400}, None),
        ({"cron_expression": "* * * * *", "start": "now"}, ["start"]),
        ({"cron_expression": "* * * * *", "tz": "UTC"}, ["tz"]),
        ({"cron_expression": "*" * 300}, ["cron_expression"]),
        ([], None),
    ],
)
async def test_a_preview_names_what_is_wrong(world: HttpWorld, body: Any, fields: list[str] | None) -> None:
    reply = await world.client.post("/v1/schedules/preview", body)
    if fields is None:
        assert (reply.status, reply.code) == (400, "malformed_json")
    else:
        assert (reply.status, reply.fields) == (422, fields)


async def test_a_repeated_key_in_a_preview_is_refused(world: HttpWorld) -> None:
    raw = b'{"cron_expression":"* * * * *","count":1,"count":2}'
    reply = await world.client.post("/v1/schedules/preview", raw=raw)
    assert (reply.status, reply.fields) == (422, ["count"])


async def test_warnings_of_an_expression_are_in_the_answers(world: HttpWorld) -> None:
    expression = "0 0 */2 * MON"
    preview = (await world.client.post("/v1/schedules/preview", {"cron_expression": expression})).json
    assert preview["warnings"]
    assert (await world.cron(expression))["warnings"] == preview["warnings"]


async def test_a_preview_lists_its_fields_when_one_is_unknown(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/schedules/preview", {"expr": "* * * * *"})
    assert reply.json["detail"].endswith("it has: cron_expression, timezone, start, count")
