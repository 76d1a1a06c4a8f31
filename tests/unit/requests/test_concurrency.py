"""What is wrong with `concurrency`, told by member; and what an older key may still be used with."""

import json
from typing import Any

import pytest

from tickwheel.domain.concurrency import Limit, Scope
from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.requests.request import parse_job_request, request_hash

from .samples import ONCE

GOOD = {"key": "a", "limit": 1}


def parse(**members: Any) -> Any:
    return parse_job_request(json.dumps({**json.loads(json.dumps(ONCE)), **members}).encode())


def test_all_scopes_are_read() -> None:
    given = [
        {"key": "customer-42", "limit": 2, "max_waiting": 1},
        {"scope": "job_name", "limit": 3},
        {"scope": "tenant", "limit": 10_000},
    ]
    assert parse(job_name="nightly", concurrency=given).spec.concurrency == (
        Limit(2, Scope.KEY, "customer-42", 1),
        Limit(3, Scope.JOB_NAME),
        Limit(10_000, Scope.TENANT),
    )
    assert parse(concurrency=None).spec.concurrency == parse(concurrency=[]).spec.concurrency == ()


@pytest.mark.parametrize(
    ("items", "field", "said"),
    [
        ([{"key": "a"}], "concurrency[0].limit", "is required"),
        ([GOOD, {"limit": 1}], "concurrency[1].key", "is required"),
        ([{"key": "", "limit": 1}], "concurrency[0].key", "is required"),
        ([{"key": "x" * 201, "limit": 1}], "concurrency[0].key", "at most 200"),
        ([{"key": "a\n", "limit": 1}], "concurrency[0].key", "control character"),
        ([{"key": "a", "limit": 0}], "concurrency[0].limit", "from 1 to 10000"),
        ([{"key": "a", "limit": 1, "max_waiting": -1}], "concurrency[0].max_waiting", "from 0 to 1000"),
        ([{"scope": "tenant", "key": "a", "limit": 1}], "concurrency[0].key", "remove it"),
        ([{"scope": "job_name", "limit": 1}], "concurrency[0].scope", "give it one"),
        ([{"scope": "Tenant", "limit": 1}], "concurrency[0].scope", "did you mean tenant"),
        ([GOOD, GOOD], "concurrency[1].scope", "counts the same as concurrency[0]"),
        ([{**GOOD, "most": 1}], "concurrency[0].most", "is not a field"),
        ([7], "concurrency[0]", "must be an object"),
        ([{"key": str(n), "limit": 1} for n in range(5)], "concurrency", "at most 4"),
        (GOOD, "concurrency", "must be an array of objects"),
    ],
)
def test_each_fault_names_its_member_and_the_remedy(items: Any, field: str, said: str) -> None:
    members = {} if field.endswith("scope") and "give it one" in said else {"job_name": "j"}
    with pytest.raises(InvalidRequest) as told:
        parse(concurrency=items, **members)
    assert [problem.field for problem in told.value.problems] == [field]
    assert said in told.value.problems[0].message


def test_a_member_that_is_given_twice_is_refused() -> None:
    raw = json.dumps({**json.loads(json.dumps(ONCE)), "concurrency": [GOOD]}).replace(
        '"limit": 1', '"limit": 1, "limit": 2'
    )
    with pytest.raises(InvalidRequest, match="given twice"):
        parse_job_request(raw.encode())


def test_limits_are_part_of_the_request_that_a_key_stands_for() -> None:
    bare, limited, other = parse(), parse(concurrency=[GOOD]), parse(concurrency=[{**GOOD, "limit": 2}])
    assert len({request_hash(bare), request_hash(limited), request_hash(other)}) == 3
