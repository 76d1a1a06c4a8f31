"""From the stored payload to the argument of a handler.

The annotation of the first parameter says what it wants. msgspec decodes straight from the bytes: structs,
dataclasses, TypedDicts, NamedTuples, builtin types and unions of them, dates, UUIDs, enums. A class with a
`model_validate_json` (pydantic's models) is asked by that name, so nothing has to be imported for it here.
"""

import typing
from collections.abc import Callable
from inspect import Parameter
from typing import Any, Final

import msgspec
from msgspec.inspect import CustomType, Type, UnionType, type_info

Decode = Callable[[bytes], Any]
decode_anything: Final = msgspec.json.Decoder().decode
_MODEL_METHOD: Final = "model_validate_json"
_PART_METHOD: Final = "model_validate"
_SHOWN_ERRORS: Final = 3


class PayloadMisfit(Exception):
    """The payload is not what the handler's annotation asks for; trying again is no use."""


def annotation_of(function: Callable[..., Any], parameter: Parameter) -> Any:
    """What the parameter is annotated with, also where it is text; `Any` without one.

    Raises `ValueError` where a text names something that is not there at run time.
    """
    written = parameter.annotation
    if written is Parameter.empty:
        return Any
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    names = {} if code is None else _filled(code.co_freevars, cells)
    holder = type("_", (), {"__annotations__": {"payload": written}})
    try:
        hints = typing.get_type_hints(holder, getattr(function, "__globals__", {}), names, include_extras=True)
    except NameError as error:
        raise ValueError(
            f"the annotation {written!r} of {parameter.name!r} can't be read at run time ({error}): "
            "import what it names outside of `if TYPE_CHECKING`, or annotate with Any"
        ) from None
    return hints["payload"]


def _filled(names: tuple[str, ...], cells: tuple[Any, ...]) -> dict[str, Any]:
    found = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def decoder_for(wanted: Any) -> Decode:
    """The way from bytes (b"" = no payload) to a `wanted`. Raises `ValueError` for what JSON can't become."""
    if wanted is Any or wanted is object:
        return decode_anything
    if isinstance(wanted, type) and hasattr(wanted, _MODEL_METHOD):
        return _model_decoder(wanted)
    name = _name_of(wanted)
    try:
        if _is_unknown(type_info(wanted)):
            raise TypeError("it is no struct, dataclass, TypedDict, builtin type or model")
        decode = msgspec.json.Decoder(wanted, dec_hook=_made).decode
    except TypeError as error:
        raise ValueError(f"a payload can't become {name}: {error}") from None

    def decode_typed(payload: bytes) -> Any:
        try:
            return decode(payload or b"null")
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise PayloadMisfit(f"the payload doesn't fit {name}: {error}") from None

    return decode_typed


def _is_unknown(info: Type) -> bool:
    parts = info.types if isinstance(info, UnionType) else (info,)
    return any(isinstance(part, CustomType) and not hasattr(part.cls, _PART_METHOD) for part in parts)


def _made(kind: type, value: Any) -> Any:
    """A model within something else: `Model | None`, `list[Model]`."""
    validate = getattr(kind, _PART_METHOD, None)
    if validate is None:
        raise TypeError(f"a payload can't become {kind.__name__}")
    try:
        return validate(value)
    except ValueError as error:
        raise ValueError(_model_errors(error)) from None


def _model_decoder(model: type) -> Decode:
    validate = getattr(model, _MODEL_METHOD)

    def decode_model(payload: bytes) -> Any:
        try:
            return validate(payload or b"null")
        except ValueError as error:  # pydantic's ValidationError is one
            raise PayloadMisfit(f"the payload doesn't fit {model.__name__}: {_model_errors(error)}") from None

    return decode_model


def _model_errors(error: ValueError) -> str:
    """Paths and expectations, without the values that were sent."""
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return str(error)
    found = listed()
    paths = [".".join(["$", *map(str, one.get("loc", ()))]) for one in found]
    shown = [f"{one.get('msg')} - at `{path}`" for one, path in zip(found, paths, strict=True)][:_SHOWN_ERRORS]
    more = len(found) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _name_of(wanted: Any) -> str:
    return wanted.__name__ if isinstance(wanted, type) and not typing.get_args(wanted) else str(wanted)
