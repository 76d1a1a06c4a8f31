"""JSON decoded so that nothing odd is lost on the way, for error texts.

Ordinary decoders keep the last of two equal keys, take NaN, and give a byte position for a stray NUL. Here the
tree keeps repeated keys and marks what is not JSON in its place, so that a walker can name the path. Slow; used
only once a request has been turned away.

A raw control character `b` in a string stands in the tree as the lone surrogate U+DC00 + b, a byte `b` that is
not UTF-8 as U+DC00 + b too (`surrogateescape`; those are 0x80 and above).
"""

import json
from collections import Counter
from typing import Any, Final, TypeAlias

from tickwheel.domain.requests.json_depth import nests_deeper_than

Json: TypeAlias = Any
"""A tree: `Members`, list, str, int, float, bool, None or `NotJson`."""

_RAW_CONTROLS: Final = {code: chr(0xDC00 + code) for code in range(32) if chr(code) not in "\t\n\r"}
_DECODER_DEPTH: Final = 500
_LONGEST_INTEGER: Final = 40


class Members(dict[str, Json]):
    """An object, and the keys that came more than once in it."""

    repeated: tuple[str, ...] = ()


class NotJson:
    """A token in the place of a value that JSON does not have, such as NaN."""

    def __init__(self, token: str) -> None:
        self.token = token


class JsonFault(ValueError):
    """Not a JSON text at all; the message says where."""


def load(raw: bytes) -> Json:
    """The tree of `raw`. Raises `JsonFault`."""
    text = raw.decode("utf-8", "surrogateescape").translate(_RAW_CONTROLS)
    if not text.strip():
        raise JsonFault("is empty")
    if text.startswith("\ufeff"):
        raise JsonFault("starts with a byte order mark; send UTF-8 without one")
    if nests_deeper_than(raw, _DECODER_DEPTH):
        raise JsonFault(f"nests deeper than {_DECODER_DEPTH} levels")
    try:
        return json.loads(
            text, object_pairs_hook=_members, parse_constant=NotJson, parse_int=_integer, parse_float=float
        )
    except json.JSONDecodeError as error:
        cut = " (cut off in the middle?)" if error.pos >= len(text.rstrip()) else ""
        raise JsonFault(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}{cut}") from error
    except RecursionError as error:
        raise JsonFault("nests too deeply") from error


def kind_of(value: Json) -> str:
    """The JSON word for the kind of `value`, with its article."""
    if isinstance(value, NotJson):
        return f"{value.token}, which JSON does not have"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a number with a fraction or exponent"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, dict) else "an array"


def _members(pairs: list[tuple[str, Json]]) -> Members:
    members = Members(pairs)
    if len(members) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        members.repeated = tuple(key for key, count in counts.items() if count > 1)
    return members


def _integer(digits: str) -> int:
    return int(digits[:_LONGEST_INTEGER])  # longer ones are out of every range anyway
