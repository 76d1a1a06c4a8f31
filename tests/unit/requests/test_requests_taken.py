"""What a good request means."""

import pytest

from tickwheel.domain.job import CatchUp, Lane, Overlap, ScheduleType, TargetType
from tickwheel.domain.limits import DELAY_SECONDS_MAX, PAYLOAD_BYTES
from tickwheel.domain.outcome import RetryPolicy
from tickwheel.domain.requests.instants import parse_instant
from tickwheel.domain.requests.request import parse_job_request, request_hash, split_batch

from .samples import BILLING, ONCE, parse, raw


def test_a_cron_request_is_understood() -> None:
    request = parse(BILLING)
    assert (request.tenant_id, request.name) == ("tenant_enterprise_01", "monthly_billing_aggregation")
    assert (request.schedule_type, request.lane) == (ScheduleType.CRON, Lane.HIGH)
    assert (request.spec.cron, request.spec.timezone) == ("0 2 1 * *", "America/New_York")
    assert request.spec.target.headers == (("Content-Type", "application/json"),)
    assert request.spec.target.timeout_ms == 120_000
    assert request.spec.retry == RetryPolicy(3, 10_000, 2.0, 300_000)
    assert (request.at_ms, request.delay_ms) == (None, None)


def test_defaults_are_filled_in() -> None:
    request = parse(ONCE)
    assert (request.tenant_id, request.name, request.lane, request.payload) == ("default", "", Lane.DEFAULT, "")
    assert request.spec.target.type is TargetType.HTTP_WEBHOOK
    assert (request.spec.target.method, request.spec.target.timeout_ms) == ("POST", 30_000)
    assert request.spec.retry == RetryPolicy()


@pytest.mark.pitfall(65)
@pytest.mark.parametrize(
    ("given", "effective"),
    [
        ({"backoff_multiplier": 3}, RetryPolicy(3, 10_000, 3.0, 300_000)),
        ({"initial_interval_sec": 1.5}, RetryPolicy(3, 1_500, 2.0, 300_000)),
        ({"initial_interval_sec": 900}, RetryPolicy(3, 900_000, 2.0, 900_000)),
        ({"max_retries": 0}, RetryPolicy(0, 10_000, 2.0, 300_000)),
    ],
)
def test_a_partial_retry_policy_keeps_what_was_given(given: dict[str, float], effective: RetryPolicy) -> None:
    assert parse(ONCE, retry_policy=given).spec.retry == effective


@pytest.mark.parametrize("schedule_type", ["ONE_OFF", "DELAYED"])
def test_each_of_the_three_time_fields_says_when(schedule_type: str) -> None:
    instant_ms = parse_instant("2026-10-22T14:30:00Z")
    by_text = parse(ONCE, schedule_type=schedule_type)
    by_epoch = parse(ONCE, schedule_type=schedule_type, execute_at=..., run_at_epoch_ms=instant_ms)
    by_delay = parse(ONCE, schedule_type=schedule_type, execute_at=..., delay_seconds=0.25)
    assert (by_text.at_ms, by_epoch.at_ms, by_delay.delay_ms) == (instant_ms, instant_ms, 250)


@pytest.mark.pitfall(76)
@pytest.mark.parametrize("delay_ms", [2**31 - 1, 2**31, 2**32 + 5000, DELAY_SECONDS_MAX * 1000])
def test_long_delays_keep_every_millisecond(delay_ms: int) -> None:
    assert parse(ONCE, execute_at=..., delay_seconds=delay_ms / 1000).delay_ms == delay_ms


def test_recurring_policies_are_understood() -> None:
    request = parse(
        BILLING,
        catch_up={"policy": "fire_all", "max": 7},
        overlap="buffer_one",
        deadline_seconds=90,
        start_at="2026-01-01T00:00:00+01:00",
        end_at="2027-01-01T00:00:00Z",
    )
    spec = request.spec
    assert (spec.catch_up, spec.catch_up_max, spec.overlap) == (CatchUp.FIRE_ALL, 7, Overlap.BUFFER_ONE)
    assert spec.deadline_ms == 90_000
    assert spec.start_ms == parse_instant("2025-12-31T23:00:00Z")
    assert spec.end_ms == parse_instant("2027-01-01T00:00:00Z")


def test_null_means_the_default_everywhere() -> None:
    nulls = dict.fromkeys(
        ["tenant_id", "job_name", "priority", "payload", "retry_policy", "tags", "delay_seconds"]
    )
    assert parse(ONCE, **nulls) == parse(ONCE)


@pytest.mark.pitfall(70)
@pytest.mark.parametrize(
    "payload",
    [
        b'"\\u0000"',
        b'{"a\\u0000b": {"\\u0000": "\\u0000"}}',
        b'{"a" : 1,  "a":2 }',
        b"[1e999, 123456789012345678901234567890, 0.10000000000000000555]",
        '"é\u2028\U0001f600"'.encode(),
        b'"\\ud83d\\ude00"',
        b"[" * 128 + b"]" * 128,
        b'"' + b"x" * (PAYLOAD_BYTES - 2) + b'"',
        b'{"tricky": "\\":", "more\\"": "\\\\\\":{[" }',
    ],
)
def test_a_payload_is_kept_byte_for_byte(payload: bytes) -> None:
    text = raw(ONCE)[:-1] + b', "payload": ' + payload + b"}"
    assert parse_job_request(text).payload.encode() == payload


def test_texts_that_look_like_members_are_no_repeated_keys() -> None:
    request = parse(ONCE, tags=['":', '" :"'], job_name='{"a":1}', target={"endpoint": "https://a.example/x?q=':"})
    assert request.tags == ('":', '" :"')


def test_blanks_between_tokens_do_not_matter() -> None:
    text = raw(ONCE).replace(b": ", b"\t:\r\n ")
    assert parse_job_request(text) == parse(ONCE)


def test_a_signing_secret_is_named_or_left_out() -> None:
    named = parse(ONCE, target=ONCE["target"] | {"signing_secret": "billing.2026"})
    assert (named.spec.target.signing_secret, parse(ONCE).spec.target.signing_secret) == ("billing.2026", "")
    assert request_hash(named) != request_hash(parse(ONCE))
    assert parse(ONCE, target=ONCE["target"] | {"signing_secret": None}) == parse(ONCE)


def test_hashes_of_the_first_release_hold() -> None:
    assert request_hash(parse(BILLING)).hex() == "6dd4744c272832d20e285478694b50d0"
    assert request_hash(parse(ONCE)).hex() == "64b5f295d08228fd1efa5dd31cbbfe8b"


def test_the_hash_ignores_how_the_request_is_written() -> None:
    first = parse(BILLING)
    reordered = parse_job_request(
        raw(BILLING, payload=...)[:-1]
        + b',"payload":{ "dry_run":false,"billing_\\u0063ycle":"2026-09"},"overlap":"allow"}'
    )
    assert request_hash(first) == request_hash(reordered)


@pytest.mark.parametrize(
    "change",
    [
        {"job_name": "x"},
        {"priority": "LOW"},
        {"payload": {"billing_cycle": "2026-10", "dry_run": False}},
        {"cron_expression": "0 3 1 * *"},
        {"timezone": "UTC"},
        {"tags": ["a"]},
        {"deadline_seconds": 5},
        {"retry_policy": {"max_retries": 4}},
    ],
)
def test_the_hash_tells_requests_apart(change: dict[str, object]) -> None:
    assert request_hash(parse(BILLING)) != request_hash(parse(BILLING, **change))


def test_a_resent_delay_is_the_same_request() -> None:
    delayed = dict(ONCE, execute_at=..., delay_seconds=60)
    assert request_hash(parse(delayed)) == request_hash(parse(delayed))
    assert request_hash(parse(delayed)) != request_hash(parse(delayed, delay_seconds=61))


def test_the_hash_of_a_payload_beyond_doubles_is_still_one() -> None:
    huge = parse_job_request(raw(ONCE)[:-1] + b',"payload":[1e999]}')
    assert request_hash(huge) != request_hash(parse(ONCE))


def test_a_batch_is_split_into_its_items() -> None:
    assert split_batch(b' [ {"a":1} , 5,"x"]') == [b'{"a":1}', b"5", b'"x"']
    assert split_batch(b"[]") == []
