"""What was read may be sent back: drops from a body what only the server writes.

`GET` shows a job's definition and its status side by side. A client that changes one field of what it has read and
sends all of it back means the definition; the rest is left out here, before the strict parser sees it.
"""

from typing import Any, Final

import msgspec

from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.job import Job
from tickwheel.domain.requests.definition import definition_of
from tickwheel.domain.requests.fields import BY_PATH, FIXED_FIELDS
from tickwheel.domain.requests.request_problems import repeated_keys
from tickwheel.domain.requests.strict_json import JsonFault, Members, load
from tickwheel.interfaces.http.job_views import JobBody

READ_ONLY: Final = frozenset(JobBody.__struct_fields__) - BY_PATH.keys()
"""What an answer has and a request has not."""

_DECODER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def definition_in(raw: bytes) -> bytes:
    """`raw` without read-only fields; as it is if it has none, or is no JSON object."""
    return _without(raw, READ_ONLY)


def change_in(raw: bytes, job: Job) -> bytes:
    """The same for a patch of `job`: fields that can't be changed are left out too, where they are as stored."""
    definition: dict[str, Any] = definition_of(job)
    members = _members(raw)
    unchanged = {
        name for name in FIXED_FIELDS if name in members and _value(members[name]) == definition.get(name)
    }
    return _without(raw, READ_ONLY | unchanged)


def names_fixed_fields(raw: bytes) -> bool:
    """Whether the body has a field that an edit can't change."""
    return any(name in FIXED_FIELDS for name in _members(raw))


def _without(raw: bytes, names: frozenset[str]) -> bytes:
    members = _members(raw)
    if names.isdisjoint(members):
        return raw
    _refuse_repeated(raw)
    kept = [b"%b:%b" % (msgspec.json.encode(k), bytes(v)) for k, v in members.items() if k not in names]
    return b"{%b}" % b",".join(kept)


def _refuse_repeated(raw: bytes) -> None:
    # Of two equal keys only the last would be written out again, and nobody would see that there were two.
    try:
        tree = load(raw)
    except JsonFault:
        return
    problems = list(repeated_keys("", tree)) if isinstance(tree, Members) else []
    if problems:
        raise InvalidRequest(problems)


def _members(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _DECODER.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}


def _value(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return raw
