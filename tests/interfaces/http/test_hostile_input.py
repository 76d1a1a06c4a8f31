"""Bodies that nobody sends by honest means: each gets an answer that says what is wrong, never a 5xx."""

import json

import pytest

from .world import ENDPOINT, HttpWorld

OPEN = b'{"schedule_type":"INSTANT","target":{"endpoint":"https://example.com/hook"}'


def job(extra: bytes = b"") -> bytes:
    return OPEN + (b"," + extra if extra else b"") + b"}"


MALFORMED = [
    b"",
    b" ",
    b"{",
    b'{"a"',
    job()[:-1],
    job()[:-20],
    job() + b"x",
    job() + job(),
    b"\xef\xbb\xbf" + job(),
    job().decode().encode("utf-16"),
    b"\x00" + job(),
    b"null",
    b"[]",
    b"7",
    b'"text"',
    b"nope",
    b"{'a': 1}",
    b'{"a": 1,}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"{}" * 1000,
]


@pytest.mark.parametrize("raw", MALFORMED, ids=range(len(MALFORMED)))
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/jobs"),
        ("POST", "/v1/jobs/schedule"),
        ("PUT", "/v1/jobs/by-name/x"),
        ("PATCH", "/v1/jobs/{id}"),
        ("POST", "/v1/dlq/redrive"),
        ("POST", "/v1/schedules/preview"),
    ],
)
async def test_what_is_no_json_object_is_400(world: HttpWorld, method: str, path: str, raw: bytes) -> None:
    if "{id}" in path:
        path = path.format(id=(await world.create())["job_id"])
    reply = await world.client.request(method, path, raw=raw)
    assert (reply.status, reply.code) == (400, "malformed_json"), reply.body
    assert not reply.json["detail"].startswith(":")
    assert len(reply.body) < 2000


FIELD_FAULTS = [
    (b'"job_name":"a\\u0000b"', "job_name"),
    (b'"job_name":"\\ud800"', "job_name"),
    (b'"tenant_id":"\\u0000"', "tenant_id"),
    (b'"tags":["\\u0000"]', "tags[0]"),
    (b'"tags":"x"', "tags"),
    (b'"tags":["a","a"]', "tags[1]"),
    (b'"idempotency_key":"a\\nb"', "idempotency_key"),
    (b'"run_at_epoch_ms":NaN', "run_at_epoch_ms"),
    (b'"deadline_seconds":Infinity', "deadline_seconds"),
    (b'"deadline_seconds":-Infinity', "deadline_seconds"),
    (b'"deadline_seconds":1e999', "deadline_seconds"),
    (b'"deadline_seconds":' + b"9" * 5000, "deadline_seconds"),
    (b'"run_at_epoch_ms":9007199254740993', "run_at_epoch_ms"),
    (b'"run_at_epoch_ms":' + b"9" * 400, "run_at_epoch_ms"),
    (b'"run_at_epoch_ms":-' + b"9" * 400, "run_at_epoch_ms"),
    (b'"retry_policy":{"max_retries":1e2}', "retry_policy.max_retries"),
    (b'"retry_policy":{"max_retries":true}', "retry_policy.max_retries"),
    (b'"retry_policy":{"max_retries":"3"}', "retry_policy.max_retries"),
    (b'"retry_policy":{"max_retries":3,"max_retries":4}', "retry_policy.max_retries"),
    (b'"retry_policy":[]', "retry_policy"),
    (b'"priority":"LOW","priority":"HIGH"', "priority"),
    (b'"schedule_type":"INSTANT"', "schedule_type"),
    (b'"payload":NaN', "payload"),
    (b'"payload":{"a":[1,Infinity]}', "payload.a[1]"),
    (b'"payload":"\xff"', "payload"),
    (b'"payload":{"a":"\\ud83d"}', "payload.a"),
    (b'"payload":"' + b"x" * 262_144 + b'"', "payload"),
    (b'"payload":' + b"[" * 200 + b"]" * 200, "payload"),
    (b'"oops":' + b"[" * 400 + b"]" * 400, "oops"),
    (b'"' + b"k" * 5000 + b'":1', "['kkkk"),
    (b'"__proto__":{}', "__proto__"),
    (b'"job_name":"' + b"n" * 201 + b'"', "job_name"),
    (b'"tenant_id":7', "tenant_id"),
    (b'"tenant_id":{"$ne":null}', "tenant_id"),
]


@pytest.mark.parametrize(("extra", "field"), FIELD_FAULTS, ids=range(len(FIELD_FAULTS)))
async def test_a_fault_in_a_field_is_named_by_its_path(world: HttpWorld, extra: bytes, field: str) -> None:
    reply = await world.client.post("/v1/jobs", raw=job(extra))
    assert (reply.status, reply.code) == (422, "invalid_request"), reply.body[:300]
    assert any(found.startswith(field) for found in reply.fields), reply.fields
    assert len(reply.body) < 10_000
    assert (await world.client.get("/v1/jobs")).json["jobs"] == []


@pytest.mark.pitfall(70)
@pytest.mark.parametrize(
    "payload",
    [
        b'{"value":"\\u0000"}',
        b'{"\\u0000":"key"}',
        b'"\\u0000"',
        b'{"a":1,"a":2}',
        b"[1.0,1e2,-0,12345678901234567890123456789012345678901234567890]",
        b'{ "spaced" :\t[ ] }',
        '"\u2028 \U0001f600 \ufffe"'.encode(),
        b'"\\u00e9\\ud83d\\ude00"',
        b"0",
        b"false",
        b'""',
    ],
)
async def test_a_payload_reaches_readers_and_target_byte_for_byte(world: HttpWorld, payload: bytes) -> None:
    reply = await world.client.post("/v1/jobs", raw=job(b'"payload":' + payload))
    assert reply.status == 201, reply.body
    assert b'"payload":' + payload + b"," in (await world.get(reply.json["job_id"])).body
    await world.clock.advance(0)
    assert [call.work.payload for call in world.calls] == [payload]
    await world.close()


@pytest.mark.pitfall(70)
@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (b'{"a":{"b":["\\udc00"]}}', "payload.a.b[0]"),
        (b'{"\\ud800":1}', "payload"),
        (b'{"a":"\x00"}', "payload.a"),
        (b'{"a":"\xed\xa0\x80"}', "payload.a"),
    ],
)
async def test_what_no_reader_could_decode_is_refused_with_its_path(
    world: HttpWorld, payload: bytes, path: str
) -> None:
    reply = await world.client.post("/v1/jobs", raw=job(b'"payload":' + payload))
    assert reply.status == 422, reply.body
    assert reply.fields[0].startswith(path)


async def test_the_largest_payload_is_taken(world: HttpWorld) -> None:
    payload = b'"' + b"x" * (262_144 - 2) + b'"'
    assert (await world.client.post("/v1/jobs", raw=job(b'"payload":' + payload))).status == 201


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "example.com",
        "ftp://example.com",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http://user:pw@example.com/",
        "http://example.com/#x",
        "http://exa mple.com/",
        "http://example.com/\r\nX: y",
        "http://example.com:99999/",
        "http://[::1",
        "https://münchen.example/",
        "https://example.com/" + "a" * 2100,
    ],
)
async def test_an_endpoint_that_is_no_address_is_named(world: HttpWorld, endpoint: str) -> None:
    body = {"schedule_type": "INSTANT", "target": {"endpoint": endpoint}}
    reply = await world.client.post("/v1/jobs", body)
    assert (reply.status, reply.fields) == (422, ["target.endpoint"])


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"Content-Length": "5"},
        {"X": "a\r\nEvil: yes"},
        {"a b": "x"},
        {"": "x"},
        {"X-Fencing-Token": "7"},
        {"A": "x", "a": "y"},
        {f"H{n}": "x" for n in range(51)},
        {"A": "x" * 5000},
    ],
)
async def test_headers_that_would_break_a_request_are_named(world: HttpWorld, headers: dict[str, str]) -> None:
    body = {"schedule_type": "INSTANT", "target": {"endpoint": ENDPOINT, "headers": headers}}
    reply = await world.client.post("/v1/jobs", body)
    assert reply.status == 422
    assert all(field.startswith("target.headers") for field in reply.fields)


async def test_a_request_that_is_wrong_all_over_has_every_problem_in_one_answer(world: HttpWorld) -> None:
    body = {
        "tenant_id": "",
        "schedule_type": "CRON",
        "cron_expression": "61 * * * *",
        "timezone": "Europe/Berln",
        "delay_seconds": 5,
        "priority": "MEDIUM",
        "target": {"type": "HTTP_WEBHOOK", "endpoint": "x", "name": "h", "timeout_seconds": 0},
        "retry_policy": {"max_retries": 101, "max_interval_sec": 1},
        "tags": [""],
        "catch_up": {"max": 0},
        "overlap": "sometimes",
        "concurrency": [
            {"key": "a", "limit": 0},
            {"scope": "job_name", "limit": 1},
            {"scope": "tenant", "key": "a"},
        ],
        "end_at": "2026-01-01T00:00:00",
        "colour": "red",
    }
    reply = await world.client.post("/v1/jobs", body)
    assert reply.status == 422
    assert set(reply.fields) >= {
        "tenant_id",
        "delay_seconds",
        "priority",
        "target.endpoint",
        "target.name",
        "target.timeout_seconds",
        "retry_policy.max_retries",
        "tags[0]",
        "catch_up.max",
        "overlap",
        "concurrency[0].limit",
        "concurrency[1].scope",
        "concurrency[2].key",
        "concurrency[2].limit",
        "end_at",
        "colour",
    }
    for problem in reply.json["errors"]:
        assert problem["message"]
        assert problem["code"]


async def test_problems_can_be_read_whatever_they_quote(world: HttpWorld) -> None:
    for text in ("\u0000", "\ud800", "<script>", "'" * 100, "\U0001f600"):
        raw = json.dumps({"schedule_type": text, "target": {"endpoint": text}, text: text}).encode()
        reply = await world.client.post("/v1/jobs", raw=raw)
        assert (reply.status, reply.code) == (422, "invalid_request")
