"""What is wrong with one value of a request, whatever the others are."""

import math
from collections.abc import Callable, Iterator
from typing import Final

from tickwheel.domain import limits
from tickwheel.domain.errors import FieldProblem
from tickwheel.domain.requests.fields import Field, Kind
from tickwheel.domain.requests.instants import InstantError, parse_instant
from tickwheel.domain.requests.payload_scan import step, surrogate_fault
from tickwheel.domain.requests.strict_json import Json, Members, kind_of
from tickwheel.domain.requests.target_rules import (
    endpoint_fault,
    handler_name_fault,
    header_faults,
    secret_name_fault,
)
from tickwheel.domain.requests.text_rules import key_fault, name_fault, new_tenant_fault, tag_faults, text_fault

_WANTED: Final = {
    Kind.STRING: "a string",
    Kind.INTEGER: "an integer",
    Kind.NUMBER: "a number",
    Kind.INSTANT: "a string such as 2026-10-22T14:30:00Z",
    Kind.ENUM: "a string",
    Kind.OBJECT: "an object",
    Kind.STRING_MAP: "an object of strings",
    Kind.STRING_LIST: "an array of strings",
    Kind.OBJECT_LIST: "an array of objects",
}
_TEXT_CHECKS: Final[dict[str, Callable[[str], str | None]]] = {
    "tenant_id": new_tenant_fault,
    "job_name": name_fault,
    "idempotency_key": key_fault,
    "target.endpoint": endpoint_fault,
    "target.name": handler_name_fault,
    "target.signing_secret": secret_name_fault,
}


def value_problems(field: Field, value: Json) -> Iterator[FieldProblem]:
    """All that is wrong with `value` (not null) as the value of `field`."""
    match field.kind:
        case Kind.STRING | Kind.INSTANT if isinstance(value, str):
            fault = _text_fault(field, value)
        case Kind.ENUM if isinstance(value, str):
            fault = None if value in field.choices else _choice_fault(field, value)
        case Kind.INTEGER if isinstance(value, int) and not isinstance(value, bool):
            fault = _range_fault(field, value)
        case Kind.NUMBER if isinstance(value, int | float) and not isinstance(value, bool):
            fault = _range_fault(field, value)
        case Kind.STRING_MAP if isinstance(value, Members):
            yield from _header_problems(field, value)
            return
        case Kind.STRING_LIST if isinstance(value, list):
            yield from _list_problems(field, value)
            return
        case _:
            yield wrong_kind(field, value)
            return
    if fault is not None:
        yield FieldProblem(field.path, fault)


def wrong_kind(field: Field, value: Json) -> FieldProblem:
    """The problem of a value of another JSON type."""
    return FieldProblem(field.path, f"must be {_WANTED[field.kind]}, not {kind_of(value)}", "type")


def _text_fault(field: Field, text: str) -> str | None:
    fault = surrogate_fault(text)
    if fault is not None:
        return fault
    if field.max_chars is not None and len(text) > field.max_chars:
        return f"has {len(text)} characters; at most {field.max_chars} are allowed"
    if field.kind is Kind.INSTANT:
        return _instant_fault(text)
    return _TEXT_CHECKS.get(field.path, text_fault)(text)


def _instant_fault(text: str) -> str | None:
    try:
        parse_instant(text)
    except InstantError as error:
        return str(error)
    return None


def _choice_fault(field: Field, value: str) -> str:
    allowed = ", ".join(field.choices)
    upper_or_lower = next((choice for choice in field.choices if choice.lower() == value.lower()), None)
    hint = f"; did you mean {upper_or_lower}? (case counts)" if upper_or_lower else ""
    return f"must be one of {allowed}{hint}"


def _range_fault(field: Field, value: float) -> str | None:
    low, high = field.minimum, field.maximum
    if low is not None and high is not None and low <= value <= high and math.isfinite(value):
        return None
    allowed = f"must be from {_shown(low)} to {_shown(high)}{' ' + field.unit if field.unit else ''}"
    if field.path == "run_at_epoch_ms" and 0 <= value < limits.EPOCH_MS_MIN:
        return f"{allowed}; {value} looks like seconds (multiply by 1000) or like a delay (use delay_seconds)"
    if field.path == "delay_seconds" and value > limits.DELAY_SECONDS_MAX:
        return f"{allowed} (ten years); if an instant is meant, use execute_at or run_at_epoch_ms"
    if abs(value) > limits.SAFE_INTEGER:
        return f"{allowed}; integers beyond 2^53 are not exact in JSON"
    return allowed


def _shown(bound: float | None) -> str:
    return str(int(bound)) if bound is not None and bound == int(bound) else str(bound)


def _header_problems(field: Field, headers: Members) -> Iterator[FieldProblem]:
    for name in headers.repeated:
        yield FieldProblem(step(field.path, name), "is given twice", "repeated")
    texts = {}
    for name, value in headers.items():
        if isinstance(value, str):
            texts[name] = value
        else:
            yield FieldProblem(step(field.path, name), f"must be a string, not {kind_of(value)}", "type")
    for at, fault in header_faults(texts):
        yield FieldProblem(field.path if at is None else step(field.path, at), fault)


def _list_problems(field: Field, items: list[Json]) -> Iterator[FieldProblem]:
    odd = [index for index, item in enumerate(items) if not isinstance(item, str)]
    for index in odd:
        yield FieldProblem(f"{field.path}[{index}]", f"must be a string, not {kind_of(items[index])}", "type")
    if odd:
        return
    for at, fault in tag_faults(items):
        yield FieldProblem(field.path if at is None else f"{field.path}[{at}]", fault)
