"""Bodies of the small requests: decoded into their type, with the fault named by field."""

import re
from typing import Any, Final, TypeVar

import msgspec

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.requests.decoder_words import plain_words
from tickwheel.domain.requests.request_problems import repeated_keys
from tickwheel.domain.requests.strict_json import JsonFault, Members, load
from tickwheel.interfaces.http.wire import Refusal

T = TypeVar("T")

_PATH: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]*)`")


def decode(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """The decoded body; raises `InvalidRequest` for a wrong field and `Refusal` for what is not JSON."""
    _refuse_odd_text(body)
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidRequest([_problem(str(error), decoder.type)]) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal("malformed_json", f"The body is not JSON: {error}") from error


def decode_tree(body: bytes) -> dict[str, Any]:
    """The members of an object whose fields somebody else reads. Raises as `decode` does."""
    _refuse_odd_text(body)
    try:
        tree: dict[str, Any] = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal("malformed_json", f"The body is not JSON: {error}") from error
    return tree


def _refuse_odd_text(body: bytes) -> None:
    """Refuse what is no JSON object, and repeated keys: the decoder would keep the last one without a word."""
    try:
        tree = load(body)
    except JsonFault as fault:
        raise Refusal("malformed_json", f"The body {fault}.") from fault
    if not isinstance(tree, Members):
        raise Refusal("malformed_json", "The body must be a JSON object.")
    problems = list(repeated_keys("", tree))
    if problems:
        raise InvalidRequest(problems)


def _problem(text: str, kind: Any) -> FieldProblem:
    known = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))
    found = _PATH.match(text)
    what, path = (found["what"], found["path"] or "") if found else (text, "")
    for pattern, code, message in (
        (_UNKNOWN, "unknown", f"is not a field of this request; it has: {known}"),
        (_MISSING, "required", "is required"),
    ):
        name = pattern.match(what)
        if name:
            return FieldProblem(f"{path}.{name['name']}" if path else name["name"], message, code)
    return FieldProblem(path or "body", plain_words(what))
