"""Requests made up from the OpenAPI document: no 5xx, every answer as documented, and nobody gets in unasked.

Each request is sent twice: by one who may do everything, and before that by the next of those without a token,
with an unknown one, and with one of each role of a tenant. `make fuzz` makes up far more requests.
"""

import json
import os
import urllib.request
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS
from schemathesis.transport.requests import SameHostRedirectsSession

from tickwheel.domain.access import ROLE_SCOPES, Principal, Role
from tickwheel.interfaces.http.openapi import openapi_document
from tickwheel.interfaces.http.operations import OPERATIONS, Operation
from tickwheel.ports.tokens import TokenRefused, Verified

from .served import served

BOUNDS = settings(
    max_examples=int(os.environ.get("TESTS_EXAMPLES", settings().max_examples // 12)),
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
EVERYTHING: Final = "static-token-0123456789"
CALLERS: Final = {
    "nobody": "",
    "stranger": "x.role.y",
    **{role.value: f"role.{role.value}.default" for role in Role},
}
"""Who asks in turn, and with which token."""
BODY = {"schedule_type": "CRON", "cron_expression": "0 0 1 1 *", "target": {"endpoint": "https://example.com/"}}
BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
ENDLESS: Final = [
    operation.path
    for operation in OPERATIONS
    if any(reply.media_type == "text/event-stream" for reply in operation.replies)
]
"""Answers that go on as long as somebody listens."""
SCHEMA = schemathesis.openapi.from_dict(json.loads(json.dumps(openapi_document()))).exclude(path=ENDLESS)
SENT: Counter[str] = Counter()
TURNS: Final = {operation.name: cycle(CALLERS) for operation in OPERATIONS}

_ids: dict[str, str] = {}


class RoleTokens:
    """Implements `ports.tokens.TokenVerifier`: `role.<role>.<tenant>`."""

    async def verify(self, token: str, now_ms: int) -> Verified:
        kind, role, tenant_id = token.split(".")
        if kind != "role":
            raise TokenRefused("The token is not known.")
        return Verified(Principal(f"test:{role}", ROLE_SCOPES[Role(role)], tenant_id), 1 << 60)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(tokens=[EVERYTHING], verifier=RoleTokens()) as url:
        job = call(url, "/v1/jobs", BODY)
        run = call(url, f"/v1/jobs/{job['job_id']}/trigger", {})
        token = call(url, "/v1/tokens", {"role": "reader"})
        call(url, "/v1/secrets", {"name": "signing"})
        _ids.update(job_id=job["job_id"], run_id=run["run_id"], token_id=token["token_id"])
        _ids.update(secret_name="signing", tenant_id="default")
        yield url
    print(f"{SENT.total():,} requests: {', '.join(f'{count:,} by {who}' for who, count in SENT.items())}")


@pytest.fixture(scope="module")
def session(address: str) -> Iterator[SameHostRedirectsSession]:
    """Keeps its connection: a new one for each request would take most of the time."""
    with SameHostRedirectsSession() as session:
        session.trust_env = False  # a proxy is for other addresses than loopback
        yield session


def call(url: str, path: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {EVERYTHING}"}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers, method="POST")
    with urllib.request.urlopen(request) as response:
        return json.load(response)


# The schema can't say all that a request must be (a cron expression, one of three time fields), so data that it
# allows may be refused. A batch is taken though an item is bad.
LEFT_OUT: list[Any] = [CHECKS.get_one("positive_data_acceptance")]
LEFT_OUT_OF_BATCH: list[Any] = [*LEFT_OUT, CHECKS.get_one("negative_data_rejection")]


def check(case: schemathesis.Case[Any], address: str, session: SameHostRedirectsSession) -> None:
    if case.path == "/v1/workers/poll" and isinstance(case.body, dict):
        wait = case.body.get("wait_seconds", 10)
        if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 < wait <= 30:
            case.body["wait_seconds"] = 0  # a poll waits, and there is never any work here
    if case.path.startswith("/v1/tenant") and isinstance(case.body, dict) and case.body.get("disabled") is True:
        case.body["disabled"] = False  # nobody else would be answered any more
    left_out = LEFT_OUT_OF_BATCH if case.path == "/v1/jobs/batch" else LEFT_OUT
    operation = BY_NAME[case.operation.definition.raw["operationId"]]
    for name in [name for name in case.headers if name.lower() == "authorization"]:
        del case.headers[name]
    for who in (next(TURNS[operation.name]), "everything"):
        token = CALLERS.get(who, EVERYTHING)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = case.call_and_validate(address, session, headers=headers, excluded_checks=left_out, timeout=30)
        SENT[who] += 1
        if case.method.upper() == operation.method:
            expect_access(operation, who, response.status_code, response.text)


def expect_access(operation: Operation, who: str, status: int, text: str) -> None:
    """Only a path that is none is refused before anybody is asked who they are."""
    known = who not in ("nobody", "stranger")
    scopes = frozenset() if who == "everything" or not known else ROLE_SCOPES[Role(who)]
    if operation.public or who == "everything":
        may = True
    else:
        may = known and (operation.scope is None or operation.scope in scopes) and not operation.for_installation
    if not may:
        assert status in ((403, 404) if known else (401, 404)), (who, status, text)
    elif status in (401, 403):
        assert json.loads(text)["code"] != "unauthorized"
        assert "scope" not in json.loads(text)["detail"], (who, text)


def documented(*tags: str) -> Any:
    """A test of the operations with these tags; a test of all would take too long for one."""

    @SCHEMA.include(tag=list(tags)).parametrize()
    @BOUNDS
    def test(case: schemathesis.Case[Any], address: str, session: SameHostRedirectsSession) -> None:
        check(case, address, session)

    return test


PARTS: Final = (("Jobs",), ("Steering", "Runs", "Dead letters"), ("Workers",), ("Access", "Secrets"), ("Tenants",))
test_answers_about_jobs_are_as_documented = documented(*PARTS[0])
test_answers_about_runs_are_as_documented = documented(*PARTS[1])
test_answers_to_workers_are_as_documented = documented(*PARTS[2])
test_answers_about_tokens_and_secrets_are_as_documented = documented(*PARTS[3])
test_answers_about_tenants_are_as_documented = documented(*PARTS[4])
test_all_other_answers_are_as_documented = documented(
    *{operation.tag for operation in OPERATIONS} - {tag for part in PARTS for tag in part}
)


@SCHEMA.include(path_regex=r"\{(job_id|run_id|token_id|secret_name|tenant_id)\}").parametrize()
@BOUNDS
def test_answers_about_things_that_exist_are_as_documented(
    case: schemathesis.Case[Any], address: str, session: SameHostRedirectsSession
) -> None:
    case.path_parameters.update({name: _ids[name] for name in case.path_parameters if name in _ids})
    case.query.pop("tenant_id", None)
    check(case, address, session)
