"""API keys: how they look, and what is stored of them.

A key is `tw_<id>_<secret>`: the id (60 bits) is public and finds the record, the secret (160 bits) is shown once
and stored as its SHA-256 only. A slow hash would gain nothing: nobody can try 2^160 secrets.
"""

import hashlib
import hmac
import re
from typing import Final

import msgspec

from tickwheel.domain.access import Principal, Role, Scope, narrowed

PREFIX: Final = "tw_"
ID_BYTES: Final = 8  # of randomness; 12 characters are kept
SECRET_BYTES: Final = 20
_ALPHABET: Final = "abcdefghjkmnpqrstvwxyz0123456789"  # 32 characters; no i, l, o, u
_ID_CHARS: Final = 12
_KEY: Final = re.compile(rf"tw_([{_ALPHABET}]{{{_ID_CHARS}}})_([{_ALPHABET}]{{32}})", re.ASCII)


class ApiKey(msgspec.Struct, frozen=True):
    """The stored part. Instants are UTC epoch ms; None: never. `old_hash` holds until `old_until_ms`."""

    hash: str
    role: Role
    scopes: tuple[Scope, ...] = ()  # some of the role's; none: all of them
    label: str = ""
    created_ms: int = 0
    expires_ms: int | None = None
    old_hash: str = ""
    old_until_ms: int = 0

    def fits(self, secret: str, now_ms: int) -> bool:
        """Whether this is its secret, or within the grace time of a rotation the one before, and it holds now."""
        given = secret_hash(secret)
        is_new = hmac.compare_digest(given, self.hash)
        is_old = hmac.compare_digest(given, self.old_hash or "-") and now_ms < self.old_until_ms
        return (is_new or is_old) and not self.expired(now_ms)

    def expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return self.expires_ms is not None and now_ms >= self.expires_ms

    def until_ms(self, secret: str) -> int | None:
        """When this secret stops to fit by itself; None: never."""
        ends = [self.expires_ms]
        if secret_hash(secret) != self.hash:
            ends.append(self.old_until_ms)
        return min((end for end in ends if end is not None), default=None)

    def principal(self, key_id: str, tenant_id: str) -> Principal:
        """Who sends it; the empty tenant stands for all of them."""
        return Principal(f"key:{key_id}", narrowed(self.role, self.scopes), tenant_id or None)


def make_id(randomness: bytes) -> str:
    """The id of a new key, from `ID_BYTES` of randomness."""
    return _letters(randomness)[:_ID_CHARS]


def make_secret(randomness: bytes) -> str:
    """The secret of a new key, from `SECRET_BYTES` of randomness."""
    return _letters(randomness)


def key_text(key_id: str, secret: str) -> str:
    """The whole key, as its user sends it."""
    return f"{PREFIX}{key_id}_{secret}"


def parse_key(text: str) -> tuple[str, str] | None:
    """(id, secret), or None for what is no key."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2])


def secret_hash(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _letters(randomness: bytes) -> str:
    number, letters = int.from_bytes(randomness, "big"), []
    for _ in range(len(randomness) * 8 // 5):
        number, digit = divmod(number, 32)
        letters.append(_ALPHABET[digit])
    return "".join(letters)
