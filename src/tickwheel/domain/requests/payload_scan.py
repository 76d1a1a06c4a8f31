"""What is wrong inside a payload, with the path to it.

A payload is any JSON, kept byte for byte: escapes such as \\u0000, huge numbers and repeated keys stay as they
are. Refused is only what is no JSON text, or what no reader could decode again: raw control characters, bytes
that are not UTF-8, lone surrogates (escaped or not), NaN and Infinity, and nesting without end.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from tickwheel.domain import limits
from tickwheel.domain.errors import FieldProblem
from tickwheel.domain.requests.strict_json import Json, NotJson

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_SHOWN_KEY_CHARS: Final = 40
_SHOWN_PATH_CHARS: Final = 200
_MOST_PROBLEMS: Final = 20


class _PayloadOnly(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw(b"")


_PAYLOAD_DECODER: Final = msgspec.json.Decoder(_PayloadOnly)


def payload_text(raw: bytes) -> bytes:
    """The text of the payload within the body `raw`; empty where there is none or the body can't be decoded."""
    try:
        return bytes(_PAYLOAD_DECODER.decode(raw).payload)
    except (msgspec.MsgspecError, RecursionError):
        return b""


def surrogate_fault(text: str) -> str | None:
    """What a lone surrogate in a decoded string stands for, and the remedy."""
    found = _SURROGATE.search(text)
    if found is None:
        return None
    code = ord(found[0])
    where = f"at character {found.start() + 1}"
    if 0xDC00 <= code <= 0xDC1F:
        return f"has a raw control character (escape it as \\u{code - 0xDC00:04x}) or a lone surrogate {where}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"has a byte that is not UTF-8, or a lone surrogate, {where}; send UTF-8"
    return f"has a lone surrogate (\\u{code:04x}) {where}, which is no Unicode text"


def payload_problems(payload: Json, path: str = "payload") -> Iterator[FieldProblem]:
    """All that is wrong with a decoded payload, the first twenty at most."""
    found = 0
    stack: list[tuple[str, Json, int]] = [(path, payload, 0)]
    while stack and found < _MOST_PROBLEMS:
        where, value, depth = stack.pop()
        fault = _value_fault(value, depth)
        if fault is not None:
            found += 1
            yield FieldProblem(_clipped(where), fault)
        elif isinstance(value, dict):
            for key in value:
                key_fault = surrogate_fault(key)
                if key_fault is not None:
                    found += 1
                    yield FieldProblem(step(where, key), f"the key {key_fault}")
            stack.extend((step(where, key), inner, depth + 1) for key, inner in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend((f"{where}[{i}]", value[i], depth + 1) for i in range(len(value) - 1, -1, -1))


def step(path: str, key: str) -> str:
    """`path` one member further down; odd keys are shown escaped and short."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}" if path else key
    shown = ascii(key[:_SHOWN_KEY_CHARS] + ("..." if len(key) > _SHOWN_KEY_CHARS else ""))
    return f"{path}[{shown}]"


def _clipped(path: str) -> str:
    return path if len(path) <= _SHOWN_PATH_CHARS else path[:_SHOWN_PATH_CHARS] + "..."


def _value_fault(value: Json, depth: int) -> str | None:
    if isinstance(value, str):
        return surrogate_fault(value)
    if isinstance(value, NotJson):
        return f"is {value.token}, which JSON does not have; send null or a string"
    if isinstance(value, dict | list) and depth >= limits.PAYLOAD_DEPTH:
        return f"nests deeper than {limits.PAYLOAD_DEPTH} levels"
    return None
