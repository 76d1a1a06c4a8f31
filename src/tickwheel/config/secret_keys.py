"""Keys that stored secrets are sealed under, as people write them: `ID:BASE64`, or the base64 alone.

A key is 32 random bytes. Its id is stored beside everything that it sealed, so that keys can be changed: the first
one seals, all of them open. A key without an id is named after a fingerprint of itself. No error quotes a key.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from typing import Final

import msgspec

KEY_BYTES: Final = 32
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}", re.ASCII)
_COMMENT: Final = "#"


class SecretKey(msgspec.Struct, frozen=True):
    """One key. Its repr shows the id only."""

    id: str
    key: bytes

    def __repr__(self) -> str:
        return f"SecretKey(id={self.id!r})"


def parse_secret_key(text: str) -> SecretKey:
    """Raises ValueError with what is wrong, without quoting it."""
    name, colon, encoded = text.strip().rpartition(":")
    if colon and not _ID.fullmatch(name):
        raise ValueError("the id of a key is 1 to 32 letters, digits, _ . -, before a colon")
    try:
        key = base64.b64decode(encoded, altchars=b"-_" if set(encoded) & {"-", "_"} else None, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a key is base64, with an id and a colon before it or alone") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}; make one with `tickwheel secrets keygen`")
    return SecretKey(name or _fingerprint(key), key)


def parse_secret_keys(lines: Iterable[str]) -> list[SecretKey]:
    """The keys of a file: one a line; blank lines and lines that begin with # are left out.

    Raises ValueError, with the number of the line.
    """
    keys = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith(_COMMENT):
            try:
                keys.append(parse_secret_key(text))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    return keys


def without_repetitions(keys: Iterable[SecretKey]) -> list[SecretKey]:
    """In the order given. Raises ValueError for two keys under one id."""
    known: dict[str, SecretKey] = {}
    for key in keys:
        if known.setdefault(key.id, key) != key:
            raise ValueError(f"two different keys have the id {key.id!r}; give one of them another")
    return list(known.values())


def key_line(key: SecretKey) -> str:
    """As `parse_secret_key` reads it."""
    return f"{key.id}:{base64.b64encode(key.key).decode()}"


def _fingerprint(key: bytes) -> str:
    return "k" + hashlib.sha256(b"tickwheel: id of a secrets key" + key).hexdigest()[:8]
