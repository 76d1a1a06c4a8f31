"""Runs with their attempts and timeline, and the dead-letter queue."""

import pytest

from tickwheel.domain.outcome import Outcome, OutcomeClass, ProgressNote
from tickwheel.domain.requests.instants import format_instant, parse_instant
from tickwheel.testing.virtual_clock import START_MS

from .world import HttpWorld

BROKEN = Outcome(outcome_class=OutcomeClass.RETRYABLE, http_status=503, error="HTTP 503", excerpt=b"starting")


async def test_a_run_tells_when_it_passed_each_station(world: HttpWorld) -> None:
    job_id = (await world.create(delay_seconds=2))["job_id"]
    await world.clock.advance(3_000)
    page = (await world.client.get(f"/v1/jobs/{job_id}/runs")).json
    assert page["next_cursor"] is None
    [run] = page["runs"]
    assert "attempts" not in run
    due = format_instant(START_MS + 2_000)
    assert run["timeline"] == {
        "armed": run["timeline"]["armed"],
        "claimed": due,
        "dispatched": due,
        "started": due,
        "finished": run["timeline"]["finished"],
        "lateness_ms": 0,
    }
    assert parse_instant(run["timeline"]["finished"]) >= START_MS + 2_000
    assert (run["status"], run["scheduled_at"], run["attempt"]) == ("SUCCEEDED", due, 1)
    whole = (await world.client.get(f"/v1/runs/{run['run_id']}")).json
    told_of_one = {"attempts", "progress", "note", "result", "result_dropped"}
    assert {name: value for name, value in whole.items() if name not in told_of_one} == run
    assert told_of_one <= whole.keys()
    assert [attempt["outcome"] for attempt in whole["attempts"]] == ["success"]
    await world.close()


async def test_every_failed_attempt_is_kept_with_its_cause(world: HttpWorld) -> None:
    world.behave = lambda work: BROKEN
    retry = {"max_retries": 2, "initial_interval_sec": 1, "max_interval_sec": 1}
    job_id = (await world.create(schedule_type="INSTANT", retry_policy=retry))["job_id"]
    await world.clock.advance(10_000)
    [run] = (await world.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"]
    assert (run["status"], run["attempt"], run["http_status"], run["error"]) == ("FAILED", 3, 503, "HTTP 503")
    whole = (await world.client.get(f"/v1/runs/{run['run_id']}")).json
    assert [attempt["attempt"] for attempt in whole["attempts"]] == [1, 2, 3]
    for attempt in whole["attempts"]:
        assert (attempt["outcome"], attempt["http_status"]) == ("retryable", 503)
        assert (attempt["error"], attempt["excerpt"]) == ("HTTP 503", "starting")
    tokens = [attempt["fencing_token"] for attempt in whole["attempts"]]
    assert tokens == sorted(set(tokens))
    assert whole["timeline"]["lateness_ms"] == 0
    assert run["timeline"]["lateness_ms"] is None  # a list knows the last attempt's start only
    await world.close()


async def test_a_run_that_is_to_come_can_be_read(world: HttpWorld) -> None:
    job_id = (await world.create())["job_id"]
    assert (await world.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"] == []
    triggered = (await world.client.post(f"/v1/jobs/{job_id}/trigger")).json
    run = (await world.client.get(f"/v1/runs/{triggered['run_id']}")).json
    assert (run["status"], run["attempt"], run["fencing_token"]) == ("SCHEDULED", 0, None)
    assert set(run["timeline"].values()) == {None}


async def test_a_waiting_run_can_be_cancelled_and_an_ended_one_can_not(world: HttpWorld) -> None:
    triggered = (await world.client.post(f"/v1/jobs/{(await world.create())['job_id']}/trigger")).json
    path = f"/v1/runs/{triggered['run_id']}/cancel"
    reply = await world.client.post(path)
    assert (reply.status, reply.json) == (200, {"status": "CANCELLED"})
    ended = (await world.create(schedule_type="INSTANT"))["job_id"]
    await world.clock.advance(10)
    [run] = (await world.client.get(f"/v1/jobs/{ended}/runs")).json["runs"]
    reply = await world.client.post(f"/v1/runs/{run['run_id']}/cancel")
    assert (reply.status, reply.code) == (409, "conflict")
    await world.close()


async def test_runs_of_a_job_come_in_pages_latest_first(world: HttpWorld) -> None:
    job_id = (await world.cron("* * * * * *"))["job_id"]
    await world.clock.advance(7_000)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await world.client.get(f"/v1/jobs/{job_id}/runs?limit=3{cursor}")).json
        seen += [run["scheduled_at"] for run in page["runs"]]
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else None
    assert len(seen) == 7
    assert seen == sorted(seen, reverse=True)
    await world.close()


async def test_a_skipped_run_says_why(world: HttpWorld) -> None:
    job_id = (await world.create(delay_seconds=5))["job_id"]
    await world.client.request("PATCH", f"/v1/jobs/{job_id}", {"delay_seconds": 50})
    [run] = (await world.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"]
    assert (run["status"], run["skip_reason"]) == ("SKIPPED", "superseded")


async def test_another_tenants_run_is_not_found(world: HttpWorld) -> None:
    job_id = (await world.create(tenant_id="mine"))["job_id"]
    run_id = (await world.client.post(f"/v1/jobs/{job_id}/trigger?tenant_id=mine")).json["run_id"]
    for method, path in (("GET", ""), ("POST", "/cancel")):
        for tenant in ("", "?tenant_id=theirs"):
            reply = await world.client.request(method, f"/v1/runs/{run_id}{path}{tenant}")
            assert (reply.status, reply.code) == (404, "not_found")
    assert (await world.client.get(f"/v1/runs/{run_id}?tenant_id=mine")).status == 200


@pytest.mark.parametrize("text", ["x", "run_", "run_" + "Z" * 39, "job_" + "0" * 39])
async def test_what_is_no_run_id_is_not_found(world: HttpWorld, text: str) -> None:
    assert (await world.client.get(f"/v1/runs/{text}")).code == "not_found"
    assert (await world.client.request("DELETE", f"/v1/dlq/{text}")).code == "not_found"


async def dead(world: HttpWorld, count: int = 1, **fields: object) -> list[str]:
    """Ids of runs that have failed for good."""
    world.behave = lambda work: BROKEN
    for _ in range(count):
        await world.create(schedule_type="INSTANT", retry_policy={"max_retries": 0}, **fields)
    await world.clock.advance(100)
    tenant = f"?tenant_id={fields['tenant_id']}" if "tenant_id" in fields else ""
    return [letter["run_id"] for letter in (await world.client.get(f"/v1/dlq{tenant}")).json["dead_letters"]]


async def test_a_dead_letter_names_run_job_and_cause(world: HttpWorld) -> None:
    [run_id] = await dead(world, job_name="sender")
    [letter] = (await world.client.get("/v1/dlq")).json["dead_letters"]
    assert (letter["run_id"], letter["job_name"], letter["attempts"]) == (run_id, "sender", 1)
    assert (letter["cause"], letter["error"], letter["http_status"]) == (
        "HTTP 503",
        "HTTP 503",
        503,
    )
    assert letter["failed_at"].endswith("Z")
    await world.close()


async def test_dead_letters_are_redriven_by_id_and_run_again(world: HttpWorld) -> None:
    one, two = await dead(world, 2)
    world.behave = lambda work: Outcome(outcome_class=OutcomeClass.SUCCESS)
    unknown = "run_" + "0" * 39
    reply = await world.client.post("/v1/dlq/redrive", {"run_ids": [one, unknown, one]})
    assert reply.status == 200
    assert reply.json == {"redriven_count": 1, "redriven": [one], "not_found": [unknown], "refused": []}
    await world.clock.advance(100)
    assert (await world.client.get(f"/v1/runs/{one}")).json["status"] == "SUCCEEDED"
    assert (await world.client.get(f"/v1/runs/{two}")).json["status"] == "FAILED"
    again = (await world.client.post("/v1/dlq/redrive", {"run_ids": [one]})).json
    assert [(refused["run_id"], refused["code"]) for refused in again["refused"]] == [(one, "conflict")]
    await world.close()


async def test_all_dead_letters_of_a_tenant_are_redriven_at_once(world: HttpWorld) -> None:
    await dead(world, 3)
    await dead(world, 1, tenant_id="acme")
    reply = await world.client.post("/v1/dlq/redrive", {"all": True})
    assert reply.json["redriven_count"] == 3
    assert len((await world.client.get("/v1/dlq?tenant_id=acme")).json["dead_letters"]) == 1
    await world.close()


GONE = Outcome(outcome_class=OutcomeClass.PERMANENT, http_status=404, error="HTTP 404")


async def dead_of_two_causes(world: HttpWorld) -> tuple[list[str], list[str]]:
    """Run ids of two jobs with HTTP 503, and of one with HTTP 404."""
    broken = await dead(world, 1, job_name="b-1")
    broken += [run_id for run_id in await dead(world, 1, job_name="b-2") if run_id not in broken]
    world.behave = lambda work: GONE
    await world.create(schedule_type="INSTANT", retry_policy={"max_retries": 0}, job_name="g")
    await world.clock.advance(100)
    letters = (await world.client.get("/v1/dlq")).json["dead_letters"]
    return broken, [letter["run_id"] for letter in letters if letter["cause"] == "HTTP 404"]


async def test_dead_letters_are_grouped_by_cause(world: HttpWorld) -> None:
    broken, gone = await dead_of_two_causes(world)
    await dead(world, 1, tenant_id="acme")
    seen = (await world.client.get("/v1/dlq/causes")).json
    assert seen["is_whole"]
    assert [(one["cause"], one["count"]) for one in seen["causes"]] == [("HTTP 503", 2), ("HTTP 404", 1)]
    assert {job["job_name"] for job in seen["causes"][0]["jobs"]} == {"b-1", "b-2"}
    assert seen["causes"][0]["example_run_id"] in broken
    assert seen["causes"][1]["example_run_id"] == gone[0]
    assert seen["causes"][0]["oldest_failed_at"] <= seen["causes"][0]["newest_failed_at"]
    assert (await world.client.get("/v1/dlq/causes?tenant_id=none")).json["causes"] == []
    await world.close()


async def test_dead_letters_of_a_cause_or_a_job_are_listed(world: HttpWorld) -> None:
    broken, [gone] = await dead_of_two_causes(world)

    async def listed(query: str) -> list[str]:
        page = (await world.client.get(f"/v1/dlq?{query}")).json
        return [letter["run_id"] for letter in page["dead_letters"]]

    assert sorted(await listed("cause=HTTP%20503")) == sorted(broken)
    assert await listed("cause=HTTP%20404") == [gone]
    assert await listed("cause=HTTP%20404&limit=1") == [gone], "a page looks on for its first letter"
    assert await listed("cause=HTTP%20503&limit=1"), "so it does further down"
    job_id = (await world.client.get(f"/v1/runs/{gone}")).json["job_id"]
    assert await listed(f"job_id={job_id}") == [gone]
    assert await listed(f"job_id={job_id}&cause=HTTP%20503") == []
    assert (await world.client.get("/v1/dlq?job_id=x")).fields == ["job_id"]
    await world.close()


async def test_dead_letters_of_a_cause_or_a_job_are_redriven(world: HttpWorld) -> None:
    broken, [gone] = await dead_of_two_causes(world)
    world.behave = lambda work: Outcome(outcome_class=OutcomeClass.SUCCESS)
    reply = await world.client.post("/v1/dlq/redrive", {"cause": "HTTP 503"})
    assert sorted(reply.json["redriven"]) == sorted(broken)
    job_id = (await world.client.get(f"/v1/runs/{gone}")).json["job_id"]
    nobody = await world.client.post("/v1/dlq/redrive", {"cause": "HTTP 503", "job_id": job_id})
    assert nobody.json["redriven_count"] == 0
    assert (await world.client.post("/v1/dlq/redrive", {"job_id": job_id})).json["redriven"] == [gone]
    await world.clock.advance(100)
    assert (await world.client.get("/v1/dlq")).json["dead_letters"] == []
    await world.close()


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["run_ids"]),
        ({"all": True, "cause": "HTTP 503"}, ["run_ids"]),
        ({"run_ids": ["run_" + "0" * 39], "cause": "HTTP 503"}, ["run_ids"]),
        ({"job_id": "job_x"}, ["job_id"]),
        ({"cause": ""}, ["cause"]),
        ({"run_ids": ["run_" + "0" * 39], "all": True}, ["run_ids"]),
        ({"run_ids": []}, ["run_ids"]),
        ({"run_ids": ["x", "run_" + "0" * 39, "y"]}, ["run_ids[0]", "run_ids[2]"]),
        ({"run_ids": [7]}, ["run_ids[0]"]),
        ({"run_ids": ["run_" + "0" * 39] * 10_001}, ["run_ids"]),
        ({"all": "yes"}, ["all"]),
        ({"ids": []}, ["ids"]),
    ],
)
async def test_a_redrive_names_what_is_wrong(world: HttpWorld, body: object, fields: list[str]) -> None:
    reply = await world.client.post("/v1/dlq/redrive", body)
    assert (reply.status, reply.fields) == (422, fields)


async def test_a_redrive_of_nonsense_is_not_answered_with_a_flood(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/dlq/redrive", {"run_ids": [f"run_{n}" for n in range(1_000)]})
    assert (reply.status, len(reply.json["errors"])) == (422, 100)


async def test_a_deleted_dead_letter_leaves_its_run_failed(world: HttpWorld) -> None:
    [run_id] = await dead(world)
    other = await world.client.request("DELETE", f"/v1/dlq/{run_id}?tenant_id=theirs")
    assert other.code == "not_found"
    assert (await world.client.request("DELETE", f"/v1/dlq/{run_id}")).status == 204
    assert (await world.client.request("DELETE", f"/v1/dlq/{run_id}")).code == "not_found"
    assert (await world.client.get("/v1/dlq")).json["dead_letters"] == []
    assert (await world.client.get(f"/v1/runs/{run_id}")).json["status"] == "FAILED"
    await world.close()


async def test_a_run_shows_what_its_attempt_says_and_what_it_returned(world: HttpWorld) -> None:
    world.behave = lambda work: None
    job_id = (await world.create(schedule_type="INSTANT"))["job_id"]
    await world.clock.advance(50)
    [(executor, slot)] = [(executor, slot) for executor in world.executors for slot in executor.open]
    executor.say(slot, ProgressNote(0.4, "two of five"))
    await world.clock.advance(1_000)
    [run] = (await world.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"]
    assert "progress" not in run
    assert "result" not in run
    whole = (await world.client.get(f"/v1/runs/{run['run_id']}")).json
    assert (whole["status"], whole["progress"], whole["note"]) == ("RUNNING", 0.4, "two of five")
    job = (await world.get(job_id)).json
    assert (job["current_progress"], job["current_note"]) == (0.4, "two of five")
    executor.finish(slot, Outcome(outcome_class=OutcomeClass.SUCCESS, result=b'{"sum":[3,"\\u0000"]}'))
    await world.clock.advance(1_000)
    whole = (await world.client.get(f"/v1/runs/{run['run_id']}")).json
    assert (whole["status"], whole["progress"], whole["note"]) == ("SUCCEEDED", None, None)
    assert (whole["result"], whole["result_dropped"]) == ({"sum": [3, "\0"]}, None)
    await world.close()


async def test_a_run_tells_why_its_result_was_not_kept(world: HttpWorld) -> None:
    reason = "it has 70,000 bytes as JSON; at most 65,536 are kept"
    world.behave = lambda work: Outcome(outcome_class=OutcomeClass.SUCCESS, result_dropped=reason)
    job_id = (await world.create(schedule_type="INSTANT"))["job_id"]
    await world.clock.advance(1_000)
    [run] = (await world.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"]
    whole = (await world.client.get(f"/v1/runs/{run['run_id']}")).json
    assert (whole["status"], whole["result"], whole["result_dropped"]) == ("SUCCEEDED", None, reason)
    await world.close()
