"""Jobs that exist: reading, listing, changing, holding, ending, running now."""

from typing import Any

import pytest

from tickwheel.domain.errors import Overloaded, StoreUnavailable
from tickwheel.domain.requests.instants import format_instant
from tickwheel.testing.virtual_clock import START_MS

from .world import ENDPOINT, HttpWorld, one_off

SEED_B_STATUS = {
    "job_id",
    "status",
    "last_heartbeat_at",
    "current_lease_worker_id",
    "current_attempt",
    "fencing_token",
}


async def test_a_running_job_shows_lease_attempt_and_token(world: HttpWorld) -> None:
    world.behave = lambda work: None
    job_id = (await world.create(schedule_type="INSTANT"))["job_id"]
    await world.clock.advance(11_000)
    job = (await world.get(job_id)).json
    assert job.keys() > SEED_B_STATUS
    assert job["status"] == "RUNNING"
    assert job["current_attempt"] == 1
    assert job["fencing_token"] == world.calls[0].work.fence
    assert job["current_lease_worker_id"] == "worker-1"
    assert job["last_heartbeat_at"].endswith("Z")
    assert job["last_run"]["status"] == "RUNNING"
    await world.close()


async def test_header_values_are_never_shown(world: HttpWorld) -> None:
    target = {"endpoint": ENDPOINT, "headers": {"Authorization": "Bearer s3cret", "X-Plain": "s3cret"}}
    created = await world.client.post("/v1/jobs", one_off(target=target))
    job_id = created.json["job_id"]
    patched = await world.client.request("PATCH", f"/v1/jobs/{job_id}", {"priority": "LOW"})
    bad = await world.client.request("PATCH", f"/v1/jobs/{job_id}", {"target": {"headers": {"a b": "s3cret"}}})
    replies = [created, await world.get(job_id), await world.client.get("/v1/jobs"), patched, bad]
    assert (await world.get(job_id)).json["target"]["headers"] == {
        "Authorization": "[redacted]",
        "X-Plain": "[redacted]",
    }
    assert not [reply for reply in replies if b"s3cret" in reply.body]


@pytest.mark.pitfall(16)
@pytest.mark.parametrize(
    "fields",
    [
        {
            "schedule_type": "CRON",
            "cron_expression": "*/5 9-17 * * MON-FRI",
            "timezone": "Europe/Berlin",
            "catch_up": {"policy": "fire_all", "max": 7},
            "overlap": "buffer_one",
            "deadline_seconds": 90.5,
            "start_at": "2026-10-01T00:00:00Z",
            "end_at": "2030-10-01T00:00:00.250Z",
        },
        {"schedule_type": "CRON", "cron_expression": "0 2 * * *", "catch_up": {"policy": "skip"}},
        {"schedule_type": "ONE_OFF", "execute_at": "2026-12-01T00:00:00Z", "deadline_seconds": 5},
        {"schedule_type": "DELAYED", "run_at_epoch_ms": START_MS + 60_001},
        {
            "schedule_type": "ONE_OFF",
            "execute_at": "2026-12-01T00:00:00Z",
            "concurrency": [
                {"key": "customer-42", "limit": 2, "max_waiting": 0},
                {"scope": "tenant", "limit": 100},
            ],
        },
        {"schedule_type": "INSTANT", "target": {"type": "HANDLER", "name": "absent"}},
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_what_was_read_can_be_sent_back_and_changes_nothing(
    world: HttpWorld, method: str, fields: dict[str, Any]
) -> None:
    world.serves = lambda target: target.name != "absent"
    body = {
        "target": {"endpoint": ENDPOINT, "headers": {"Authorization": "secret"}, "timeout_seconds": 1.5},
        "payload": {"a": [1, None, "x"]},
        "priority": "CRITICAL",
        "tags": ["a", "b"],
        "retry_policy": {"max_retries": 0, "backoff_multiplier": 1.5},
    }
    path = "/v1/jobs/by-name/job"
    created = await world.client.request("PUT", path, body | fields)
    assert created.status == 201, created.body
    if method == "PATCH":
        path = f"/v1/jobs/{created.json['job_id']}"
    before = await world.get(created.json["job_id"])
    after = await world.client.request(method, path, raw=before.body)
    assert (after.status, after.json) == (200, before.json)
    assert (await world.get(created.json["job_id"])).body == before.body


async def test_one_field_of_what_was_read_can_be_changed_and_sent_back(world: HttpWorld) -> None:
    job_id = (await world.cron(catch_up={"policy": "skip"}, tags=["x"]))["job_id"]
    job = (await world.get(job_id)).json
    reply = await world.client.request("PATCH", f"/v1/jobs/{job_id}", job | {"priority": "HIGH"})
    assert reply.status == 200
    changed = {"priority": "HIGH", "version": 2, "updated_at": format_instant(world.clock.now_ms())}
    assert reply.json == job | changed


async def test_read_only_fields_do_not_hide_others_that_are_wrong(world: HttpWorld) -> None:
    job_id = (await world.create())["job_id"]
    job = (await world.get(job_id)).json
    for wrong, fields in (({"oops": 1}, ["oops"]), ({"schedule_type": "CRON"}, ["schedule_type"])):
        reply = await world.client.request("PATCH", f"/v1/jobs/{job_id}", job | wrong)
        assert (reply.status, reply.fields) == (422, fields)
    twice = b'{"status":"x","priority":"LOW","priority":"HIGH"}'
    reply = await world.client.request("PATCH", f"/v1/jobs/{job_id}", raw=twice)
    assert (reply.status, reply.fields) == (422, ["priority"])
    posted = await world.client.post("/v1/jobs", job)
    assert posted.status == 422
    assert "job_id" in posted.fields


async def test_a_patch_merges_and_null_restores_the_default(world: HttpWorld) -> None:
    job_id = (await world.cron(retry_policy={"max_retries": 9, "initial_interval_sec": 1}, priority="HIGH"))[
        "job_id"
    ]
    change = {"retry_policy": {"max_retries": None}, "priority": None, "tags": ["new"]}
    job = (await world.client.request("PATCH", f"/v1/jobs/{job_id}", change)).json
    assert job["retry_policy"]["max_retries"] == 3
    assert job["retry_policy"]["initial_interval_sec"] == 1
    assert (job["priority"], job["tags"]) == ("DEFAULT", ["new"])


async def test_if_match_guards_a_change(world: HttpWorld) -> None:
    job_id = (await world.cron())["job_id"]
    seen = (await world.get(job_id)).headers["etag"]
    path = f"/v1/jobs/{job_id}"
    first = await world.client.request("PATCH", path, {"priority": "LOW"}, headers={"If-Match": seen})
    assert (first.status, first.headers["etag"]) == (200, '"2"')
    second = await world.client.request("PATCH", path, {"priority": "HIGH"}, headers={"If-Match": seen})
    assert (second.status, second.code) == (412, "version_mismatch")
    assert (await world.get(job_id)).json["priority"] == "LOW"
    paused = await world.client.post(f"{path}/pause", headers={"If-Match": seen})
    assert paused.status == 412
    anything = await world.client.post(f"{path}/pause", headers={"If-Match": "*"})
    assert (anything.status, anything.headers["etag"]) == (200, '"3"')


@pytest.mark.parametrize("value", ["1", '"x"', '"1", "2"', '""', '"99999999999999999999"'])
async def test_an_if_match_that_is_no_etag_is_422(world: HttpWorld, value: str) -> None:
    job_id = (await world.cron())["job_id"]
    reply = await world.client.request("PATCH", f"/v1/jobs/{job_id}", {}, headers={"If-Match": value})
    assert (reply.status, reply.fields) == (422, ["If-Match"])


async def test_pause_and_resume_answer_the_job(world: HttpWorld) -> None:
    job_id = (await world.cron())["job_id"]
    paused = await world.client.post(f"/v1/jobs/{job_id}/pause")
    assert (paused.status, paused.json["status"], paused.json["next_run_time_iso"]) == (200, "PAUSED", None)
    resumed = await world.client.post(f"/v1/jobs/{job_id}/resume", {})
    assert (resumed.status, resumed.json["status"]) == (200, "SCHEDULED")
    assert resumed.json["next_run_time_iso"] is not None


async def test_cancel_is_repeatable_and_final(world: HttpWorld) -> None:
    job_id = (await world.create())["job_id"]
    for _ in range(2):
        reply = await world.client.post(f"/v1/jobs/{job_id}/cancel")
        assert (reply.status, reply.json) == (200, {"status": "CANCELLED"})
    assert (await world.get(job_id)).json["status"] == "CANCELLED"
    resumed = await world.client.post(f"/v1/jobs/{job_id}/resume")
    assert (resumed.status, resumed.code) == (409, "conflict")


async def test_a_job_that_is_over_can_not_be_cancelled(world: HttpWorld) -> None:
    job_id = (await world.create(schedule_type="INSTANT"))["job_id"]
    await world.clock.advance(0)
    reply = await world.client.post(f"/v1/jobs/{job_id}/cancel")
    assert (reply.status, reply.code) == (409, "conflict")
    await world.close()


async def test_a_deleted_job_is_gone(world: HttpWorld) -> None:
    job_id = (await world.create())["job_id"]
    reply = await world.client.request("DELETE", f"/v1/jobs/{job_id}")
    assert (reply.status, reply.body) == (204, b"")
    for method in ("GET", "DELETE"):
        assert (await world.client.request(method, f"/v1/jobs/{job_id}")).code == "not_found"


async def test_delete_cannot_keep_a_precondition_and_says_so(world: HttpWorld) -> None:
    job_id = (await world.create())["job_id"]
    reply = await world.client.request("DELETE", f"/v1/jobs/{job_id}", headers={"If-Match": '"1"'})
    assert (reply.status, reply.fields) == (422, ["If-Match"])


async def test_trigger_runs_the_job_now_beside_its_schedule(world: HttpWorld) -> None:
    job_id = (await world.cron(payload={"n": 1}))["job_id"]
    before = (await world.get(job_id)).json["next_run_time_iso"]
    reply = await world.client.post(f"/v1/jobs/{job_id}/trigger", headers={"Idempotency-Key": "once"})
    again = await world.client.post(f"/v1/jobs/{job_id}/trigger", headers={"Idempotency-Key": "once"})
    assert (reply.status, reply.json["status"]) == (201, "SCHEDULED")
    assert (again.json, again.headers["idempotent-replayed"]) == (reply.json, "true")
    await world.clock.advance(0)
    assert [call.work.payload for call in world.calls] == [b'{"n": 1}']
    assert world.calls[0].work.run_id == reply.json["run_id"]
    run = await world.client.get(f"/v1/runs/{reply.json['run_id']}")
    assert (run.status, run.json["job_id"]) == (200, reply.json["job_id"])
    assert (await world.get(job_id)).json["next_run_time_iso"] == before
    await world.close()


@pytest.mark.parametrize("action", ["cancel", "pause", "resume", "trigger"])
async def test_actions_take_no_fields(world: HttpWorld, action: str) -> None:
    job_id = (await world.create())["job_id"]
    reply = await world.client.post(f"/v1/jobs/{job_id}/{action}", {"tenant_id": "acme"})
    assert (reply.status, reply.fields) == (422, ["body"])
    form = await world.client.post(f"/v1/jobs/{job_id}/{action}", raw=b"a=b", content_type="text/plain")
    assert form.status == 415


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/jobs/{id}", None),
        ("PATCH", "/v1/jobs/{id}", {}),
        ("DELETE", "/v1/jobs/{id}", None),
        ("POST", "/v1/jobs/{id}/cancel", None),
        ("POST", "/v1/jobs/{id}/pause", None),
        ("POST", "/v1/jobs/{id}/resume", None),
        ("POST", "/v1/jobs/{id}/trigger", None),
        ("GET", "/v1/jobs/{id}/runs", None),
    ],
)
async def test_another_tenants_job_is_not_found(world: HttpWorld, method: str, path: str, body: Any) -> None:
    mine = (await world.create(tenant_id="mine"))["job_id"]
    for query in ("", "?tenant_id=theirs"):
        reply = await world.client.request(method, path.format(id=mine) + query, body)
        assert (reply.status, reply.code) == (404, "not_found")
    assert (await world.get(mine, "?tenant_id=mine")).json["status"] == "SCHEDULED"


@pytest.mark.parametrize(
    "text", ["x", "job_", "job_" + "0" * 25, "job_" + "U" * 26, "job_" + "Z" * 26, "job_%00" + "0" * 25]
)
async def test_what_is_no_job_id_is_not_found(world: HttpWorld, text: str) -> None:
    reply = await world.get(text)
    assert (reply.status, reply.code) == (404, "not_found")


async def test_the_list_filters_by_each_parameter(world: HttpWorld) -> None:
    one = (await world.create(job_name="alpha-1", tags=["red", "big"], priority="HIGH", delay_seconds=10))[
        "job_id"
    ]
    two = (await world.create(job_name="alpha-2", tags=["red"], delay_seconds=20))["job_id"]
    three = (await world.cron("0 0 1 1 *", job_name="beta"))["job_id"]
    await world.client.post(f"/v1/jobs/{two}/pause")
    await world.create(tenant_id="acme")

    async def listed(query: str) -> list[str]:
        reply = await world.client.get(f"/v1/jobs?{query}")
        assert reply.status == 200, reply.body
        return [job["job_id"] for job in reply.json["jobs"]]

    due = format_instant(START_MS + 15_000)
    assert set(await listed("")) == {one, two, three}
    assert await listed("name_prefix=alpha-1") == [one]
    assert set(await listed("name_prefix=alpha")) == {one, two}
    assert await listed("schedule_type=CRON") == [three]
    assert await listed("priority=HIGH") == [one]
    assert set(await listed("tag=red")) == {one, two}
    assert await listed("status=PAUSED") == [two]
    assert set(await listed("status=SCHEDULED")) == {one, three}
    assert await listed(f"due_to={due}") == [one]
    assert await listed(f"due_from={due}") == [three]
    assert await listed("order=due") == [one, three]
    assert len(await listed("tenant_id=acme")) == 1
    assert await listed("tag=red&priority=LOW") == []


@pytest.mark.pitfall(77)
async def test_a_walk_over_the_pages_has_neither_repeats_nor_gaps_under_inserts(world: HttpWorld) -> None:
    await world.client.post("/v1/jobs/batch", [one_off(delay_seconds=n + 1) for n in range(205)])
    there = {job["job_id"] for job in (await world.client.get("/v1/jobs?limit=1000")).json["jobs"]}
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await world.client.get(f"/v1/jobs?limit=50{cursor}")).json
        seen += [job["job_id"] for job in page["jobs"]]
        await world.clock.advance(1)
        await world.create()
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert len(seen) == len(set(seen))
    assert set(seen) >= there
    await world.close()


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("limit=0", ["limit"]),
        ("limit=1001", ["limit"]),
        ("limit=ten", ["limit"]),
        ("limit=٣", ["limit"]),
        ("limit=99999999999999999999", ["limit"]),
        ("limit=1&limit=2", ["limit"]),
        ("status=DONE", ["status"]),
        ("priority=high", ["priority"]),
        ("schedule_type=ONCE", ["schedule_type"]),
        ("order=name", ["order"]),
        ("due_from=yesterday", ["due_from"]),
        ("due_to=2026-10-01T00:00:00", ["due_to"]),
        ("tag=", ["tag"]),
        ("tenant_id=%00", ["tenant_id"]),
        ("tenant_id=" + "a" * 65, ["tenant_id"]),
        ("%FF=1", ["query"]),
        ("offset=5&page=2", ["offset", "page"]),
        ("&".join(f"a{n}=1" for n in range(60)), ["query"]),
    ],
)
async def test_a_wrong_parameter_is_named(world: HttpWorld, query: str, fields: list[str]) -> None:
    from urllib.parse import quote

    reply = await world.client.get("/v1/jobs?" + quote(query, safe="&=%"))
    assert (reply.status, reply.fields) == (422, fields)


async def test_a_cursor_of_another_list_is_400(world: HttpWorld) -> None:
    await world.client.post("/v1/jobs/batch", [one_off() for _ in range(3)])
    cursor = (await world.client.get("/v1/jobs?limit=1&order=due")).json["next_cursor"]
    for wrong in ("x", cursor):
        reply = await world.client.get(f"/v1/jobs?limit=1&cursor={wrong}")
        assert (reply.status, reply.code) == (400, "bad_cursor")


@pytest.mark.parametrize(
    ("error", "status"), [(StoreUnavailable("the disk is full"), 503), (Overloaded("10000 jobs are waiting"), 429)]
)
async def test_trouble_of_the_store_says_when_to_come_again(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    async def broken(*args: Any) -> None:
        raise error

    monkeypatch.setattr(world.store, "insert_jobs", broken)
    for path, body in (("/v1/jobs", one_off()), ("/v1/jobs/batch", [one_off()])):
        reply = await world.client.post(path, body)
        assert (reply.status, reply.headers["retry-after"]) == (status, "1")
        assert str(error) in reply.json["detail"]


@pytest.mark.pitfall(86)
async def test_a_create_whose_commit_failed_leaves_its_key_free(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*args: Any) -> None:
        raise StoreUnavailable("cut")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "insert_jobs", broken)
        first = await world.client.post("/v1/jobs", one_off(), headers={"Idempotency-Key": "k"})
    second = await world.client.post("/v1/jobs", one_off(), headers={"Idempotency-Key": "k"})
    assert (first.status, second.status) == (503, 201)
    assert "idempotent-replayed" not in second.headers
    assert (await world.get(second.json["job_id"])).status == 200
