"""The compact form is the same request under other names."""

from typing import Any

import pytest

from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.requests.compact_request import COMPACT_FIELDS, parse_compact_request
from tickwheel.domain.requests.fields import BY_PATH
from tickwheel.domain.requests.request import request_hash

from .samples import parse, raw

ORDER: dict[str, Any] = {
    "target_endpoint": "https://api.internal/orders/cancel-expired",
    "payload": {"order_id": "ord-8812"},
    "trigger_type": "DELAYED",
    "execute_at": "2026-10-22T14:30:00Z",
    "max_retries": 3,
    "idempotency_key": "sch-idem-4412",
}


def compact(**more: Any) -> bytes:
    return raw(ORDER, **more)


def refused(text: bytes) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        parse_compact_request(text)
    return {problem.field: problem.message for problem in caught.value.problems}


def test_it_means_the_same_as_the_ordinary_request() -> None:
    ordinary = parse(
        {
            "schedule_type": "DELAYED",
            "execute_at": ORDER["execute_at"],
            "target": {"endpoint": ORDER["target_endpoint"]},
            "payload": ORDER["payload"],
            "retry_policy": {"max_retries": 3},
            "idempotency_key": "sch-idem-4412",
        }
    )
    request = parse_compact_request(compact())
    assert request == ordinary
    assert request_hash(request) == request_hash(ordinary)


def test_cron_can_be_asked_for() -> None:
    request = parse_compact_request(
        compact(
            trigger_type="CRON", execute_at=..., cron_expression="0 2 1 * *", timezone="Asia/Tokyo", priority="LOW"
        )
    )
    assert (request.spec.cron, request.spec.timezone) == ("0 2 1 * *", "Asia/Tokyo")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"target_endpoint": ...}, "target_endpoint"),
        ({"target_endpoint": "nope"}, "target_endpoint"),
        ({"trigger_type": ...}, "trigger_type"),
        ({"trigger_type": "INSTANT"}, "trigger_type"),
        ({"execute_at": ...}, "execute_at"),
        ({"execute_at": "soon"}, "execute_at"),
        ({"max_retries": 1.5}, "max_retries"),
        ({"cron_expression": "* * * * *"}, "cron_expression"),
        ({"job_name": "x"}, "job_name"),
        ({"delay_seconds": 5}, "delay_seconds"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"priority": "high"}, "priority"),
    ],
)
def test_problems_are_told_under_the_names_of_the_compact_form(more: dict[str, Any], field: str) -> None:
    assert set(refused(compact(**more))) == {field}


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"target":{}}', compact()[:-1] + b',"max_retries":1}'])
def test_odd_bodies_are_refused(text: bytes) -> None:
    assert refused(text)


def test_its_payload_is_bounded_and_byte_exact() -> None:
    text = compact(payload=...)[:-1] + b', "payload": { "a":"\\u0000" } }'
    assert parse_compact_request(text).payload == '{ "a":"\\u0000" }'
    assert set(refused(compact(payload="x" * 300_000))) == {"payload"}


def test_every_compact_field_is_an_ordinary_one() -> None:
    assert all(BY_PATH[field.path] is field for field in COMPACT_FIELDS.values())
