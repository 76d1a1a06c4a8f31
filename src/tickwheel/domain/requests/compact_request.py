"""The compact request of `POST /v1/jobs/schedule`, translated onto the ordinary one.

    {"target_endpoint": "https://...", "payload": {...}, "trigger_type": "DELAYED", "execute_at": "...",
     "max_retries": 3, "idempotency_key": "..."}

`trigger_type` is DELAYED (with `execute_at`) or CRON (with `cron_expression`, `timezone`). The core checks it;
what is wrong is told under the names of the compact form.
"""

from collections.abc import Iterator, Set
from itertools import islice
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tickwheel.domain.errors import MOST_PROBLEMS, FieldProblem, InvalidRequest
from tickwheel.domain.job import DEFAULT_TENANT, ScheduleType
from tickwheel.domain.limits import RETRIES_MAX
from tickwheel.domain.requests.body import NO_PAYLOAD, JobBody, RetryBody, TargetBody
from tickwheel.domain.requests.fields import BY_PATH, Field
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.member_count import given_count, visible_members
from tickwheel.domain.requests.request_builder import Doubtful, build_request
from tickwheel.domain.requests.request_problems import MALFORMED, problems_in, repeated_keys, size_problems
from tickwheel.domain.requests.strict_json import JsonFault, Members, load
from tickwheel.domain.requests.unknown_fields import unknown_field

COMPACT_FIELDS: Final[dict[str, Field]] = {
    "target_endpoint": BY_PATH["target.endpoint"],
    "payload": BY_PATH["payload"],
    "trigger_type": BY_PATH["schedule_type"],
    "execute_at": BY_PATH["execute_at"],
    "cron_expression": BY_PATH["cron_expression"],
    "timezone": BY_PATH["timezone"],
    "max_retries": BY_PATH["retry_policy.max_retries"],
    "idempotency_key": BY_PATH["idempotency_key"],
    "tenant_id": BY_PATH["tenant_id"],
    "priority": BY_PATH["priority"],
}
"""Name in the compact form -> the ordinary field that it means."""
TRIGGER_TYPES: Final = ("DELAYED", "CRON")

_COMPACT_NAME: Final = {field.path: name for name, field in COMPACT_FIELDS.items()} | {"target": "target_endpoint"}


class _CompactBody(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    trigger_type: Literal["DELAYED", "CRON"]
    target_endpoint: str
    payload: msgspec.Raw = NO_PAYLOAD
    execute_at: str | None = None
    cron_expression: str | None = None
    timezone: str | None = None
    max_retries: Annotated[int, Meta(ge=0, le=RETRIES_MAX)] | None = None
    idempotency_key: str | None = None
    tenant_id: str | None = None
    priority: Literal["CRITICAL", "HIGH", "DEFAULT", "LOW"] | None = None


_DECODER: Final = msgspec.json.Decoder(_CompactBody)


def parse_compact_request(raw: bytes, tenant_id: str = DEFAULT_TENANT) -> JobRequest:
    """The request in `raw`, of `tenant_id` if it names no tenant.

    Raises `InvalidRequest` with every problem named.
    """
    try:
        body = _DECODER.decode(raw)
        request = build_request(_ordinary(body), tenant_id)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, Doubtful) as error:
        raise InvalidRequest(_find_problems(raw) or [FieldProblem("", str(error))]) from error
    members = given_count(body) - (not len(body.payload))
    if visible_members(raw) - visible_members(bytes(body.payload)) != members:
        problems = _find_problems(raw)
        if problems:
            raise InvalidRequest(problems)
    return request


def _ordinary(body: _CompactBody) -> JobBody:
    return JobBody(
        schedule_type=ScheduleType(body.trigger_type),
        target=TargetBody(endpoint=body.target_endpoint),
        tenant_id=body.tenant_id,
        execute_at=body.execute_at,
        cron_expression=body.cron_expression,
        timezone=body.timezone,
        priority=body.priority,
        payload=body.payload,
        retry_policy=None if body.max_retries is None else RetryBody(max_retries=body.max_retries),
        idempotency_key=body.idempotency_key,
    )


def _find_problems(raw: bytes) -> list[FieldProblem]:
    try:
        tree = load(raw)
    except JsonFault as fault:
        return [FieldProblem("", f"the body {fault}", MALFORMED)]
    if not isinstance(tree, Members):
        return [FieldProblem("", "the body must be a JSON object", MALFORMED)]
    problems = [*repeated_keys("", tree), *islice(_compact_problems(tree), MOST_PROBLEMS)]
    seen = {problem.field for problem in problems}
    for problem in (*problems_in(_translated(tree, seen)), *size_problems(raw)):
        told = _told(problem)
        if told.field not in seen:
            problems.append(told)
    return problems


def _compact_problems(tree: Members) -> Iterator[FieldProblem]:
    """What only the compact form asks for."""
    for key in tree:
        if key not in COMPACT_FIELDS:
            yield unknown_field("", key, COMPACT_FIELDS)
    trigger = tree.get("trigger_type")
    if trigger is None or (isinstance(trigger, str) and trigger not in TRIGGER_TYPES):
        yield FieldProblem("trigger_type", f"must be one of {', '.join(TRIGGER_TYPES)}")
    if tree.get("target_endpoint") is None:
        yield FieldProblem("target_endpoint", "is required: the http or https address to call", "required")
    if trigger == "DELAYED" and tree.get("execute_at") is None:
        yield FieldProblem("execute_at", "is required: DELAYED needs it", "required")


def _translated(tree: Members, faulty: Set[str]) -> Members:
    ordinary = Members()
    for name, field in COMPACT_FIELDS.items():
        if tree.get(name) is None or (name == "trigger_type" and name in faulty):
            continue
        if field.parent:
            ordinary.setdefault(field.parent, Members())[field.name] = tree[name]
        else:
            ordinary[field.name] = tree[name]
    return ordinary


def _told(problem: FieldProblem) -> FieldProblem:
    message = problem.message.replace("schedule_type", "trigger_type").replace("ONE_OFF or DELAYED", "DELAYED")
    return FieldProblem(_COMPACT_NAME.get(problem.field, problem.field), message, problem.code)
