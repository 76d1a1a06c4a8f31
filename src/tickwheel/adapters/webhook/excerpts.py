"""The kept beginning of an answer without the secrets of its request: some servers answer an error by showing it.

What is looked for are the values of headers as they were sent, credentials also without their scheme (`Bearer`),
and the password of basic authentication. A value that the end of the excerpt cuts off is found by its beginning.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from tickwheel.domain.redaction import HIDDEN
from tickwheel.domain.sealed import HARMLESS_HEADERS

SHORTEST_BYTES: Final = 6
"""What is shorter is left: it would be found in half of all texts, and the gaps would show it."""
_HIDDEN: Final = HIDDEN.encode()


def without_secrets(excerpt: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    """The excerpt with each value of these headers replaced."""
    found = {secret for name, value in headers if name.lower() not in HARMLESS_HEADERS for secret in _parts(value)}
    for secret in sorted(found, key=len, reverse=True):
        excerpt = _without_end(excerpt.replace(secret, _HIDDEN), secret)
    return excerpt


def _parts(value: str) -> Iterator[bytes]:
    text = value.strip()
    scheme, _, credentials = text.partition(" ")
    parts = [text.encode(), credentials.strip().encode()]
    if scheme.lower() == "basic":
        with suppress(binascii.Error, ValueError):
            parts.append(base64.b64decode(credentials, validate=True).partition(b":")[2])
    return (part for part in parts if len(part) >= SHORTEST_BYTES)


def _without_end(excerpt: bytes, secret: bytes) -> bytes:
    for length in range(min(len(secret) - 1, len(excerpt)), SHORTEST_BYTES - 1, -1):
        if excerpt.endswith(secret[:length]):
            return excerpt[:-length] + _HIDDEN
    return excerpt
