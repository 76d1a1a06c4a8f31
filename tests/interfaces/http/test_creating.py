"""POST /v1/jobs, /v1/jobs/schedule and PUT by name: shapes, keys, defaults."""

from typing import Any

import pytest

from tickwheel.domain.requests.instants import format_instant
from tickwheel.testing.virtual_clock import START_MS

from ...unit.requests.samples import BILLING
from .world import ENDPOINT, HttpWorld, one_off


async def test_the_recurring_job_of_the_blueprint_is_created_as_it_says(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/jobs", BILLING, headers={"Idempotency-Key": "idemp_job_8492019481"})
    assert reply.status == 201
    assert reply.headers["content-type"] == "application/json"
    answer = reply.json
    job_id = answer.pop("job_id")
    assert reply.headers["location"] == f"/v1/jobs/{job_id}?tenant_id=tenant_enterprise_01"
    assert answer == {
        "tenant_id": "tenant_enterprise_01",
        "status": "SCHEDULED",
        "schedule_type": "CRON",
        "next_run_time_epoch_ms": 1790834400000,
        "next_run_time_iso": "2026-10-01T06:00:00.000Z",
        "created_at": format_instant(START_MS),
        "retry_policy": BILLING["retry_policy"],
        "catch_up": {"policy": "fire_once", "max": 100},
    }


async def test_a_delayed_job_says_when(world: HttpWorld) -> None:
    answer = await world.create(delay_seconds=2700)
    assert answer["next_run_time_epoch_ms"] == START_MS + 2_700_000
    assert answer["next_run_time_iso"] == format_instant(START_MS + 2_700_000)
    assert answer["tenant_id"] == "default"


async def test_an_instant_job_is_due_now(world: HttpWorld) -> None:
    assert (await world.create(schedule_type="INSTANT"))["next_run_time_epoch_ms"] == START_MS


async def test_the_compact_form_answers_exactly_as_the_blueprint_says(world: HttpWorld) -> None:
    body = {
        "target_endpoint": "https://api.internal/orders/cancel-expired",
        "payload": {"order_id": "ord-8812"},
        "trigger_type": "DELAYED",
        "execute_at": "2026-10-22T14:30:00Z",
        "max_retries": 3,
        "idempotency_key": "sch-idem-4412",
    }
    reply = await world.client.post("/v1/jobs/schedule", body)
    assert reply.status == 201
    assert reply.json.keys() == {"job_id", "status"}
    assert reply.json["status"] == "SCHEDULED"
    again = await world.client.post("/v1/jobs/schedule", body)
    assert (again.status, again.json) == (201, reply.json)
    assert again.headers["idempotent-replayed"] == "true"
    cancelled = await world.client.post(f"/v1/jobs/{reply.json['job_id']}/cancel")
    assert (cancelled.status, cancelled.json) == (200, {"status": "CANCELLED"})


async def test_the_compact_form_takes_cron(world: HttpWorld) -> None:
    body = {
        "target_endpoint": ENDPOINT,
        "trigger_type": "CRON",
        "cron_expression": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "tenant_id": "acme",
        "priority": "LOW",
    }
    job_id = (await world.client.post("/v1/jobs/schedule", body)).json["job_id"]
    job = (await world.get(job_id, "?tenant_id=acme")).json
    assert (job["cron_expression"], job["timezone"], job["priority"]) == ("0 2 * * *", "Europe/Berlin", "LOW")


async def test_problems_of_the_compact_form_have_its_names(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/jobs/schedule", {"trigger_type": "WEEKLY", "max_retries": -1, "url": "x"})
    assert (reply.status, reply.code) == (422, "invalid_request")
    assert set(reply.fields) == {"trigger_type", "target_endpoint", "max_retries", "url"}


async def test_a_resent_request_gets_the_first_answer_again(world: HttpWorld) -> None:
    first = await world.client.post("/v1/jobs", one_off(delay_seconds=60), headers={"Idempotency-Key": "k1"})
    await world.clock.advance(5_000)
    again = await world.client.post("/v1/jobs", one_off(delay_seconds=60), headers={"Idempotency-Key": "k1"})
    assert (again.status, again.body) == (201, first.body)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    await world.close()


@pytest.mark.parametrize("where", ["header", "field"])
async def test_the_key_is_the_same_in_header_and_field(world: HttpWorld, where: str) -> None:
    first = await world.client.post("/v1/jobs", one_off(idempotency_key="k1"))
    headers = {"Idempotency-Key": "k1"} if where == "header" else {}
    body = one_off() if where == "header" else one_off(idempotency_key="k1")
    again = await world.client.post("/v1/jobs", body, headers=headers)
    assert again.json["job_id"] == first.json["job_id"]


async def test_both_keys_the_same_are_one_key(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/jobs", one_off(idempotency_key="k"), headers={"Idempotency-Key": "k"})
    assert reply.status == 201


async def test_two_different_keys_are_400(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/jobs", one_off(idempotency_key="a"), headers={"Idempotency-Key": "b"})
    assert (reply.status, reply.code) == (400, "idempotency_key_mismatch")


@pytest.mark.parametrize("key", ["", " ", "a" * 256, "caf\xe9", "a\tb"])
async def test_a_key_that_no_header_carries_well_is_refused(world: HttpWorld, key: str) -> None:
    reply = await world.client.post("/v1/jobs", one_off(), headers={"Idempotency-Key": key})
    assert (reply.status, reply.fields) == (422, ["Idempotency-Key"])


async def test_a_key_with_another_request_is_422_and_writes_nothing(world: HttpWorld) -> None:
    await world.create(idempotency_key="k1")
    reply = await world.client.post("/v1/jobs", one_off(idempotency_key="k1", delay_seconds=61))
    assert (reply.status, reply.code) == (422, "idempotency_key_reused")
    assert len((await world.client.get("/v1/jobs")).json["jobs"]) == 1


async def test_keys_of_two_tenants_do_not_meet(world: HttpWorld) -> None:
    one = await world.create(idempotency_key="k1", tenant_id="a")
    two = await world.create(idempotency_key="k1", tenant_id="b")
    assert one["job_id"] != two["job_id"]


@pytest.mark.pitfall(65)
async def test_a_backoff_without_a_count_shows_the_policy_that_holds(world: HttpWorld) -> None:
    answer = await world.create(retry_policy={"initial_interval_sec": 2.5})
    whole = {"max_retries": 3, "initial_interval_sec": 2.5, "backoff_multiplier": 2.0, "max_interval_sec": 300}
    assert answer["retry_policy"] == whole
    assert (await world.get(answer["job_id"])).json["retry_policy"] == whole


@pytest.mark.pitfall(74)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"execute_at": "1970-01-02T00:00:00Z"}, "now"),
        ({"execute_at": "2001-01-01T00:00:00Z"}, "now"),
        ({"run_at_epoch_ms": 1_790_000_000}, "run_at_epoch_ms"),
        ({"run_at_epoch_ms": 86_400_000}, "run_at_epoch_ms"),
        ({"delay_seconds": 1_500_000_000}, "delay_seconds"),
        ({"delay_seconds": -1}, "delay_seconds"),
        ({"execute_at": "2037-09-21T00:00:00Z"}, "execute_at"),
        ({"execute_at": "9999-12-31T23:59:59Z"}, "execute_at"),
    ],
)
async def test_a_time_is_never_taken_for_a_delay_nor_the_other_way_round(
    world: HttpWorld, fields: dict[str, Any], expected: str
) -> None:
    reply = await world.client.post("/v1/jobs", one_off(**fields))
    if expected != "now":
        assert (reply.status, reply.fields) == (422, [expected])
        return
    assert reply.status == 201
    await world.clock.advance(0)
    assert len(world.calls) == 1
    await world.close()


async def test_two_time_fields_at_once_are_422(world: HttpWorld) -> None:
    body = one_off(delay_seconds=1, execute_at="2026-10-22T14:30:00Z")
    reply = await world.client.post("/v1/jobs", body)
    assert (reply.status, reply.fields) == (422, ["delay_seconds"])


async def test_unknown_fields_are_refused_by_name(world: HttpWorld) -> None:
    reply = await world.client.post(
        "/v1/jobs", one_off(cron="* * * * *", target={"endpoint": ENDPOINT, "urll": 1})
    )
    assert (reply.status, sorted(reply.fields)) == (422, ["cron", "target.urll"])


async def test_unknown_parameters_are_refused_by_name(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/jobs?dry_run=1", one_off())
    assert (reply.status, reply.fields) == (422, ["dry_run"])


@pytest.mark.pitfall(28)
async def test_putting_the_same_job_at_each_start_makes_one_job_with_one_occurrence(world: HttpWorld) -> None:
    body = {"schedule_type": "CRON", "cron_expression": "*/5 * * * *", "target": {"endpoint": ENDPOINT}}
    first = await world.client.request("PUT", "/v1/jobs/by-name/nightly", body)
    assert first.status == 201
    assert first.headers["location"] == f"/v1/jobs/{first.json['job_id']}"
    for _ in range(10):
        again = await world.client.request("PUT", "/v1/jobs/by-name/nightly", body)
        assert (again.status, again.json) == (200, first.json)
        assert again.headers["etag"] == first.headers["etag"] == '"1"'
    assert len((await world.client.get("/v1/jobs")).json["jobs"]) == 1
    assert first.json["job_name"] == "nightly"


async def test_putting_another_definition_replaces_it(world: HttpWorld) -> None:
    body = {"schedule_type": "CRON", "cron_expression": "* * * * *", "target": {"endpoint": ENDPOINT}}
    first = (await world.client.request("PUT", "/v1/jobs/by-name/a%2Fb%20c", body)).json
    reply = await world.client.request(
        "PUT", "/v1/jobs/by-name/a%2Fb%20c", body | {"cron_expression": "0 8 * * *"}
    )
    assert reply.status == 200
    assert reply.json["job_id"] == first["job_id"]
    assert reply.json["job_name"] == "a/b c"
    assert reply.json["next_run_time_iso"].endswith("T08:00:00.000Z")
    assert reply.headers["etag"] == '"2"'


async def test_a_put_takes_the_tenant_from_query_or_body(world: HttpWorld) -> None:
    body = {"schedule_type": "CRON", "cron_expression": "* * * * *", "target": {"endpoint": ENDPOINT}}
    one = await world.client.request("PUT", "/v1/jobs/by-name/x?tenant_id=acme", body)
    two = await world.client.request("PUT", "/v1/jobs/by-name/x", body | {"tenant_id": "acme"})
    assert (one.json["tenant_id"], one.json["job_id"]) == ("acme", two.json["job_id"])
    both = await world.client.request("PUT", "/v1/jobs/by-name/x?tenant_id=acme", body | {"tenant_id": "other"})
    assert (both.status, both.fields) == (422, ["tenant_id"])


@pytest.mark.parametrize("name", ["%00", "a" * 201, "a%1Fb"])
async def test_a_name_that_is_no_text_is_422(world: HttpWorld, name: str) -> None:
    body = {"schedule_type": "CRON", "cron_expression": "* * * * *", "target": {"endpoint": ENDPOINT}}
    reply = await world.client.request("PUT", f"/v1/jobs/by-name/{name}", body)
    assert (reply.status, reply.fields) == (422, ["name"])


async def test_a_put_cannot_keep_a_precondition_and_says_so(world: HttpWorld) -> None:
    reply = await world.client.request("PUT", "/v1/jobs/by-name/x", one_off(), headers={"If-Match": '"1"'})
    assert (reply.status, reply.fields) == (422, ["If-Match"])
