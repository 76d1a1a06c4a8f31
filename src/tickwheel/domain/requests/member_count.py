"""Counting members, to see repeated keys that a decoder drops (see `domain.requests.request`)."""

from typing import Final

import msgspec

_BLANKS: Final = b" \t\n\r"


def visible_members(text: bytes) -> int:
    """At least as many as the objects in a JSON text have members, repeated ones counted each."""
    return text.translate(None, _BLANKS).count(b'":')


def given_count(body: msgspec.Struct) -> int:
    """How many fields of `body` are not None."""
    values = msgspec.structs.astuple(body)
    return len(values) - values.count(None)
