"""The body of `PATCH /v1/jobs/{id}`: only what is to change.

Objects (`target`, `retry_policy`, `catch_up`, headers) are merged member by member, the rest is replaced, and
null sets a field back to its default. The outcome is checked as a whole, by the same rules as a new request.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from tickwheel.domain.errors import MOST_PROBLEMS, FieldProblem, InvalidRequest
from tickwheel.domain.job import Job
from tickwheel.domain.requests.definition import REDACTED, definition_of
from tickwheel.domain.requests.fields import FIXED_FIELDS, TIME_FIELDS, Kind, children
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.payload_scan import payload_text
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.domain.requests.request_problems import MALFORMED, field_problems, repeated_keys, size_problems
from tickwheel.domain.requests.strict_json import Json, JsonFault, Members, load
from tickwheel.domain.requests.unknown_fields import unknown_field

_TOP: Final = children("")


class JobPatch(msgspec.Struct, frozen=True):
    """A checked patch. `members` are the fields given, None = back to the default; `payload` is raw JSON text."""

    members: dict[str, Any]
    payload: bytes = b""

    @property
    def retimes(self) -> bool:
        """Whether it names an instant or a delay."""
        return any(self.members.get(name) is not None for name in TIME_FIELDS)


def parse_patch(raw: bytes) -> JobPatch:
    """The patch in `raw`. Raises `InvalidRequest` with every problem named."""
    try:
        tree = load(raw)
    except JsonFault as fault:
        raise InvalidRequest([FieldProblem("", f"the body {fault}", MALFORMED)]) from fault
    if not isinstance(tree, Members):
        raise InvalidRequest([FieldProblem("", "the body must be a JSON object", MALFORMED)])
    problems = [*repeated_keys("", tree), *size_problems(raw), *islice(_patch_problems(tree), MOST_PROBLEMS)]
    if problems:
        raise InvalidRequest(problems)
    return JobPatch(dict(tree), payload_text(raw))


def _patch_problems(tree: Members) -> Iterator[FieldProblem]:
    for name, value in tree.items():
        if name in FIXED_FIELDS:
            yield FieldProblem(name, "can't be changed; make another job instead", "conflict")
        elif name not in _TOP:
            yield unknown_field("", name, _TOP)
        else:
            yield from field_problems(_TOP[name], value if name == "payload" else _without_nulls(value))


def patched(job: Job, patch: JobPatch) -> JobRequest:
    """What `job` would have been asked for with the patch; header values that it keeps are only marks.

    Raises `InvalidRequest`.
    """
    members = definition_of(job)
    del members["tenant_id"]  # it stays what it is, by whatever rule it was made
    if patch.retimes:
        for name in TIME_FIELDS:
            members.pop(name, None)
    for name, value in patch.members.items():
        if value is None:
            members.pop(name, None)
        elif name == "payload":
            members[name] = msgspec.Raw(patch.payload)
        elif _TOP[name].kind is Kind.OBJECT:
            members[name] = _merged(members.get(name, {}), value)
        else:
            members[name] = value
    return parse_job_request(msgspec.json.encode(members), job.tenant_id)


def _without_nulls(value: Json) -> Json:
    """What is left to check where null takes a member out, also a header."""
    if not isinstance(value, Members):
        return value
    kept = Members({name: _without_nulls(inner) for name, inner in value.items() if inner is not None})
    kept.repeated = value.repeated
    return kept


def _merged(stored: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if "type" in given and given["type"] != stored.get("type"):
        stored = {}  # a target of another type shares nothing with the stored one
    merged = dict(stored)
    for name, value in given.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = _merged(merged.get(name, {}), value)
        elif value != REDACTED or name not in merged:
            merged[name] = value
    return merged
