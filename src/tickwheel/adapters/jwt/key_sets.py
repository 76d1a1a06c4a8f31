"""The issuer's public keys (a JWKS), from a file or an address.

Keys are fetched when they are needed first, again after `FRESH_MS`, and when a token names a key that is not
among them, but never more often than each `PAUSE_MS`: tokens with made-up key ids must not become requests to the
issuer. When fetching fails, the keys that were there before stay. Only public keys for signatures are taken; a
symmetric key in the set is left out, since it would let whoever can read the set sign tokens.
"""

import asyncio
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import jwt
import pycurl

from tickwheel.adapters.curl.certificates import find_ca_file
from tickwheel.ports.clock import Clock
from tickwheel.ports.tokens import TokenRefused

FRESH_MS: Final = 600_000
PAUSE_MS: Final = 30_000
FETCH_TIMEOUT_MS: Final = 5_000
SET_LIMIT_BYTES: Final = 1 << 20
_KEY_COUNT_MAX: Final = 100
_ALGORITHM_OF: Final = {("RSA", ""): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}


class PublicKey(NamedTuple):
    """A key and the one algorithm that it is for: a token can't choose another one."""

    key_id: str
    algorithm: str
    key: Any


class KeySet:
    """`find` gives the keys that a token may have been signed with."""

    def __init__(self, source: str, clock: Clock, read: Callable[[str], bytes] | None = None) -> None:
        self._source, self._clock = source, clock
        self._read = read or read_key_set
        self._keys: tuple[PublicKey, ...] = ()
        self._read_at_ms: int | None = None
        self._tried_at_ms: int | None = None
        self._fetching = asyncio.Lock()
        self.problem = ""

    async def find(self, algorithm: str, key_id: str | None) -> Sequence[PublicKey]:
        """Keys for this algorithm, only the named one if one is named. Raises `TokenRefused` without any keys."""
        if self._is_old():
            await self._fetch()
        found = self._matching(algorithm, key_id)
        if not found:
            await self._fetch()
            found = self._matching(algorithm, key_id)
        if not found and not self._keys:
            raise TokenRefused(f"The issuer's keys can't be had: {self.problem or 'there are none'}.")
        return found

    def _matching(self, algorithm: str, key_id: str | None) -> Sequence[PublicKey]:
        return [
            one for one in self._keys if one.algorithm == algorithm and (key_id is None or one.key_id == key_id)
        ]

    def _is_old(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        return (self._read_at_ms is None or now_ms - self._read_at_ms > FRESH_MS) and self._may_try()

    def _may_try(self) -> bool:
        return self._tried_at_ms is None or self._clock.monotonic_ms() - self._tried_at_ms > PAUSE_MS

    async def _fetch(self) -> None:
        """Fetch, or wait for who does so already; nothing within `PAUSE_MS` of the last time."""
        async with self._fetching:
            if not self._may_try():
                return
            self._tried_at_ms = self._clock.monotonic_ms()
            try:
                text = await asyncio.get_running_loop().run_in_executor(None, self._read, self._source)
                self._keys = parse_key_set(text)
                self._read_at_ms, self.problem = self._clock.monotonic_ms(), ""
            except (OSError, ValueError) as error:
                self.problem = str(error)


def parse_key_set(text: bytes) -> tuple[PublicKey, ...]:
    """The usable keys of a JWKS. Raises ValueError."""
    try:
        entries = json.loads(text)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("it is no JSON Web Key Set") from None
    if not isinstance(entries, list) or len(entries) > _KEY_COUNT_MAX:
        raise ValueError(f"it is no list of at most {_KEY_COUNT_MAX} keys")
    keys = []
    for entry in entries:
        key = _public_key(entry) if isinstance(entry, dict) else None
        if key is not None:
            keys.append(key)
    return tuple(keys)


def _public_key(entry: dict[str, Any]) -> PublicKey | None:
    kind = str(entry.get("kty"))
    algorithm = _ALGORITHM_OF.get((kind, "" if kind == "RSA" else str(entry.get("crv"))))
    if algorithm is None or entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm:
        return None
    public = {name: value for name, value in entry.items() if name in {"kty", "crv", "x", "y", "n", "e"}}
    try:
        key = jwt.PyJWK(public, algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if algorithm == "RS256" and key.key_size < 2048:
        return None
    return PublicKey(str(entry.get("kid", "")), algorithm, key)


def read_key_set(source: str) -> bytes:
    """The text at a file's path or an address. Raises OSError and ValueError without quoting the address."""
    if "://" not in source:
        return Path(source).read_bytes()
    body = io.BytesIO()

    def take(chunk: bytes) -> int | None:
        body.write(chunk)
        return None if body.tell() <= SET_LIMIT_BYTES else -1

    handle = pycurl.Curl()
    try:
        handle.setopt(pycurl.URL, source)
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        handle.setopt(pycurl.FOLLOWLOCATION, 0)
        handle.setopt(pycurl.TIMEOUT_MS, FETCH_TIMEOUT_MS)
        handle.setopt(pycurl.WRITEFUNCTION, take)
        ca_file = find_ca_file()
        if ca_file is not None:
            handle.setopt(pycurl.CAINFO, ca_file)
        handle.perform()
        status = handle.getinfo(pycurl.RESPONSE_CODE)
    except pycurl.error as error:
        raise OSError(f"the issuer's address can't be read (libcurl error {error.args[0]})") from None
    finally:
        handle.close()
    if status != 200:
        raise OSError(f"the issuer's address answered {status}")
    return body.getvalue()
