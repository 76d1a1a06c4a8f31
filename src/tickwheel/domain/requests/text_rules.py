"""What texts of our own fields may hold. Each check gives None, or what is wrong and how to put it right."""

import re
from collections.abc import Sequence
from typing import Final

from tickwheel.domain import limits

_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
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


def tenant_fault(tenant_id: str) -> str | None:
    """Of `tenant_id`."""
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
