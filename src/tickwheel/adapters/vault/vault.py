"""Sealing with AES-256-GCM under keys that are given.

Of each key two others are derived (HKDF-SHA256), one that encrypts and one that makes nonces. The nonce is not
drawn: it is the first 12 bytes of HMAC-SHA256 over context and text. So the same text in the same context gives
the same sealed text (definitions can be compared, caches hold), and different ones get different nonces, without a
counter or a source of randomness that several processes would have to share. What an onlooker learns is that two
texts of one context are equal, and how long they are. After 2^32 texts the chance that two of them got the same
nonce is 2^-33.

The context is authenticated together with the key's id, and not stored.

`cryptography` is loaded when the first text is sealed or opened: it costs memory and some ten milliseconds, and
most jobs have no secrets.
"""

import base64
import binascii
import hmac
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from tickwheel.config.secret_keys import SecretKey
from tickwheel.domain.sealed import SEALED, is_sealed
from tickwheel.ports.vault import CannotOpen

CACHE_COUNT: Final = 2_048
"""Texts that are kept, sealed and opened each: at most 8 MiB with the longest header values."""
NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16


class _Cipher(Protocol):
    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...


class KeyVault:
    """Implements `ports.vault.Vault`: the first key seals, all of them open."""

    def __init__(self, keys: Sequence[SecretKey] = ()) -> None:
        self._keys = {key.id: _Key(key) for key in keys}
        self._first = self._keys[keys[0].id] if keys else None
        self._sealed = lru_cache(maxsize=CACHE_COUNT)(self._seal)
        self._opened = lru_cache(maxsize=CACHE_COUNT)(self._open)

    @property
    def seals(self) -> bool:
        return self._first is not None

    @property
    def key_id(self) -> str:
        return "" if self._first is None else self._first.id

    @property
    def key_ids(self) -> Sequence[str]:
        """Of all keys that open."""
        return tuple(self._keys)

    @property
    def kept_count(self) -> int:
        """Texts that are kept for the next time."""
        return self._sealed.cache_info().currsize + self._opened.cache_info().currsize

    def seal(self, text: str, context: str) -> str:
        return text if self._first is None else self._sealed(text, context)

    def open(self, text: str, context: str) -> str:
        return self._opened(text, context) if is_sealed(text) else text

    def _seal(self, text: str, context: str) -> str:
        assert self._first is not None
        return self._first.seal(text, context)

    def _open(self, text: str, context: str) -> str:
        key_id, _, encoded = text.removeprefix(SEALED).partition(":")
        key = self._keys.get(key_id)
        if key is None:
            known = f"known here: {', '.join(self._keys)}" if self._keys else "no key is set here"
            raise CannotOpen(f"it is sealed under the key {key_id[:32]!r}, which is not known ({known})")
        return key.open(encoded, context)

    def __repr__(self) -> str:
        return f"KeyVault({list(self._keys)!r})"


class _Key:
    """One key and what is derived from it."""

    __slots__ = ("_cipher", "_encrypts", "_makes_nonces", "id")

    def __init__(self, key: SecretKey) -> None:
        self.id = key.id
        self._encrypts = derived(key.key, b"tickwheel 1 encrypts")
        self._makes_nonces = derived(key.key, b"tickwheel 1 makes nonces")
        self._cipher: _Cipher | None = None

    def seal(self, text: str, context: str) -> str:
        data, bound = text.encode(), self._bound(context)
        # The length goes before the context: no other pair of context and text reads the same.
        message = len(bound).to_bytes(8, "big") + bound + data
        nonce = hmac.digest(self._makes_nonces, message, "sha256")[:NONCE_BYTES]
        sealed = nonce + self._aes().encrypt(nonce, data, bound)
        return f"{SEALED}{self.id}:{base64.urlsafe_b64encode(sealed).decode().rstrip('=')}"

    def open(self, encoded: str, context: str) -> str:
        try:
            sealed = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            sealed = b""
        nonce, data = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        if len(data) >= _TAG_BYTES:
            from cryptography.exceptions import InvalidTag

            try:
                return self._aes().decrypt(nonce, data, self._bound(context)).decode()
            except (InvalidTag, UnicodeDecodeError):
                pass
        raise CannotOpen(
            f"it was not sealed for this use under the key {self.id!r}, or was changed since"
        ) from None

    def _bound(self, context: str) -> bytes:
        return f"{self.id}\x1e{context}".encode()

    def _aes(self) -> _Cipher:
        if self._cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._cipher = AESGCM(self._encrypts)
        return self._cipher


def derived(key: bytes, purpose: bytes) -> bytes:
    """HKDF (RFC 5869) with SHA-256 and no salt: 32 bytes for one purpose, which is one block of its output."""
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, purpose + b"\x01", "sha256")
