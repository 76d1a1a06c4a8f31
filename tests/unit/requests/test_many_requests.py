"""Many requests at once are judged as each of them alone."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwheel.domain import limits
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.once import once_requests
from tickwheel.domain.requests.request import parse_exactly, parse_job_request, parse_job_requests

from .samples import BILLING, ONCE, raw
from .test_both_halves import EXAMPLES, requests

HANDLER: dict[str, Any] = {
    "schedule_type": "ONE_OFF",
    "run_at_epoch_ms": 1_790_000_000_000,
    "target": {"type": "HANDLER", "name": "noop"},
}


def judged(items: Sequence[bytes]) -> list[JobRequest | list[FieldProblem]]:
    return [one.problems if isinstance(one, InvalidRequest) else one for one in parse_job_requests(items)]


def judged_alone(item: bytes) -> JobRequest | list[FieldProblem]:
    try:
        return parse_exactly(item)
    except InvalidRequest as error:
        return error.problems


@settings(max_examples=3 * EXAMPLES)
@given(st.lists(requests(), max_size=6))
def test_each_request_is_judged_as_if_it_were_alone(items: list[bytes]) -> None:
    assert judged(items) == [judged_alone(item) for item in items]


def test_good_ones_take_the_quick_path_and_share_a_spec() -> None:
    items = [raw(HANDLER, run_at_epoch_ms=1_790_000_000_000 + n, payload={"n": [n, {}]}) for n in range(5)]
    requests = once_requests(items)
    assert requests == [parse_exactly(item) for item in items]
    assert len({id(request.spec) for request in requests if request is not None}) == 1


@pytest.mark.parametrize(
    "odd",
    [
        b'"priority":"LOW","priority":"HIGH"',
        b'"priority" : "LOW", "priority"\t:"HIGH"',
        b'"target":{"type":"HANDLER","name":"a"}',
        b'"retry_policy":{"max_retries":1,"max_retries":2}',
        b'"payload":1,"payload":2',
        b'"tags":null',
        b'"retry_policy":null',
        b'"catch_up":{}',
        b'"execute_at":"2026-10-22T14:30:00Z"',
        b'"deadline_seconds":0',
        b'"oops":1',
        b'"payload":' + b"[" * (limits.PAYLOAD_DEPTH + 1) + b"]" * (limits.PAYLOAD_DEPTH + 1),
        b'"payload":"' + b"x" * limits.PAYLOAD_BYTES + b'"',
        b'"payload":NaN',
        b'"job_name":"\\u0000"',
        b'"retry_policy":{"initial_interval_sec":9,"max_interval_sec":8}',
    ],
)
def test_an_odd_one_among_good_ones_gets_the_exact_parser(odd: bytes) -> None:
    good = raw(HANDLER, payload={"a": 1})
    items = [good, raw(HANDLER)[:-1] + b"," + odd + b"}", good]
    assert [one is None for one in once_requests(items)] == [False, True, False]
    assert judged(items) == [judged_alone(item) for item in items]


def test_blanks_before_colons_and_quotes_in_payloads_hide_nothing() -> None:
    spaced = json.dumps(HANDLER | {"payload": {'a": ': '":1'}}, separators=(" , ", " : ")).encode()
    assert once_requests([spaced, raw(HANDLER)]) == [parse_exactly(spaced), parse_exactly(raw(HANDLER))]
    repeated = spaced[:-1] + b' , "tags" : [] , "tags" : []}'
    assert once_requests([spaced, repeated])[1] is None


def test_a_single_good_one_takes_the_quick_path_too() -> None:
    one, other = parse_job_request(raw(HANDLER)), parse_job_request(raw(HANDLER, payload=[1]))
    assert one == parse_exactly(raw(HANDLER))
    assert one.spec is other.spec


def test_recurring_ones_get_the_exact_parser() -> None:
    items = [raw(ONCE), raw(BILLING)]
    assert [one is None for one in once_requests(items)] == [False, True]
    assert judged(items) == [judged_alone(item) for item in items]


def test_a_target_that_is_too_long_to_keep_is_read_each_time() -> None:
    item = raw(ONCE, target={"endpoint": "https://a.example/" + "x" * 2_020, "headers": {"X-A": "1"}})
    requests = once_requests([item, item])
    assert requests == [parse_exactly(item)] * 2
    assert requests[0] is not None
    assert requests[1] is not None
    assert requests[0].spec is not requests[1].spec
