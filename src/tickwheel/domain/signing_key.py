"""Keys that webhooks are signed with: how they are written, and what is stored of them.

A signing secret of a tenant has a name and one key, or two for a while after it was rotated: then requests carry a
signature by each, so a receiver may take the new key over at any moment of that time.
"""

import base64
import binascii
from typing import Final

import msgspec

SCHEME: Final = "whsec_"
KEY_BYTES: Final = 32
"""Of a key that is made here."""
_KEY_BYTES_MIN: Final = 24
_KEY_BYTES_MAX: Final = 64
LIVE_COUNT: Final = 2
"""Keys of one secret that sign at a time."""
DEFAULT_NAME: Final = "default"
"""The secret that signs what names none."""


class SigningKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """One key as it is stored. `sealed` is its text under the vault; `until_ms` None: until it is rotated."""

    id: str
    sealed: str
    created_ms: int
    until_ms: int | None = None

    def signs(self, now_ms: int) -> bool:
        """Whether it is in use."""
        return self.until_ms is None or now_ms < self.until_ms


class SigningSecret(msgspec.Struct, frozen=True):
    """The stored record, newest key first."""

    keys: tuple[SigningKey, ...]

    def live(self, now_ms: int) -> tuple[SigningKey, ...]:
        """The keys that sign now."""
        return tuple(key for key in self.keys if key.signs(now_ms))


def parse_secret(text: str) -> bytes:
    """The key in a `whsec_<base64>` secret (24 to 64 bytes). Raises ValueError without quoting the secret."""
    try:
        key = base64.b64decode(text.removeprefix(SCHEME), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a signing secret is base64 text, with or without {SCHEME} before it") from None
    if not _KEY_BYTES_MIN <= len(key) <= _KEY_BYTES_MAX:
        raise ValueError(f"a signing secret holds {_KEY_BYTES_MIN} to {_KEY_BYTES_MAX} bytes")
    return key


def secret_text(key: bytes) -> str:
    """The secret as receivers are told it."""
    return SCHEME + base64.b64encode(key).decode()
