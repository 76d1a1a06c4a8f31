"""Payloads become what the handler's annotation asks for, or the run is given up with the reason."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from tickwheel.adapters.handlers.context import HandlerContext
from tickwheel.adapters.handlers.payloads import PayloadMisfit
from tickwheel.adapters.handlers.registry import Handlers, Registered
from tickwheel.domain.job import Target, TargetType
from tickwheel.ports.executor import Work

if TYPE_CHECKING:
    from fractions import Fraction


class Line(msgspec.Struct):
    sku: str
    quantity: int


class Order(msgspec.Struct):
    customer: str
    lines: list[Line]
    at: datetime | None = None


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0


class Options(TypedDict, total=False):
    depth: int


class Color(enum.Enum):
    RED = "red"


class Refused(ValueError):
    """Looks like pydantic's ValidationError."""

    def errors(self) -> list[dict[str, Any]]:
        return [{"loc": ("lines", 0, "sku"), "msg": "Field required", "input": "secret"}] * 4


class Model:
    """Looks like one of pydantic's models."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    @classmethod
    def model_validate_json(cls, text: bytes) -> Model:
        if text == b"{}":
            raise Refused
        return cls(text)

    @classmethod
    def model_validate(cls, value: object) -> Model:
        if value == {}:
            raise Refused
        return cls(repr(value).encode())


class Anything:
    """No struct, no model."""


def given(function: Any, payload: bytes) -> Any:
    """What the function is called with as its first argument."""
    work = Work(0, b"j" * 16, 1, 1, 1, 1, 2, "t", Target(type=TargetType.HANDLER, name="x"), payload, None)
    return Registered("x", function).arguments(payload, HandlerContext(work))[0]


def of(annotation: Any) -> Any:
    def function(payload: Any) -> None: ...

    function.__annotations__["payload"] = annotation
    return function


@pytest.mark.parametrize(
    ("annotation", "payload", "wanted"),
    [
        (Order, b'{"customer":"a","lines":[{"sku":"s","quantity":2}]}', Order("a", [Line("s", 2)])),
        (
            Order,
            b'{"customer":"a","lines":[],"at":"2026-09-21T14:13:20Z"}',
            Order("a", [], datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)),
        ),
        (Point, b'{"x":1}', Point(1)),
        (Options, b'{"depth":3}', {"depth": 3}),
        (dict[str, int], b'{"a":1}', {"a": 1}),
        (Mapping[str, Any], b'{"a":null}', {"a": None}),
        (int, b"7", 7),
        (str | None, b"", None),
        (Point | None, b'{"x":2}', Point(2)),
        (Literal["a", "b"], b'"b"', "b"),
        (Color, b'"red"', Color.RED),
        (uuid.UUID, b'"12345678-1234-5678-1234-567812345678"', uuid.UUID("12345678-1234-5678-1234-567812345678")),
        (Annotated[int, msgspec.Meta(gt=3)], b"4", 4),
        (Any, b"[1]", [1]),
        (Any, b"", None),
        (object, b"{}", {}),
    ],
)
def test_payload_becomes_what_is_asked_for(annotation: Any, payload: bytes, wanted: Any) -> None:
    assert given(of(annotation), payload) == wanted


@pytest.mark.parametrize(
    ("annotation", "payload", "told"),
    [
        (
            Order,
            b'{"customer":"a","lines":[{"sku":"s","quantity":"two"}]}',
            "the payload doesn't fit Order: Expected `int`, got `str` - at `$.lines[0].quantity`",
        ),
        (Order, b'{"lines":[]}', "missing required field `customer`"),
        (Order, b"", "Expected `object`, got `null`"),
        (Point, b'{"x":1.5}', "Expected `int`, got `float` - at `$.x`"),
        (int, b'"7"', "the payload doesn't fit int: Expected `int`, got `str`"),
        (Annotated[int, msgspec.Meta(gt=3)], b"2", "Expected `int` >= 4"),
        (Model, b"{}", "the payload doesn't fit Model: Field required - at `$.lines.0.sku`; "),
    ],
)
def test_misfit_names_the_path_and_what_was_expected(annotation: Any, payload: bytes, told: str) -> None:
    with pytest.raises(PayloadMisfit) as raised:
        given(of(annotation), payload)
    assert told in str(raised.value)
    assert "secret" not in str(raised.value)


def test_models_are_asked_by_their_own_method() -> None:
    made = given(of(Model), b'{"a":1}')
    assert isinstance(made, Model)
    assert made.text == b'{"a":1}'


def test_models_may_be_parts() -> None:
    assert given(of(Model | None), b"") is None
    assert given(of(Model | None), b'{"a":1}').text == b"{'a': 1}"
    assert [one.text for one in given(of(list[Model]), b"[1,2]")] == [b"1", b"2"]
    with pytest.raises(PayloadMisfit, match=r"Field required - at `\$.lines.0.sku`.* - at `\$\[1\]`") as raised:
        given(of(list[Model]), b"[1,{}]")
    assert "secret" not in str(raised.value)


def test_more_than_a_few_problems_of_a_model_are_counted() -> None:
    with pytest.raises(PayloadMisfit, match="and 1 more"):
        given(of(Model), b"{}")


def test_texts_as_annotations_are_read() -> None:
    def with_text(payload: Order, ctx: HandlerContext) -> None: ...

    assert isinstance(with_text.__annotations__["payload"], str)
    assert given(with_text, b'{"customer":"a","lines":[]}') == Order("a", [])


def test_classes_of_the_surrounding_function_are_found() -> None:
    class Local(msgspec.Struct):
        a: int

    def function(payload: Local) -> Local:
        return Local(payload.a)

    assert given(function, b'{"a":1}').a == 1


def test_annotation_that_is_not_there_at_run_time_is_refused_at_once() -> None:
    def function(payload: Fraction) -> None: ...

    with pytest.raises(ValueError, match="handler 'x': the annotation 'Fraction' of 'payload' can't be read"):
        Handlers().handler("x")(function)


@pytest.mark.parametrize(
    "annotation", [Anything, type(None) | Anything, list[Anything] | dict[str, int] | list[int]]
)
def test_annotation_that_json_can_not_become_is_refused_at_once(annotation: Any) -> None:
    with pytest.raises(ValueError, match="handler 'x': a payload can't become"):
        Handlers().handler("x")(of(annotation))


def test_context_alone_is_given_where_it_is_asked_for() -> None:
    def function(ctx: HandlerContext) -> None: ...

    assert isinstance(given(function, b'{"a":1}'), HandlerContext)


def test_functions_that_take_anything_get_both() -> None:
    work = Work(0, b"j" * 16, 1, 1, 1, 1, 2, "t", Target(type=TargetType.HANDLER, name="x"), b"1", None)
    ctx = HandlerContext(work)
    assert Registered("x", lambda *both: None).arguments(b"1", ctx) == (1, ctx)
    assert Registered("x", lambda payload, *rest: None).arguments(b"1", ctx) == (1, ctx)
