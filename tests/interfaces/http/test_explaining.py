"""Explanations over HTTP: what a reader of the API is told, and what is hidden from them."""

from tickwheel.domain.outcome import OK, Outcome, OutcomeClass
from tickwheel.domain.requests.instants import parse_instant

from .world import HttpWorld

ECHO = Outcome(
    outcome_class=OutcomeClass.RETRYABLE,
    http_status=503,
    error="answered 503",
    excerpt=b'{"you sent": {"Authorization": "Bearer abcdef123456", "api_key": "k-42"}}',
)
TARGET = {
    "endpoint": "https://example.com/hook?token=hunter2",
    "headers": {"Authorization": "Bearer abcdef123456"},
}


async def run_id_of(world: HttpWorld, job_id: str) -> str:
    [run] = (await world.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"]
    run_id: str = run["run_id"]
    return run_id


async def test_a_run_on_time_is_told_in_one_sentence(world: HttpWorld) -> None:
    job_id = (await world.create(delay_seconds=2))["job_id"]
    await world.clock.advance(3_000)
    run_id = await run_id_of(world, job_id)
    told = (await world.client.get(f"/v1/runs/{run_id}/explain")).json
    assert told["headline"] == "Ran on time, 0 ms after its instant. The first attempt succeeded."
    assert (told["verdict"], told["lateness_ms"], told["causes"]) == ("on_time", 0, [])
    steps = [(step["step"], step["took_ms"]) for step in told["timeline"]]
    assert [name for name, _ in steps] == ["created", "due", "claimed", "dispatched", "started", "finished"]
    assert steps[:3] == [("created", None), ("due", 2_000), ("claimed", 0)]
    assert (await world.client.get(f"/v1/jobs/{job_id}/explain")).json == told
    await world.close()


async def test_secrets_are_hidden_in_requests_and_answers(world: HttpWorld) -> None:
    world.behave = lambda work: ECHO if work.attempt == 1 else OK
    job_id = (await world.create(schedule_type="INSTANT", target=TARGET))["job_id"]
    await world.clock.advance(60_000)
    reply = await world.client.get(f"/v1/runs/{await run_id_of(world, job_id)}/explain")
    first, second = reply.json["attempts"]
    for secret in (b"hunter2", b"abcdef123456", b"k-42"):
        assert secret not in reply.body
    assert first["request"]["headers"]["Authorization"] == "[redacted]"
    assert first["request"]["endpoint"] == "https://example.com/hook?token=***"
    assert first["request"]["headers"]["X-Fencing-Token"] == str(first["fencing_token"])
    assert first["excerpt"] == '{"you sent": {"Authorization": "***", "api_key": "***"}}'
    assert (first["reached_target"], second["reached_target"]) == ("yes", "yes")
    assert second["why"]["code"] == "retry"
    assert [cause["code"] for cause in reply.json["causes"]] == ["retry"]
    await world.close()


async def test_a_time_that_never_came_is_told_with_the_run_that_stood_for_it(world: HttpWorld) -> None:
    job_id = (await world.cron("30 2 * * *", timezone="Europe/Berlin"))["job_id"]
    told = (await world.client.get(f"/v1/jobs/{job_id}/explain?at=2027-03-28T02:30:00")).json
    assert told["verdict"] == "no_run"
    assert told["causes"][0]["code"] == "clock_change"
    assert "so 2027-03-28 02:30:00 never comes" in told["headline"]
    assert parse_instant(told["occurrence_before"]) < parse_instant(told["scheduled_at"])
    assert parse_instant(told["occurrence_after"]) > parse_instant(told["scheduled_at"])
    await world.close()


async def test_what_is_no_time_is_refused(world: HttpWorld) -> None:
    job_id = (await world.cron())["job_id"]
    for at in ("yesterday", "2026-02-30T10:00:00", "2026-02-30T10:00:00Z", "1900-01-01T00:00:00"):
        reply = await world.client.get(f"/v1/jobs/{job_id}/explain?at={at}")
        assert reply.status == 422
        assert [problem["field"] for problem in reply.json["errors"]] == ["at"]
    reply = await world.client.get(f"/v1/jobs/{job_id}/explain?when=now")
    assert reply.status == 422
    await world.close()


async def test_a_foreign_run_is_not_found(world: HttpWorld) -> None:
    job_id = (await world.create(delay_seconds=1))["job_id"]
    await world.clock.advance(2_000)
    run_id = await run_id_of(world, job_id)
    for path in (f"/v1/runs/{run_id}/explain", f"/v1/jobs/{job_id}/explain"):
        foreign = await world.client.get(f"{path}?tenant_id=other")
        assert (foreign.status, foreign.json["code"]) == (404, "not_found")
    assert (await world.client.get("/v1/runs/run_x/explain")).status == 404
    await world.close()


async def test_a_run_that_never_was_is_explained(world: HttpWorld) -> None:
    job_id = (await world.create(delay_seconds=60))["job_id"]
    told = (await world.client.get(f"/v1/jobs/{job_id}/explain?at=2031-01-01T00:00:00Z")).json
    assert told["headline"].startswith("There is no run at 2031-01-01T00:00:00Z: the job runs once, at ")
    assert [cause["code"] for cause in told["causes"]] == ["not_in_schedule"]
    again = (await world.client.get(f"/v1/runs/{told['run_id']}/explain")).json
    assert again["verdict"] == "no_run"
    await world.close()


async def test_an_edit_after_the_run_is_told(world: HttpWorld) -> None:
    job_id = (await world.cron("* * * * *"))["job_id"]
    await world.clock.advance(70_000)
    run_id = await run_id_of(world, job_id)
    assert not (await world.client.get(f"/v1/runs/{run_id}/explain")).json["edited_since"]
    edited = await world.client.request(
        "PATCH", f"/v1/jobs/{job_id}", {"target": {"endpoint": "https://example.com/other"}}
    )
    assert edited.status == 200, edited.body
    assert (await world.client.get(f"/v1/runs/{run_id}/explain")).json["edited_since"]
    await world.close()
