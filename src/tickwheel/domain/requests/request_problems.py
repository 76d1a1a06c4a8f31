"""The slow half of the request parser: everything that is wrong with a text, field by field.

It walks the tree of `strict_json` along the table of `fields`, so the messages, the reference and
the checks have one source. Value checks that the fast half makes too are the same functions.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec.structs import replace

from tickwheel.domain import limits
from tickwheel.domain.errors import MOST_PROBLEMS, FieldProblem, InvalidRequest
from tickwheel.domain.requests.fields import Field, Kind, children
from tickwheel.domain.requests.payload_scan import payload_problems, payload_text, step
from tickwheel.domain.requests.request_relations import relation_problems
from tickwheel.domain.requests.request_values import value_problems, wrong_kind
from tickwheel.domain.requests.strict_json import Json, JsonFault, Members, kind_of, load
from tickwheel.domain.requests.unknown_fields import unknown_field

MALFORMED: Final = "malformed_json"
"""Code of the one problem of a body that is no JSON object at all."""
TOO_LARGE: Final = "too_large"
"""Code of a payload over its limit."""


def explain(raw: bytes, hint: str) -> InvalidRequest:
    """The error for a text that the fast half turned away; `hint` is used if nothing else is found."""
    return InvalidRequest(find_problems(raw) or [FieldProblem("", hint)])


def find_problems(raw: bytes) -> list[FieldProblem]:
    """All that is wrong with `raw` as a job request; empty if nothing is."""
    try:
        tree = load(raw)
    except JsonFault as fault:
        return [FieldProblem("", f"the body {fault}", MALFORMED)]
    if not isinstance(tree, Members):
        return [FieldProblem("", "the body must be a JSON object", MALFORMED)]
    return [*problems_in(tree), *size_problems(raw)]


def problems_in(tree: Members) -> list[FieldProblem]:
    """All that is wrong with a decoded request, up to a bound; the size of the payload can't be seen here."""
    problems = list(islice(_object_problems("", tree), MOST_PROBLEMS))
    faulty = {problem.field for problem in problems}
    problems.extend(relation_problems(tree, faulty))
    return problems


def field_problems(field: Field, value: Json) -> Iterator[FieldProblem]:
    """All that is wrong with the value of one field, objects included; null is the default and always right."""
    if value is None:
        return
    if field.path == "payload":
        yield from payload_problems(value)
    elif field.kind is Kind.OBJECT_LIST:
        yield from _items_problems(field, value)
    elif field.kind is not Kind.OBJECT:
        yield from value_problems(field, value)
    elif isinstance(value, Members):
        yield from _object_problems(field.path, value)
    else:
        yield wrong_kind(field, value)


def repeated_keys(parent: str, members: Members) -> Iterator[FieldProblem]:
    """One problem for each key that the object at `parent` has more than once."""
    for key in members.repeated[:MOST_PROBLEMS]:
        yield FieldProblem(step(parent, key), "is given twice; name each field once", "repeated")


def _object_problems(
    parent: str, members: Members, known: Mapping[str, Field] | None = None
) -> Iterator[FieldProblem]:
    known = children(parent) if known is None else known
    yield from repeated_keys(parent, members)
    for key, value in members.items():
        field = known.get(key)
        if field is None:
            yield unknown_field(parent, key, known)
        else:
            yield from field_problems(field, value)


def _items_problems(field: Field, items: Json) -> Iterator[FieldProblem]:
    if not isinstance(items, list):
        yield wrong_kind(field, items)
        return
    if field.max_items is not None and len(items) > field.max_items:
        yield FieldProblem(field.path, f"has {len(items)} items; at most {field.max_items} are allowed")
    known = children(f"{field.path}[]")
    for index, item in enumerate(items):
        at = f"{field.path}[{index}]"
        if isinstance(item, Members):
            yield from _object_problems(at, item, {n: replace(f, path=f"{at}.{n}") for n, f in known.items()})
            for name, one in known.items():
                if one.required and item.get(name) is None:
                    yield FieldProblem(f"{at}.{name}", f"is required: {one.summary}", "required")
        else:
            yield FieldProblem(at, f"must be an object, not {kind_of(item)}", "type")


def size_problems(raw: bytes) -> Iterator[FieldProblem]:
    """The problem of a payload that is too large, if it is."""
    size_bytes = len(payload_text(raw))
    if size_bytes > limits.PAYLOAD_BYTES:
        yield FieldProblem(
            "payload",
            f"has {size_bytes} bytes; at most {limits.PAYLOAD_BYTES} are allowed (send a reference instead)",
            TOO_LARGE,
        )
