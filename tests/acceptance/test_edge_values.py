"""Values at the edge of what can be stored, timed or repeated: kept exactly or refused by name, never mangled."""

import json
from itertools import pairwise
from typing import Any

import pytest

from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.ports.executor import Work

from .conftest import MakeNode
from .node import ENDPOINT, HOUR_MS, SECOND_MS, Node

NOW = "2026-10-01T10:00:00Z"
TARGET = {"endpoint": ENDPOINT}
INSTANT = {"schedule_type": "INSTANT", "target": TARGET}

NUL = rb'{"k":"a\u0000b"}'
NUL_KEY = rb'{"a\u0000b":[{"\u0000":0}]}'
PAIR = rb'["\ud83d\ude00"]'
LONE = [rb'{"k":"\ud800"}', rb'{"\udfff":1}', rb'[["a\ud83dz"]]']


def with_payload(payload: bytes, **fields: Any) -> bytes:
    return json.dumps(fields)[:-1].encode() + b', "payload": ' + payload + b"}"


@pytest.mark.pitfall(70)
@pytest.mark.parametrize("payload", [NUL, NUL_KEY, PAIR, b'{"a":1.10,"a":2,"b":1e400}', b'"\x7f\xc2\x80"'])
@pytest.mark.parametrize("way", ["post", "put", "patch", "batch", "compact"])
async def test_a_payload_is_byte_exact_for_target_and_reader_also_after_a_restart(
    node: MakeNode, way: str, payload: bytes
) -> None:
    async with node(at=NOW) as world:
        job_id, status = await send(world, way, payload)
        assert status in (200, 201)
        await world.down_until(world.now() + SECOND_MS, killed=True)
        assert b'"payload":' + payload + b"," in (await world.get(job_id)).body
        await world.clock.advance(60 * SECOND_MS)
        assert [call.work.payload for call in world.calls] == [payload]


@pytest.mark.pitfall(70)
@pytest.mark.parametrize("payload", LONE)
@pytest.mark.parametrize("way", ["post", "put", "patch", "batch", "compact"])
async def test_what_no_reader_could_decode_is_refused_with_its_path(
    node: MakeNode, way: str, payload: bytes
) -> None:
    async with node(at=NOW) as world:
        answer, status = await send(world, way, payload)
        assert status == 422
        assert answer.startswith("payload")


async def send(world: Node, way: str, payload: bytes) -> tuple[str, int]:
    """(job id, status), or (first wrong field, status)."""
    client, delay = world.client, {"schedule_type": "DELAYED", "delay_seconds": 30, "target": TARGET}
    if way == "post":
        reply = await client.post("/v1/jobs", raw=with_payload(payload, **delay))
    elif way == "put":
        once = {"schedule_type": "ONE_OFF", "execute_at": "2026-10-01T10:00:30Z", "target": TARGET}
        reply = await client.request("PUT", "/v1/jobs/by-name/it", raw=with_payload(payload, **once))
    elif way == "patch":
        path = f"/v1/jobs/{(await world.create(delay_seconds=30))['job_id']}"
        reply = await client.request("PATCH", path, raw=with_payload(payload, priority="HIGH"))
    elif way == "batch":
        reply = await client.post("/v1/jobs/batch", raw=b"[" + with_payload(payload, **delay) + b"]")
        (result,) = reply.json["results"]
        if "job_id" in result:
            return result["job_id"], 201
        return result["errors"][0]["field"], result["status"]
    else:
        compact = {"trigger_type": "DELAYED", "execute_at": "2026-10-01T10:00:30Z", "target_endpoint": ENDPOINT}
        reply = await client.post("/v1/jobs/schedule", raw=with_payload(payload, **compact))
    return (reply.json["job_id"] if reply.status < 300 else reply.fields[0]), reply.status


@pytest.mark.pitfall(70)
@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "\udc00\ud800"])
@pytest.mark.parametrize("field", ["job_name", "tags", "tenant_id", "idempotency_key", "timezone", "endpoint"])
async def test_our_own_texts_are_refused_by_name(node: MakeNode, field: str, text: str) -> None:
    async with node(at=NOW) as world:
        body: dict[str, Any] = {"schedule_type": "CRON", "cron_expression": "@daily", "target": dict(TARGET)}
        if field == "endpoint":
            body["target"]["endpoint"] = ENDPOINT + text
        else:
            body[field] = [text] if field == "tags" else text
        reply = await world.client.post("/v1/jobs", body)
        assert reply.status == 422
        assert field in reply.fields[0]


@pytest.mark.pitfall(71)
@pytest.mark.parametrize(
    ("kind", "state"),
    [(OutcomeClass.RETRYABLE, "FAILED"), (OutcomeClass.PERMANENT, "FAILED"), (OutcomeClass.SUCCESS, "SUCCEEDED")],
)
@pytest.mark.parametrize(
    "answer", [b"\x00", b"a\x00b", b"\xff\xfe\x00", "\ud800".encode("utf-8", "surrogatepass")]
)
async def test_whatever_comes_back_the_run_ends_and_can_be_read(
    node: MakeNode, kind: OutcomeClass, state: str, answer: bytes
) -> None:
    async with node(at=NOW) as world:
        ended = Outcome(
            outcome_class=kind, error=answer.decode("utf-8", "replace"), excerpt=answer, http_status=500
        )
        world.outcome = lambda work: ended
        jobs = [await world.create(**INSTANT, retry_policy={"max_retries": 1, "initial_interval_sec": 1})]
        jobs += [await world.create(**INSTANT, retry_policy={"max_retries": 0})]
        await world.clock.advance(5 * SECOND_MS)
        for job in jobs:
            shown = (await world.get(job["job_id"])).json
            assert shown["status"] == state
            assert (await world.client.get(f"/v1/runs/{shown['last_run']['run_id']}")).status == 200
        assert (await world.client.get("/v1/dlq")).status == (await world.client.get("/")).status == 200


@pytest.mark.pitfall(64)
@pytest.mark.parametrize(("multiplier", "cap_sec"), [(2, 3_600), (100, 86_400), (1, 3_600)])
async def test_no_retry_comes_at_once_or_later_than_the_cap_however_many_there_are(
    node: MakeNode, multiplier: float, cap_sec: int
) -> None:
    async with node(at=NOW) as world:
        world.outcome = lambda work: Outcome(outcome_class=OutcomeClass.RETRYABLE, error="no luck")
        policy = {
            "max_retries": 100,
            "initial_interval_sec": 1,
            "backoff_multiplier": multiplier,
            "max_interval_sec": cap_sec,
        }
        # A handler: a host that answers nothing is left alone for a while, whatever the policy says.
        asked = {**INSTANT, "target": {"type": "HANDLER", "name": "h"}, "retry_policy": policy}
        job_id = (await world.create(**asked))["job_id"]
        await world.clock.advance(0)
        while (due_ms := (await world.get(job_id)).json["next_run_time_epoch_ms"]) is not None:
            world.clock.step_ms(max(0, due_ms - 1 - world.now()))
            await world.clock.advance(5)
        began = [call.started_ms for call in world.calls]
        waits = [later - earlier for earlier, later in pairwise(began)]
        assert len(waits) == 100
        assert min(waits) >= 100
        assert max(waits) <= cap_sec * SECOND_MS + 5
        if multiplier > 1:
            assert max(waits[20:]) > cap_sec * SECOND_MS / 2, "the waits do grow to the cap"
        assert (await world.get(job_id)).json["status"] == "FAILED"


@pytest.mark.pitfall(65)
@pytest.mark.parametrize(
    ("given", "count"), [({"initial_interval_sec": 2}, 3), ({"backoff_multiplier": 3}, 3), ({"max_retries": 0}, 0)]
)
@pytest.mark.parametrize("way", ["post", "put", "patch"])
async def test_a_backoff_without_a_count_is_a_policy_that_is_shown_and_that_holds(
    node: MakeNode, way: str, given: dict[str, Any], count: int
) -> None:
    async with node(at=NOW) as world:
        world.outcome = lambda work: Outcome(outcome_class=OutcomeClass.RETRYABLE, error="no luck")
        body = {"schedule_type": "ONE_OFF", "execute_at": "2026-10-01T10:00:30Z", "target": TARGET}
        if way == "post":
            reply = await world.client.post("/v1/jobs", body | {"retry_policy": given})
        elif way == "put":
            reply = await world.client.request("PUT", "/v1/jobs/by-name/it", body | {"retry_policy": given})
        else:
            path = f"/v1/jobs/{(await world.create(delay_seconds=30))['job_id']}"
            reply = await world.client.request("PATCH", path, {"retry_policy": given})
        shown = reply.json["retry_policy"]
        assert (shown["max_retries"], {name: shown[name] for name in given}) == (count, given)
        assert len(shown) == 4
        await world.clock.advance(30 * SECOND_MS)
        for _ in range(5):
            world.clock.step_ms(HOUR_MS)
            await world.clock.advance(5)
        assert len(world.calls) == count + 1


@pytest.mark.pitfall(74)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"execute_at": "1970-01-01T00:00:00Z"}, "now"),
        ({"execute_at": "1970-01-02T00:00:00Z"}, "now"),
        ({"execute_at": "2000-12-31T23:59:59Z"}, "now"),
        ({"execute_at": "1969-12-31T23:59:59Z"}, "execute_at"),
        ({"execute_at": "2037-01-01T00:00:00Z"}, "execute_at"),
        ({"run_at_epoch_ms": 86_400_000}, "run_at_epoch_ms"),
        ({"run_at_epoch_ms": 1_790_000_000}, "run_at_epoch_ms"),
        ({"run_at_epoch_ms": 978_307_199_000}, "now"),
        ({"delay_seconds": 1_500_000_000}, "delay_seconds"),
        ({"delay_seconds": 978_307_200}, "delay_seconds"),
        ({"delay_seconds": 300_000_000}, "later"),
        ({"delay_seconds": 0}, "now"),
    ],
)
async def test_a_time_is_no_delay_and_a_delay_is_no_time(
    node: MakeNode, fields: dict[str, Any], expected: str
) -> None:
    async with node(at=NOW) as world:
        reply = await world.client.post("/v1/jobs", {"schedule_type": "DELAYED", "target": TARGET} | fields)
        await world.down_until(world.now() + SECOND_MS)
        await world.clock.advance(SECOND_MS)
        if expected == "later":
            due_ms = (await world.get(reply.json["job_id"])).json["next_run_time_epoch_ms"]
            assert due_ms == world.now() - 2 * SECOND_MS + 300_000_000_000
        elif expected != "now":
            assert (reply.status, reply.fields) == (422, [expected])
        assert len(world.calls) == (expected == "now")


@pytest.mark.pitfall(76)
@pytest.mark.parametrize("delay_ms", [2**31 - 1, 2**31, 2**31 + 1, 2**32 + 5_000, 2**33 + 5_000])
@pytest.mark.parametrize("way", ["delay", "instant", "retry", "moved", "deadline", "snooze"])
async def test_what_lies_weeks_ahead_does_not_fire_before_its_time(
    node: MakeNode, way: str, delay_ms: int
) -> None:
    async with node(at=NOW) as world:
        began_ms = world.now()
        await far_ahead(world, way, delay_ms)
        done = len(world.calls)
        await world.clock.advance(60 * SECOND_MS)
        for part in (0.3, 0.6, 0.9):
            await world.leap(began_ms + int(delay_ms * part))
        await world.down_until(began_ms + delay_ms - 2 * SECOND_MS)
        await world.until(began_ms + delay_ms - 1)
        assert len(world.calls) == done
        await world.clock.advance(10)
        assert len(world.calls) == done + 1
        assert world.calls[-1].started_ms >= began_ms + delay_ms


async def far_ahead(world: Node, way: str, delay_ms: int) -> None:
    """A run that is due in `delay_ms`, made so by each way that there is."""
    at_ms = world.now() + delay_ms
    if way == "instant":
        await world.create(run_at_epoch_ms=at_ms)
    elif way == "moved":
        job_id = (await world.create(delay_seconds=30))["job_id"]
        await world.client.request("PATCH", f"/v1/jobs/{job_id}", {"run_at_epoch_ms": at_ms})
    elif way == "deadline":
        await world.create(run_at_epoch_ms=at_ms, deadline_seconds=delay_ms // 1000)
    elif way in ("retry", "snooze"):
        kind = OutcomeClass.RETRYABLE if way == "retry" else OutcomeClass.SNOOZE
        later, succeed = Outcome(outcome_class=kind, error="later", retry_after_ms=delay_ms), world.outcome
        told: list[Work] = []

        def once(work: Work) -> Outcome:
            told.append(work)
            return later if len(told) == 1 else succeed(work)

        world.outcome = once
        await world.create(**INSTANT)
        await world.clock.advance(0)
    else:
        await world.create(delay_seconds=delay_ms / 1000)
