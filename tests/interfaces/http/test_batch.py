"""POST /v1/jobs/batch."""

from typing import Any

import msgspec
import pytest

from tickwheel.interfaces.http.answers import CreatedBody

from .world import HttpWorld, one_off


async def test_results_come_in_the_order_of_the_items(world: HttpWorld) -> None:
    items = [one_off(delay_seconds=number + 1) for number in range(50)]
    reply = await world.client.post("/v1/jobs/batch", items)
    assert reply.status == 200
    results = reply.json["results"]
    delays = [result["next_run_time_epoch_ms"] - world.clock.now_ms() for result in results]
    assert delays == [(number + 1) * 1000 for number in range(50)]
    assert (reply.json["created_count"], reply.json["replayed_count"], reply.json["failed_count"]) == (50, 0, 0)
    assert results[0].keys() == {
        "job_id",
        "tenant_id",
        "status",
        "schedule_type",
        "next_run_time_epoch_ms",
        "next_run_time_iso",
        "created_at",
    }


async def test_a_bad_item_leaves_the_others_alone(world: HttpWorld) -> None:
    bad: list[Any] = [one_off(priority="URGENT"), 7, None, [], {}, one_off(delay_seconds=-1, oops=1)]
    items = [one_off(), *bad, one_off(idempotency_key="k"), one_off(idempotency_key="k")]
    items.append(one_off(idempotency_key="k", delay_seconds=1))
    reply = await world.client.post("/v1/jobs/batch", items)
    assert reply.status == 207
    results = reply.json["results"]
    assert [result.get("code", "job") for result in results] == [
        "job",
        "invalid_request",
        *["malformed_json"] * 3,
        "invalid_request",
        "invalid_request",
        "job",
        "job",
        "idempotency_key_reused",
    ]
    assert {problem["field"] for problem in results[6]["errors"]} == {"delay_seconds", "oops"}
    assert results[8]["job_id"] == results[7]["job_id"]
    assert results[8]["replayed"] is True
    assert (reply.json["created_count"], reply.json["replayed_count"], reply.json["failed_count"]) == (2, 1, 7)
    assert len((await world.client.get("/v1/jobs")).json["jobs"]) == 2


@pytest.mark.parametrize("raw", [b"{}", b"", b"[", b"[{]", b"nul", b'"x"', b"[1,]", b"[\xff]"])
async def test_what_is_no_array_is_400(world: HttpWorld, raw: bytes) -> None:
    reply = await world.client.post("/v1/jobs/batch", raw=raw)
    assert (reply.status, reply.code) == (400, "malformed_json")


async def test_an_empty_array_makes_nothing(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/jobs/batch", [])
    assert reply.status == 200
    assert reply.json == {"results": [], "created_count": 0, "replayed_count": 0, "failed_count": 0}


async def test_more_than_ten_thousand_items_are_413(world: HttpWorld) -> None:
    reply = await world.client.post("/v1/jobs/batch", [0] * 10_001)
    assert (reply.status, reply.code) == (413, "body_too_large")


async def test_payloads_are_kept_byte_for_byte(world: HttpWorld) -> None:
    payload = b'{"a":  1.50, "a":2,"big":123456789012345678901234567890,"\\u0000":"\\u0000"}'
    item = b'{"schedule_type":"INSTANT","target":{"endpoint":"https://example.com/"},"payload":' + payload + b"}"
    reply = await world.client.post("/v1/jobs/batch", raw=b"[" + item + b" , " + item + b"]")
    assert reply.status == 200
    await world.clock.advance(0)
    assert [call.work.payload for call in world.calls] == [payload, payload]
    await world.close()


async def test_the_results_of_new_jobs_are_written_as_their_type_says(world: HttpWorld) -> None:
    items = [
        one_off(tenant_id='a"\\ä', delay_seconds=1.5),
        one_off(schedule_type="INSTANT", delay_seconds=None),
        one_off(schedule_type="CRON", cron_expression="0 0 29 2 *", delay_seconds=None),
        one_off(idempotency_key="k"),
        one_off(idempotency_key="k"),
        one_off(priority="URGENT"),
    ]
    reply = await world.client.post("/v1/jobs/batch", items)
    results = msgspec.json.decode(reply.body, type=dict[str, msgspec.Raw])["results"]
    texts = [bytes(text) for text in msgspec.json.decode(results, type=list[msgspec.Raw])]
    assert len(texts) == len(items)
    for text in texts[:5]:
        assert msgspec.json.encode(msgspec.json.decode(text, type=CreatedBody)) == text
    assert msgspec.json.decode(texts[0])["tenant_id"] == items[0]["tenant_id"]
    assert msgspec.json.decode(texts[1])["schedule_type"] == "INSTANT"
    assert [b"replayed" in text for text in texts[:5]] == [False, False, False, False, True]
    reply = await world.client.post("/v1/jobs/batch", [])
    assert reply.json == {"results": [], "created_count": 0, "replayed_count": 0, "failed_count": 0}
