"""Reading a definition, patching it, and sending it back."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tickwheel.domain.errors import InvalidRequest, SecretStays
from tickwheel.domain.ids import make_job_id
from tickwheel.domain.job import CatchUp, Job
from tickwheel.domain.requests.definition import REDACTED, definition_of, with_stored_headers
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.patch import parse_patch, patched
from tickwheel.domain.requests.request import parse_job_request, request_hash

from .samples import BILLING, ONCE, parse

TARGET = BILLING["target"]
HEADERS = TARGET["headers"]
NOW_MS = 1_790_000_000_000


def stored(members: dict[str, Any], **more: Any) -> Job:
    request = parse(members, **more)
    return Job(
        make_job_id(created_ms=NOW_MS, shard=3, due_ms=None, random48=b"sixsix"),
        request.tenant_id,
        request.name,
        request.schedule_type,
        request.lane,
        request.spec,
        request.payload,
        NOW_MS,
        scheduled_ms=request.at_ms,
        tags=request.tags,
    )


def edited(job: Job, patch: dict[str, Any]) -> JobRequest:
    """What the job is asked to be by a patch, with the header values that it keeps."""
    request = patched(job, parse_patch(json.dumps(patch).encode()))
    return replace(request, spec=with_stored_headers(request.spec, job.spec))


def problems(text: bytes) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        parse_patch(text)
    return {problem.field: problem.message for problem in caught.value.problems}


SAMPLES = [
    BILLING,
    dict(BILLING, catch_up={"policy": "skip", "max": 3}, overlap="skip", deadline_seconds=1.5, tags=["a", "b"]),
    dict(BILLING, start_at="2026-10-22T14:30:00.123Z", end_at="2027-10-22T14:30:00+02:00"),
    ONCE,
    {"schedule_type": "INSTANT", "target": {"type": "HANDLER", "name": "send_email"}, "payload": [1, "\u0000"]},
]


@pytest.mark.pitfall(16)
@pytest.mark.parametrize("members", SAMPLES)
def test_a_definition_that_is_read_and_sent_back_is_the_same(members: dict[str, Any]) -> None:
    job = stored(members)
    sent_back = parse_job_request(msgspec.json.encode(definition_of(job)))
    sent_back = replace(sent_back, spec=with_stored_headers(sent_back.spec, job.spec))
    assert request_hash(sent_back) == request_hash(parse(members))
    assert sent_back.spec == job.spec


def test_header_values_are_not_shown() -> None:
    job = stored(BILLING, target=TARGET | {"headers": {"Authorization": "Bearer s3cret-word"}})
    assert definition_of(job)["target"]["headers"] == {"Authorization": REDACTED}
    assert "s3cret-word" not in f"{job!r} {job.spec.target} {parse(BILLING, target=TARGET)}"


def test_a_hidden_value_without_a_stored_one_is_refused() -> None:
    request = parse(ONCE, target={"endpoint": "https://a.example/x", "headers": {"Authorization": REDACTED}})
    with pytest.raises(InvalidRequest, match=r"target\.headers\.Authorization"):
        with_stored_headers(request.spec, stored(BILLING).spec)


def test_a_patch_changes_what_it_names_and_nothing_else() -> None:
    request = edited(stored(BILLING), {"priority": "LOW", "retry_policy": {"max_retries": 9}})
    assert request == parse(BILLING, priority="LOW", retry_policy=BILLING["retry_policy"] | {"max_retries": 9})


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"timezone": None}, {"timezone": ...}),
        ({"retry_policy": None}, {"retry_policy": ...}),
        ({"retry_policy": {"max_retries": None}}, {"retry_policy": {**BILLING["retry_policy"], "max_retries": 3}}),
        ({"payload": None}, {"payload": ...}),
        ({"payload": {"a": {"b": [1]}}}, {"payload": {"a": {"b": [1]}}}),
        ({"job_name": None}, {"job_name": ...}),
        (
            {"target": {"headers": {"X-A": "b"}}},
            {"target": TARGET | {"headers": TARGET["headers"] | {"X-A": "b"}}},
        ),
        ({"target": {"headers": {"Content-Type": None}}}, {"target": TARGET | {"headers": {}}}),
        ({"target": {"headers": {"Content-Type": REDACTED}}}, {}),
        ({"target": {"type": "HANDLER", "name": "x"}}, {"target": {"type": "HANDLER", "name": "x"}}),
    ],
)
def test_objects_are_merged_and_null_means_the_default(patch: dict[str, Any], expected: dict[str, Any]) -> None:
    request = edited(stored(BILLING), patch)
    wanted = parse(BILLING, **expected)
    assert msgspec.json.decode(request.payload or "0") == msgspec.json.decode(wanted.payload or "0")
    assert replace(request, payload="") == replace(wanted, payload="")


SECRETIVE = TARGET | {"headers": {"Authorization": "Bearer s3cret", "X-Key": "k3y", "Accept": "text/html"}}
ELSEWHERE = [
    "https://evil.example/invoices/generate",
    "http://billing.internal.aws/invoices/generate",
    "https://billing.internal.aws:8443/invoices/generate",
    "https://billing.internal.aws.evil.example/",
]


@pytest.mark.pitfall(103)
@pytest.mark.parametrize("endpoint", ELSEWHERE)
@pytest.mark.parametrize("headers", [{}, {"Authorization": REDACTED}, {"X-Key": REDACTED, "Authorization": "new"}])
def test_a_stored_value_does_not_move_to_another_place(endpoint: str, headers: dict[str, str]) -> None:
    job = stored(BILLING, target=SECRETIVE)
    with pytest.raises(SecretStays, match="X-Key") as caught:
        edited(job, {"target": {"endpoint": endpoint, "headers": headers}})
    whole = parse(BILLING, target=SECRETIVE | {"endpoint": endpoint} | {"headers": {"X-Key": REDACTED}})
    with pytest.raises(SecretStays, match="X-Key"):
        with_stored_headers(whole.spec, job.spec)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("endpoint", ELSEWHERE)
def test_values_that_are_given_anew_or_left_out_let_the_endpoint_move(endpoint: str) -> None:
    headers = {"Authorization": "Bearer new", "X-Key": None}
    request = edited(stored(BILLING, target=SECRETIVE), {"target": {"endpoint": endpoint, "headers": headers}})
    # "Accept" says nothing secret: it moves along.
    assert dict(request.spec.target.headers) == {"Authorization": "Bearer new", "Accept": "text/html"}


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://billing.internal.aws/another/path?and=more",
        "HTTPS://BILLING.internal.AWS:443/invoices/generate",
        "https://billing.internal.aws:0443",
    ],
)
def test_at_the_same_place_stored_values_stay(endpoint: str) -> None:
    request = edited(stored(BILLING, target=SECRETIVE), {"target": {"endpoint": endpoint}})
    assert dict(request.spec.target.headers) == SECRETIVE["headers"]


def test_a_target_of_another_type_takes_no_stored_values_along() -> None:
    job = stored(BILLING, target=SECRETIVE)
    assert edited(job, {"target": {"type": "HANDLER", "name": "x"}}).spec.target.headers == ()
    handler = stored(BILLING, target={"type": "HANDLER", "name": "x"})
    moved = {"type": "HTTP_WEBHOOK", "endpoint": "https://a.example", "headers": {"X-Key": REDACTED}}
    with pytest.raises(InvalidRequest, match="none is stored"):
        edited(handler, {"target": moved})


def test_many_edits_make_no_more_headers_than_one_request() -> None:
    job = stored(BILLING, target=TARGET | {"headers": {f"X-{n}": "v" * 4_000 for n in range(4)}})
    with pytest.raises(InvalidRequest, match="over 16384 bytes in all"):
        edited(job, {"target": {"headers": {"X-5": "v" * 4_000}}})


def test_a_patched_payload_is_kept_byte_for_byte() -> None:
    payload = b'{ "a" : "\\u0000", "n":1e999 }'
    assert patched(stored(BILLING), parse_patch(b'{"payload": ' + payload + b"}")).payload.encode() == payload


def test_another_time_field_replaces_the_stored_one() -> None:
    job = stored(ONCE)
    assert patched(job, parse_patch(b'{"delay_seconds": 5}')).delay_ms == 5_000
    assert patched(job, parse_patch(b'{"priority": "LOW"}')).at_ms == job.scheduled_ms


def test_the_patched_whole_is_checked() -> None:
    patch = parse_patch(b'{"catch_up": {"policy": "fire_all"}}')
    assert patched(stored(BILLING), patch).spec.catch_up is CatchUp.FIRE_ALL
    with pytest.raises(InvalidRequest, match="goes with CRON only"):
        patched(stored(ONCE), patch)
    with pytest.raises(InvalidRequest, match="cron_expression: is required"):
        patched(stored(BILLING), parse_patch(b'{"cron_expression": null}'))
    with pytest.raises(InvalidRequest, match="cron_expression"):
        patched(stored(BILLING), parse_patch(b'{"cron_expression": "0 0 30 2 *"}'))


@pytest.mark.parametrize("field", ["tenant_id", "schedule_type", "idempotency_key"])
def test_what_makes_a_job_what_it_is_cannot_be_patched(field: str) -> None:
    assert "can't be changed" in problems(json.dumps({field: "ONE_OFF"}).encode())[field]


def test_all_problems_of_a_patch_are_named() -> None:
    found = problems(
        b'{"prio":"LOW","tags":[1],"tags":[2],"target":{"url":"x","timeout_seconds":-1},"job_name":5}'
    )
    assert set(found) == {"tags", "tags[0]", "prio", "target.url", "target.timeout_seconds", "job_name"}


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"null"])
def test_a_patch_that_is_no_object_is_malformed(text: bytes) -> None:
    assert set(problems(text)) == {""}
