"""What the decoder says is wrong with a value, in words for people who send JSON and know no types of Python.

Example: "Expected `int` >= 60" is told as "must be a whole number of at least 60".
"""

import re
from typing import Final

_KINDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
_TYPES: Final = r"`(?P<kinds>[a-z]+(?: \| [a-z]+)*)`"
_BOUND: Final = re.compile(rf"Expected {_TYPES} (?P<sign>>=|<=|>|<) (?P<bound>-?[\d.]+)")
_LENGTH: Final = re.compile(rf"Expected {_TYPES} of length (?P<sign>>=|<=) (?P<bound>\d+)")
_OTHER: Final = re.compile(rf"Expected {_TYPES}, got `(?P<given>[a-z]+)`")
_PATTERN: Final = re.compile(rf"Expected {_TYPES} matching regex .*", re.DOTALL)
_CHOICE: Final = re.compile(r"Invalid enum value (?P<given>.*)", re.DOTALL)
_SIGNS: Final = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_COUNTED: Final = {"str": "character", "array": "entry", "object": "member"}


def plain_words(text: str) -> str:
    """The same for people; what isn't known here stays as it is, with a small first letter."""
    if found := _BOUND.fullmatch(text):
        return f"must be {_kinds(found['kinds'])} {_SIGNS[found['sign']]} {found['bound']}"
    if found := _LENGTH.fullmatch(text):
        amount = {">=": "at least", "<=": "at most"}[found["sign"]]
        return f"must have {amount} {_counted(found['kinds'].partition(' ')[0], int(found['bound']))}"
    if found := _OTHER.fullmatch(text):
        return f"must be {_kinds(found['kinds'])}, not {_KINDS.get(found['given'], found['given'])}"
    if _PATTERN.fullmatch(text):
        return "does not have the form that is asked for"
    if found := _CHOICE.fullmatch(text):
        return f"{found['given']} is none of the values that are known here"
    return text[:1].lower() + text[1:]


def _kinds(names: str) -> str:
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))


def _counted(kind: str, count: int) -> str:
    one = _COUNTED.get(kind, "part")
    many = "entries" if one == "entry" else f"{one}s"
    return f"{count} {one if count == 1 else many}"
