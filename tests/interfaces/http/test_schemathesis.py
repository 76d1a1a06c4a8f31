"""Requests made up from the OpenAPI document: no 5xx, and every answer as it is documented."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS

from tickwheel.interfaces.http.openapi import openapi_document

from .served import served

BOUNDS = settings(
    max_examples=settings().max_examples // 12,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
SCHEMA = schemathesis.openapi.from_dict(json.loads(json.dumps(openapi_document())))
BODY = {"schedule_type": "CRON", "cron_expression": "0 0 1 1 *", "target": {"endpoint": "https://example.com/"}}

_ids: dict[str, str] = {}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as url:
        job = call(url, "/v1/jobs", BODY)
        run = call(url, f"/v1/jobs/{job['job_id']}/trigger", {})
        _ids.update(job_id=job["job_id"], run_id=run["run_id"])
        yield url


def call(url: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


# The schema can't say all that a request must be (a cron expression, one of three time fields), so data that it
# allows may be refused. A batch is taken though an item is bad.
LEFT_OUT: list[Any] = [CHECKS.get_one("positive_data_acceptance")]
LEFT_OUT_OF_BATCH: list[Any] = [*LEFT_OUT, CHECKS.get_one("negative_data_rejection")]


def check(case: schemathesis.Case[Any], address: str) -> None:
    if case.path == "/v1/workers/poll" and isinstance(case.body, dict):
        wait = case.body.get("wait_seconds", 10)
        if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 < wait <= 30:
            case.body["wait_seconds"] = 0  # a poll waits, and there is never any work here
    left_out = LEFT_OUT_OF_BATCH if case.path == "/v1/jobs/batch" else LEFT_OUT
    case.call_and_validate(base_url=address, excluded_checks=left_out, timeout=30)


@SCHEMA.parametrize()
@BOUNDS
def test_answers_are_as_documented(case: schemathesis.Case[Any], address: str) -> None:
    check(case, address)


@SCHEMA.include(path_regex=r"\{(job_id|run_id)\}").parametrize()
@BOUNDS
def test_answers_about_things_that_exist_are_as_documented(case: schemathesis.Case[Any], address: str) -> None:
    case.path_parameters.update({name: _ids[name] for name in case.path_parameters if name in _ids})
    case.query.pop("tenant_id", None)
    check(case, address)
