"""Requests that name what belongs to another tenant, made up from the operations and the schemas of their bodies.

A request has *slots*: variables of the path, parameters, headers, and members of the body. Each can be filled with
what is foreign. Its *twin* is the same request with things instead that never were.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from tickwheel.domain.ids import job_id_text, parse_job_id, parse_run_id, run_id_text
from tickwheel.interfaces.http.openapi import openapi_document
from tickwheel.interfaces.http.operations import Operation

from .two_tenants import Belongings

Path = tuple[str | int, ...]
SAME: Final = {
    "run_ids": "run_id",
    "holding": "run_id",
    "id": "worker_id",
    "subject": "job_id",
    "Idempotency-Key": "idempotency_key",
    "signing_secret": "secret_name",
    "name_prefix": "name",
}
"""Under which name there are values of what a slot of another name means."""
OFTEN: Final = ("job_id", "secret_name", "idempotency_key", "tenant_id")
"""What is put where any text will do."""
MADE: Final = {"create_secret": {"name": "secret_name"}}


class Slot(NamedTuple):
    """A place in a request; `path` leads to a member of the body."""

    where: str  # path, query, header, body
    name: str
    path: Path
    values: tuple[Any, ...]  # foreign ones


class Request(NamedTuple):
    """What is sent, and the foreign values in it."""

    operation: Operation
    url: str
    body: Any
    headers: dict[str, str]
    foreign: tuple[tuple[Slot, Any], ...]

    def __repr__(self) -> str:
        return f"{self.operation.method} {self.url} {self.headers or ''} {'' if self.body is None else self.body}"

    @property
    def sent(self) -> list[str]:
        """The foreign texts, longest first."""
        return sorted({str(value) for _, value in self.foreign}, key=len, reverse=True)

    def names(self, where: str, name: str | None = None) -> bool:
        """Whether such a slot has a foreign value."""
        return any(slot.where == where and name in (None, slot.name) for slot, _ in self.foreign)


Fill = Mapping[Slot, Any]
"""Slot -> foreign value."""


def slots_of(operation: Operation, theirs: Belongings) -> list[Slot]:
    """All that can be filled, each with what it could name."""
    found = []
    for param in operation.params:
        free = param.schema.get("type") == "string" and "enum" not in param.schema and "format" not in param.schema
        if param.where == "path" or free:
            found.append(Slot(param.where, param.name, (), _values(param.name, theirs)))
    if not any(slot.name == "tenant_id" and slot.where == "query" for slot in found):
        found.append(Slot("query", "tenant_id", (), (theirs.tenant_id,)))  # named though it is no parameter
    if operation.body is not None:
        for path, kind in members(operation.body.schema):
            name = MADE.get(operation.name, {}).get(_name(path), _name(path))
            if kind == "string":
                found.append(Slot("body", name, path, _values(name, theirs)))
            elif name in theirs.named:
                found.append(Slot("body", name, path, tuple(theirs.named[name])))
    return found


def _values(name: str, theirs: Belongings) -> tuple[Any, ...]:
    known = theirs.named.get(SAME.get(name, name))
    if known is not None:
        return tuple(known)
    return tuple(theirs.named[each][-1] for each in OFTEN)


def members(schema: str) -> list[tuple[Path, str]]:
    """The members of a body that are texts or numbers, with the kind, at any depth; of a list the first item."""
    return list(dict.fromkeys(_members({"$ref": f"#/components/schemas/{schema}"}, ())))


def _members(schema: Any, path: Path) -> Iterator[tuple[Path, str]]:
    schema = _resolved(schema)
    for choice in schema.get("anyOf", ()):
        yield from _members(choice, path)
    types = schema.get("type", ())
    types = {types} if isinstance(types, str) else set(types)
    if "string" in types and path and "enum" not in schema and "format" not in schema:
        yield path, "string"
    if "integer" in types and path:
        yield path, "integer"
    if "array" in types and len(path) < 5:
        yield from _members(schema.get("items", {}), (*path, 0))
    for name, below in schema.get("properties", {}).items():
        yield from _members(below, (*path, name))


def _resolved(schema: Any) -> Any:
    while "$ref" in schema:
        schema = openapi_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _name(path: Path) -> str:
    return [str(step) for step in path if isinstance(step, str)][-1]


def request(operation: Operation, own: Belongings, fill: Fill) -> Request:
    """The documented example with own ids, but for the slots that are filled."""
    path, query, headers = operation.path, {}, {}
    body = None if operation.body is None else _own_example(operation, own)
    for slot, value in fill.items():
        if slot.where == "path":
            path = path.replace(_variable(slot.name), quote(value, safe=""))
        elif slot.where == "query":
            query[slot.name] = value
        elif slot.where == "header":
            headers[slot.name] = value
        else:
            body = _with(body, slot.path, value, operation)
    for name in re.findall(r"\{(\w+)\}", path):
        path = path.replace(_variable(name), quote(own.named.get(name, ["x"])[-1], safe=""))
    url = path + (f"?{urlencode(query)}" if query else "")
    return Request(operation, url, body, headers, tuple(fill.items()))


def _variable(name: str) -> str:
    return "{" + name + "}"


def twin(operation: Operation, own: Belongings, theirs: Belongings, fill: Fill) -> Request:
    """The same about things that never were."""
    return request(operation, own, {slot: never(value, theirs) for slot, value in fill.items()})


def never(value: Any, theirs: Belongings) -> Any:
    """Like the value, and of nothing."""
    if not isinstance(value, str):
        return value
    if value.startswith("job_"):
        return job_id_text(_other_job(parse_job_id(value)))
    if value.startswith("run_"):
        job_id, scheduled_ms = parse_run_id(value)
        return run_id_text(_other_job(job_id), scheduled_ms)
    if theirs.tenant_id in value:
        return value.replace(theirs.tenant_id, "n" * len(theirs.tenant_id))
    return value[:-4] + value[-4:].translate(_SHIFTED)


_LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_SHIFTED: Final = str.maketrans(_LETTERS, _LETTERS[1:] + _LETTERS[0])


def _other_job(job_id: bytes) -> bytes:
    return job_id[:-6] + bytes(byte ^ 0x5A for byte in job_id[-6:])


def _own_example(operation: Operation, own: Belongings) -> Any:
    """Nothing in it is foreign, and no poll waits."""
    assert operation.body is not None
    body = copy.deepcopy(operation.body.example)
    for path, _ in members(operation.body.schema):
        name = SAME.get(_name(path), _name(path))
        if name in own.named and name not in ("tenant_id", "idempotency_key", "name") and _has(body, path):
            body = _with(body, path, own.named[name][-1], operation)
    if isinstance(body, dict) and "wait_seconds" in body:
        body["wait_seconds"] = 0
    return body


def _has(body: Any, path: Path) -> bool:
    for step in path:
        if isinstance(step, int):
            if not isinstance(body, list) or len(body) <= step:
                return False
        elif not isinstance(body, dict) or step not in body:
            return False
        body = body[step]
    return True


def _with(body: Any, path: Path, value: Any, operation: Operation) -> Any:
    """A copy with the value there; what is missing on the way is made, with all that it has to have."""
    assert operation.body is not None
    schema: Any = {"$ref": f"#/components/schemas/{operation.body.schema}"}
    return _put(copy.deepcopy(body), path, value, schema)


def _put(body: Any, path: Path, value: Any, schema: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    below = _below(schema, step)
    if isinstance(step, int):
        items = body if isinstance(body, list) else []
        first = items[0] if items else _least(below)
        return [_put(first, rest, value, below), *items[1:]]
    object_ = body if isinstance(body, dict) else _least(schema)
    object_[step] = _put(object_.get(step), rest, value, below)
    return object_


def _below(schema: Any, step: str | int) -> Any:
    for choice in _choices(schema):
        if isinstance(step, int) and "items" in choice:
            return choice["items"]
        if step in choice.get("properties", {}):
            return choice["properties"][step]
    return {}


def _choices(schema: Any) -> Sequence[Any]:
    schema = _resolved(schema)
    return [schema, *(_resolved(choice) for choice in schema.get("anyOf", ()))]


def _least(schema: Any) -> Any:
    """An object with what it has to have."""
    made = {}
    for choice in _choices(schema):
        for name in choice.get("required", ()):
            kind = _resolved(choice["properties"][name])
            made[name] = {"integer": 1, "number": 1, "string": "x", "array": []}.get(kind.get("type"), {})
    return made
