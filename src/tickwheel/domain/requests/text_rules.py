"""What texts of our own fields may hold. Each check gives None, or what is wrong and how to put it right."""

import re
from collections.abc import Sequence
from typing import Final

from tickwheel.domain import limits

_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_TURNING: Final = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What changes the direction of the letters around it: `\\u202egpj.exe` is shown as `exe.jpg`."""
_BLANKS: Final = frozenset(" \u115f\u1160\u2800\u3164\uffa0")
"""Printable, and yet nothing is seen of them."""
_UNSEEN_IN_NAMES: Final = _BLANKS - {" "}
_TAKEN_TENANTS: Final = {
    "*": "stands for all tenants where tenants are listed",
    ".": "means something else in an address",
    "..": "means something else in an address",
}
_KEY: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)


def text_fault(text: str) -> str | None:
    """Of a text for people: no control characters (NUL among them) and no lone surrogates."""
    if text.isprintable():
        return None
    found = _UNFIT.search(text)
    if found is None:
        return None
    kind = "lone surrogate" if "\ud800" <= found[0] <= "\udfff" else "control character"
    return f"has a {kind} (U+{ord(found[0]):04X}) at character {found.start() + 1}; remove it"


def name_fault(name: str) -> str | None:
    """Of the name of something new: that it can be seen, and read in one way only. The empty one is none."""
    fault = text_fault(name)
    if fault is not None or not name:
        return fault
    if shows_nothing(name):
        return "shows nothing; give it a letter or a digit, or leave it out"
    return None if name.isprintable() else _turning_fault(name)


def shows_nothing(text: str) -> bool:
    """Whether a reader sees nothing of it."""
    return all(letter in _BLANKS or not letter.isprintable() for letter in text)


def new_tenant_fault(tenant_id: str) -> str | None:
    """Of a `tenant_id` for which something is made; stored ones are found by `tenant_fault`, which is milder."""
    fault = tenant_fault(tenant_id)
    if fault is not None:
        return fault
    if shows_nothing(tenant_id):
        return "shows nothing; give it a letter or a digit"
    if tenant_id in _TAKEN_TENANTS:
        return f"{_TAKEN_TENANTS[tenant_id]}; choose another name"
    if tenant_id != tenant_id.strip():
        return "has a blank at an end; remove it"
    if tenant_id.isprintable() and _UNSEEN_IN_NAMES.isdisjoint(tenant_id):
        return None
    for position, letter in enumerate(tenant_id):
        if not letter.isprintable() or letter in _UNSEEN_IN_NAMES:
            return f"has an invisible character (U+{ord(letter):04X}) at character {position + 1}; remove it"
    return None


def _turning_fault(text: str) -> str | None:
    found = _TURNING.search(text)
    if found is None:
        return None
    return f"has a direction character (U+{ord(found[0]):04X}) at character {found.start() + 1}; remove it"


def tenant_fault(tenant_id: str) -> str | None:
    """Of a `tenant_id` that is looked for."""
    if not tenant_id:
        return "must not be empty; leave it out for the default tenant"
    if len(tenant_id) > limits.TENANT_CHARS:
        return f"has {len(tenant_id)} characters; at most {limits.TENANT_CHARS} are allowed"
    return text_fault(tenant_id)


def key_fault(key: str) -> str | None:
    """Of `idempotency_key`: it travels as a header too."""
    if not 1 <= len(key) <= limits.IDEMPOTENCY_KEY_CHARS:
        return f"has {len(key)} characters; 1 to {limits.IDEMPOTENCY_KEY_CHARS} are allowed"
    if _KEY.fullmatch(key) is None:
        return "must be printable ASCII without a blank at an end"
    return None


def tag_faults(tags: Sequence[str]) -> list[tuple[int | None, str]]:
    """(index or None, fault) of all that is wrong with `tags`."""
    faults: list[tuple[int | None, str]] = []
    if len(tags) > limits.TAG_COUNT:
        faults.append((None, f"has {len(tags)} tags; at most {limits.TAG_COUNT} are allowed"))
    seen: set[str] = set()
    for index, tag in enumerate(tags):
        fault = text_fault(tag)
        if not 1 <= len(tag) <= limits.TAG_CHARS:
            fault = f"has {len(tag)} characters; 1 to {limits.TAG_CHARS} are allowed"
        elif tag in seen:
            fault = "is given twice; name each tag once"
        seen.add(tag)
        if fault is not None:
            faults.append((index, fault))
    return faults
